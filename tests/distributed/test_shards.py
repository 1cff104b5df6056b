"""Shards: writing and reading, and damaged files."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from mtgcn.distributed.shards import Part, PartEntry, read_manifest, read_part, write_part
from mtgcn.errors import InputError


@pytest.fixture
def shards(files, tmp_path):
    return shutil.copytree(files / "shards", tmp_path / "shards")


def rewritten(shards, **changes):
    """Change the manifest, but not its checksum."""
    path = shards / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("sparse", [False, True])
def test_part_round_trip(tmp_path, shards, sparse):
    features = np.arange(24, dtype=np.float32).reshape(2, 12)
    part = Part(
        np.array([7, 3]),
        pa.array(["x", "Ü"]),
        sp.csr_array(np.eye(2, 60, dtype=np.float32)),
        sp.csr_array(features) if sparse else features,
    )
    entry = write_part(tmp_path / "part-00000.npz", part)
    manifest = read_manifest(shards)
    changed = manifest.model_copy(update={"folder": tmp_path, "parts": [PartEntry(**entry)], "sparse": sparse})
    back = read_part(changed, 0)
    assert back.ids.to_pylist() == ["x", "Ü"]
    assert back.numbers.tolist() == [7, 3]
    assert (back.adjacency != part.adjacency).nnz == 0
    found = back.features.toarray() if sparse else back.features
    np.testing.assert_array_equal(found, features)


def test_damaged_part_is_refused(shards):
    manifest, path = read_manifest(shards), shards / "part-00002.npz"
    content = path.read_bytes()
    for changed in (content[:-1] + bytes([content[-1] ^ 1]), content[:100]):
        path.write_bytes(changed)
        with pytest.raises(InputError, match=r"part-00002.npz was changed after it was written; restore"):
            read_part(manifest, 2)
    path.unlink()
    with pytest.raises(InputError, match=r"part-00002.npz is missing"):
        read_part(manifest, 2)


def test_part_of_another_graph_is_refused(shards):
    manifest = read_manifest(shards)
    manifest.parts[0].nodes += 1
    with pytest.raises(InputError, match="does not fit the manifest"):
        read_part(manifest, 0)


def test_changed_manifest_is_refused(shards):
    rewritten(shards, nodes=61)
    with pytest.raises(InputError, match=r"manifest.json was changed after it was written"):
        read_manifest(shards)


def test_other_formats_are_refused(shards, tmp_path):
    with pytest.raises(InputError, match="contains no shards"):
        read_manifest(tmp_path)
    rewritten(shards, format=9)
    with pytest.raises(InputError, match="has format 9, expected 1"):
        read_manifest(shards)
    (shards / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_manifest(shards)
