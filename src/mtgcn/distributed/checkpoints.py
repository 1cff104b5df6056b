"""Checkpoints of a training: one file, written by rank 0 to a folder that all ranks can reach.

Values of nodes are stored in the order of the node table, so that any number of ranks can continue.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.distributed.shards import LocalGraph
from mtgcn.errors import InputError, reason
from mtgcn.storage.files import check_folder, parsed_json, read_plain, write_file
from mtgcn.training.loop import FirstEpochs, State

FILE = "checkpoint.npz"
FIT, FIRST_EPOCHS = "fit", "first epochs"  # entries besides the state


@dataclass(frozen=True, eq=False)
class FolderCheckpoints:
    """Saves checkpoints of a fit every `every` epochs, and loads the last one to `resume`. All ranks call both."""

    folder: Path
    every: int
    resume: bool
    fit: Mapping[str, Any]  # what identifies the fit: method, settings, seed, checksums of shards and labels
    graph: LocalGraph

    def save(self, state: State, first_epochs: FirstEpochs | None) -> None:
        gathered = self.graph.ranks.gather((self.graph.numbers, first_epochs))

        def write() -> None:
            entries = {**state, FIT: np.array(json.dumps(self.fit))}
            if first_epochs is not None:
                numbers, parts = (np.concatenate(some, axis=-1) for some in zip(*gathered, strict=True))
                entries[FIRST_EPOCHS] = parts[:, np.argsort(numbers)]
            content = io.BytesIO()
            np.savez(content, allow_pickle=False, **entries)
            write_file(self.folder / FILE, content.getvalue())

        self.graph.ranks.on_first(write)

    def load(self) -> tuple[State, FirstEpochs | None] | None:
        ranks = self.graph.ranks
        ranks.together(lambda: check_folder(self.folder, holds="checkpoints"))
        if not self.resume:
            return None
        state = ranks.together(self._read)
        if state is None:
            ranks.remark(f"no checkpoint in {self.folder}, starting with epoch 1")
            return None
        ranks.remark(f"resuming after epoch {state['epoch'].item()}, from {self.folder}")
        first_epochs = state.pop(FIRST_EPOCHS, None)
        return state, None if first_epochs is None else first_epochs[:, self.graph.numbers]

    def _read(self) -> dict[str, np.ndarray] | None:
        path = self.folder / FILE
        try:
            with np.load(io.BytesIO(read_plain(path)), allow_pickle=False) as entries:
                state = dict(entries)
            fit = parsed_json(str(state.pop(FIT)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is damaged ({reason(error)}); start again without --resume") from error
        for key, value in json.loads(json.dumps(self.fit)).items():
            if fit.get(key) != value:
                raise InputError(
                    f"{path} belongs to a fit with another {key}; give the same, or start again without --resume"
                )
        return state
