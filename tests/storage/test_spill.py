"""Records come back from the bucket they were put into, in the order in which they came."""

import numpy as np

from mtgcn.storage.spill import Spill

RECORD = np.dtype([("row", np.int64), ("value", np.float32)])


def records(*rows):
    return np.array([(row, row / 2) for row in rows], dtype=RECORD)


def test_records_of_several_batches_come_back_in_their_order(tmp_path):
    spill = Spill(tmp_path / "new", "edges", RECORD, buckets=3)
    spill.add(np.array([2, 0, 2]), records(5, 1, 4))
    spill.add(np.array([0, 2]), records(9, 3))
    assert spill.read(0).tolist() == records(1, 9).tolist()
    assert spill.read(1).tolist() == []
    assert spill.read(2).tolist() == records(5, 4, 3).tolist()


def test_a_bucket_that_was_removed_is_empty_and_takes_others(tmp_path):
    spill = Spill(tmp_path, "edges", RECORD, buckets=1)
    spill.add(np.zeros(2, int), records(1, 2))
    spill.remove(0)
    assert len(spill.read(0)) == 0
    spill.add(np.zeros(1, int), records(7))
    assert spill.read(0)["row"].tolist() == [7]


def test_records_with_rows_of_numbers(tmp_path):
    kind = np.dtype([("row", np.int64), ("values", np.float32, (2,))])
    given = np.array([(3, (1, 2)), (1, (3, 4))], dtype=kind)
    spill = Spill(tmp_path, "features", kind, buckets=2)
    spill.add(np.array([1, 1]), given)
    np.testing.assert_array_equal(spill.read(1)["values"], [[1, 2], [3, 4]])
