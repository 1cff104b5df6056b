"""What a shell offers, held against what there is."""

import os
import subprocess
import sys

import pytest

from mtgcn import datasets
from mtgcn.cli import options as completion
from mtgcn.methods import METHODS


def test_the_names_are_those_that_exist():
    assert list(datasets.NAMES) == list(completion.DATASETS)
    ours = [name for name, method in METHODS.items() if method.__module__.startswith("mtgcn.")]
    assert sorted(ours) == sorted(completion.METHODS)


def test_a_list_of_methods_goes_on_after_its_comma():
    assert completion.method_lists("mt") == ["mt-gcn", "mt-plus"]
    assert completion.method_lists("mt-gcn,mt") == ["mt-gcn,mt-plus"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("mtgcn com", {"compare"}),
        ("mtgcn run --method mt", {"mt-gcn", "mt-plus"}),
        ("mtgcn compare --dataset ci", {"citeseer"}),
        ("mtgcn methods mt", {"mt-gcn", "mt-plus"}),
        ("mtgcn compare --lab", {"--labels", "--labels-per-class"}),
    ],
)
def test_bash_is_offered_what_may_follow(typed, offered):
    words = typed.split()
    asked = {"_MTGCN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    program = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
        "from mtgcn.cli.app import main; main([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == offered
    assert done.stderr == "False\n"  # the Tab key does not wait for torch
