"""What the examples in docstrings run in."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def own_cache(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a method keeps between fits is not looked for in, or added to, the user's own cache."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Graphs this small are faster on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
