"""What a training needs to go on after it was stopped, in a folder that all ranks reach.

    CHECKPOINT/
      latest.json              which epoch is whole, of which fit it is, and the sums of its files
      epoch-000040/
        state.npz              what all ranks share: parameters, Adam's memory, the history
        part-00000.npz         what belongs to the nodes of a part

Nodes go by parts, not by ranks, so that another number of ranks can go on. `latest.json` is written last.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.shards import part_name
from mtgcn.errors import InputError
from mtgcn.shapes import Int
from mtgcn.storage.files import check_folder, parsed_json, read_plain, write_file

LATEST, STATE = "latest.json", "state.npz"
LARGEST_LATEST = 64 * 2**20
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """What was found: the epoch it is of, what ranks share, and what belongs to this rank's nodes, in their order."""

    epoch: int
    shared: Arrays
    at_nodes: Arrays


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """Where to keep checkpoints of a fit, how often, and whether to begin with one that is there."""

    folder: Path
    every: int
    resume: bool
    fit: Mapping[str, Any]  # what makes a fit this one and no other
    local: LocalGraph

    def due(self, epoch: int) -> bool:
        return epoch % self.every == 0

    def save(self, epoch: int, shared: Arrays, at_nodes: Mapping[str, Int[np.ndarray, "here runs"]]) -> None:
        """Keep the state after an epoch; all ranks come here."""
        ranks, local = self.local.ranks, self.local
        folder = self.folder / f"epoch-{epoch:06d}"
        contents = {STATE: shared} if ranks.rank == 0 else {}
        ends = np.cumsum([local.manifest.parts[part]["nodes"] for part in local.parts])
        for part, end in zip(local.parts, ends, strict=True):
            rows = slice(int(end) - local.manifest.parts[part]["nodes"], int(end))
            contents[part_name(part)] = {name: values[rows] for name, values in at_nodes.items()}
        sums = ranks.together(lambda: {name: _write(folder / name, arrays) for name, arrays in contents.items()})
        files = {name: one for some in ranks.everyones(sums) for name, one in some.items()}
        card = {"epoch": epoch, "fit": dict(self.fit), "files": files}
        ranks.together(lambda: self._make_latest(card) if ranks.rank == 0 else None)

    def _make_latest(self, card: Mapping[str, Any]) -> None:
        write_file(self.folder / LATEST, json.dumps(card, indent=1))
        for old in self.folder.glob("epoch-*"):
            if old.name != f"epoch-{card['epoch']:06d}":
                shutil.rmtree(old, ignore_errors=True)

    def found(self) -> Checkpoint | None:
        """The checkpoint to begin with; None where one is not asked for, or there is none yet."""
        ranks = self.local.ranks
        ranks.together(lambda: check_folder(self.folder, holds="checkpoints"))
        if not self.resume:
            return None
        checkpoint = ranks.together(self._read)
        ranks.remark(
            f"no checkpoint in {self.folder}, beginning with epoch 1"
            if checkpoint is None
            else f"going on after epoch {checkpoint.epoch}, from {self.folder}"
        )
        return checkpoint

    def _read(self) -> Checkpoint | None:
        try:
            card = parsed_json(read_plain(self.folder / LATEST, LARGEST_LATEST))
            epoch, fit, files = int(card["epoch"]), card["fit"], card["files"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.folder / LATEST} cannot be read ({error}); begin anew without --resume") from error
        wanted = json.loads(json.dumps(self.fit))
        for key, value in wanted.items():
            if fit.get(key) != value:
                raise InputError(
                    f"the checkpoint in {self.folder} is of a fit with another {key}; give the same, or begin anew "
                    "without --resume"
                )
        folder = self.folder / f"epoch-{epoch:06d}"
        parts = [_read_arrays(folder, part_name(part), files) for part in self.local.parts]
        at_nodes = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return Checkpoint(epoch, _read_arrays(folder, STATE, files), at_nodes)


def _write(path: Path, arrays: Arrays) -> str:
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_file(path, content.getvalue())
    return hashlib.sha256(content.getbuffer()).hexdigest()


def _read_arrays(folder: Path, name: str, sums: Mapping[str, str]) -> dict[str, np.ndarray]:
    try:
        content = read_plain(folder / name)
        if hashlib.sha256(content).hexdigest() != sums.get(name):
            raise ValueError("its sum is another")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError) as error:
        raise InputError(f"the checkpoint {folder / name} is damaged ({error}); begin anew without --resume") from error
