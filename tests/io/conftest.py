"""Files to read, written by the tests."""

import pyarrow as pa
import pytest
from pyarrow import parquet


@pytest.fixture
def write(tmp_path):
    """Write text or bytes; the path comes back."""

    def put(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


@pytest.fixture
def write_parquet(tmp_path):
    """Write columns, given by name; the path comes back."""

    def put(name, **columns):
        path = tmp_path / name
        parquet.write_table(pa.table(columns), path)
        return path

    return put
