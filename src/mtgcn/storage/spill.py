"""Rows that wait on disk, in buckets, until all of a bucket are there: for what does not fit into memory at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mtgcn.shapes import Int


class Spill:
    """Records of one type, appended to the file of their bucket in whatever order they come."""

    def __init__(self, folder: Path, name: str, record: np.dtype, buckets: int) -> None:
        self.record, self.buckets = record, buckets
        self._paths = [folder / f"{name}-{bucket}" for bucket in range(buckets)]
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, bucket: Int[np.ndarray, "rows"], records: np.ndarray) -> None:
        """Put each record into its bucket; those of a bucket stay in the order in which they came."""
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self.buckets))
        for number, rows in enumerate(np.split(records[order], ends[:-1])):
            if len(rows):
                with self._paths[number].open("ab") as file:
                    file.write(rows.tobytes())

    def read(self, bucket: int) -> np.ndarray:
        """All records of a bucket."""
        path = self._paths[bucket]
        return np.fromfile(path, dtype=self.record) if path.exists() else np.zeros(0, dtype=self.record)

    def remove(self, bucket: int) -> None:
        """A bucket that nobody will ask for again."""
        self._paths[bucket].unlink(missing_ok=True)
