"""A process that is a command searches seldom for unreachable objects; one that only calls a command is left alone."""

import gc
import subprocess
import sys

from mtgcn.cli import app as cli
from mtgcn.cli.process import GC_THRESHOLD

TOLD = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 0))  # after what is registered later
from mtgcn.cli.app import main
sys.argv = ["mtgcn", "--version"]
main()
"""


def test_a_process_that_is_the_command_searches_seldom_and_not_at_its_end():
    done = subprocess.run([sys.executable, "-c", TOLD], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{GC_THRESHOLD} True"


def test_a_program_that_calls_a_command_keeps_its_habits(capsys):
    before = gc.get_threshold()
    assert cli.main(["--version"]) == 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
