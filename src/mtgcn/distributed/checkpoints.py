"""Checkpoints of a training, in a folder that all ranks can reach.

    CHECKPOINT/
      latest.json              the last complete epoch, the fit it belongs to, and checksums of its files
      epoch-000040/
        state.npz              what all ranks share: parameters, state of Adam, history
        part-00000.npz         what belongs to the nodes of a part

Node data is stored by part, not by rank, so that another number of ranks can continue. `latest.json` is written last.
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
from pydantic import BaseModel, NonNegativeInt

from mtgcn.distributed.shards import LocalGraph, part_name
from mtgcn.errors import InputError, reason
from mtgcn.storage.files import check_folder, parsed_json, read_plain, write_file
from mtgcn.training.loop import Checkpoint

LATEST, STATE = "latest.json", "state.npz"
MAX_LATEST_BYTES = 64 * 2**20
Arrays = Mapping[str, np.ndarray]


class Latest(BaseModel):
    """The content of `latest.json`."""

    epoch: NonNegativeInt
    fit: dict[str, Any]  # method, settings, seed, checksums of shards and labels
    files: dict[str, str]  # SHA-256


@dataclass(frozen=True, eq=False)
class FolderCheckpoints:
    """Saves checkpoints of a fit every `every` epochs, and loads the last one to `resume`."""

    folder: Path
    every: int
    resume: bool
    fit: Mapping[str, Any]  # what identifies the fit
    graph: LocalGraph

    def due(self, epoch: int) -> bool:
        return epoch % self.every == 0

    def save(self, epoch: int, shared: Arrays, at_nodes: Arrays) -> None:
        """Save the state after an epoch. All ranks call this."""
        ranks, graph = self.graph.ranks, self.graph
        folder = _epoch_folder(self.folder, epoch)
        contents = {STATE: shared} if ranks.rank == 0 else {}
        ends = np.cumsum([graph.manifest.parts[part].nodes for part in graph.parts])
        for part, end in zip(graph.parts, ends.tolist(), strict=True):
            rows = slice(end - graph.manifest.parts[part].nodes, end)
            contents[part_name(part)] = {name: values[rows] for name, values in at_nodes.items()}
        sums = ranks.together(lambda: {name: _write(folder / name, arrays) for name, arrays in contents.items()})
        files = {name: one for some in ranks.gather(sums) for name, one in some.items()}
        latest = Latest(epoch=epoch, fit=dict(self.fit), files=files)

        def publish() -> None:
            write_file(self.folder / LATEST, json.dumps(latest.model_dump(), indent=1))
            for old in self.folder.glob("epoch-*"):
                if old != folder:
                    shutil.rmtree(old, ignore_errors=True)

        ranks.on_first(publish)

    def load(self) -> Checkpoint | None:
        """The checkpoint to continue from. All ranks call this."""
        ranks = self.graph.ranks
        ranks.together(lambda: check_folder(self.folder, holds="checkpoints"))
        if not self.resume:
            return None
        checkpoint = ranks.together(self._read)
        ranks.remark(
            f"no checkpoint in {self.folder}, starting with epoch 1"
            if checkpoint is None
            else f"resuming after epoch {checkpoint.epoch}, from {self.folder}"
        )
        return checkpoint

    def _read(self) -> Checkpoint | None:
        path = self.folder / LATEST
        try:
            latest = Latest.model_validate(parsed_json(read_plain(path, MAX_LATEST_BYTES)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read ({reason(error)}); start again without --resume") from error
        for key, value in json.loads(json.dumps(self.fit)).items():
            if latest.fit.get(key) != value:
                raise InputError(
                    f"the checkpoint in {self.folder} belongs to a fit with another {key}; give the same, or start "
                    "again without --resume"
                )
        folder = _epoch_folder(self.folder, latest.epoch)
        parts = [_read_arrays(folder / part_name(part), latest.files) for part in self.graph.parts]
        at_nodes = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return Checkpoint(latest.epoch, _read_arrays(folder / STATE, latest.files), at_nodes)


def _epoch_folder(folder: Path, epoch: int) -> Path:
    return folder / f"epoch-{epoch:06d}"


def _write(path: Path, arrays: Arrays) -> str:
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_file(path, content.getvalue())
    return hashlib.sha256(content.getbuffer()).hexdigest()


def _read_arrays(path: Path, sums: Mapping[str, str]) -> dict[str, np.ndarray]:
    try:
        content = read_plain(path)
        if hashlib.sha256(content).hexdigest() != sums.get(path.name):
            raise ValueError("its checksum differs")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError) as error:
        raise InputError(f"the checkpoint {path} is damaged ({error}); start again without --resume") from error
