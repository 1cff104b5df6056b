"""A surface that breaks in every way there is, so that it can be shown that the attack finds it out."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path
from random import Random

import numpy as np

from fuzz.trial import Trial, require
from mtgcn.errors import InputError


def drawn(random: Random) -> Trial:
    return KEPT[random.randrange(2)]


def _raises(error: BaseException):
    def attempt(folder: Path) -> None:
        raise error

    return attempt


def _hangs(folder: Path) -> None:
    while True:
        pass


HOLDING = (Trial("all is well", lambda folder: None), Trial("refused", _raises(InputError("0 is too few; give 1"))))
BREAKING = (
    Trial("a traceback", _raises(KeyError("x"))),
    Trial("a refusal without a word", _raises(InputError(""))),
    Trial("a refusal without end", _raises(InputError("x" * 10_000))),
    Trial("a warning", lambda folder: warnings.warn("overflow", RuntimeWarning, stacklevel=1)),
    Trial("an unsound answer", lambda folder: require(False, "NaN")),
    Trial("an exit", lambda folder: sys.exit(0)),
    Trial("more memory than there is", lambda folder: print(len(np.ones(2**30)))),
    Trial("more time than there is", _hangs),
    Trial("a process that ends", lambda folder: os._exit(0)),
    Trial("a process that is killed", lambda folder: os.kill(os.getpid(), signal.SIGSEGV)),
)
KEPT = (*HOLDING, *BREAKING)
