import shutil

import numpy as np
import pytest

from mtgcn import MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.persistence import CARD

pytest.importorskip("huggingface_hub")


class Server:
    """What `push_to_hub` needs of the hub, in a folder."""

    def __init__(self, folder, **_):
        self.folder = folder

    def create_repo(self, repo_id, private, exist_ok):
        self.private = private
        return type("Repository", (), {"repo_id": repo_id})

    def upload_folder(self, repo_id, folder_path, **_):
        shutil.copytree(folder_path, self.folder / repo_id)
        return f"https://hub/{repo_id}"


@pytest.fixture
def fitted(make_graph):
    graph = make_graph(nodes=60, easy=True)
    labels = np.where(np.arange(60) < 24, graph.labels, -1)
    return GraphModel("lp", random_state=0).fit_graph(graph.with_labels(labels))


def test_pushed_model_is_loaded_again(fitted, tmp_path, monkeypatch):
    from huggingface_hub import hub_mixin

    from mtgcn.estimator import hub

    server = Server(tmp_path)
    monkeypatch.setattr(hub_mixin, "HfApi", lambda token=None: server)
    assert fitted.push_to_hub("me/model") == "https://hub/me/model"
    assert server.private
    files = {path.name for path in (tmp_path / "me/model").iterdir()}
    assert files == {"README.md", CARD, "answers.safetensors", "graph.safetensors"}
    card = (tmp_path / "me/model/README.md").read_text()
    assert card.startswith("---\nlibrary_name: mtgcn")
    assert "- graph: 60 nodes" in card
    assert "- labels: 24 (0 8, 1 8, 2 8)" in card

    # The hub's cache consists of links.
    (tmp_path / "cache").mkdir()
    for path in (tmp_path / "me/model").iterdir():
        (tmp_path / "cache" / path.name).symlink_to(path)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **_: str(tmp_path / "cache"))
    monkeypatch.setattr(hub_mixin, "hf_hub_download", lambda **_: None)
    for name in ("me/model", tmp_path / "me/model"):
        loaded = MutualTeachingClassifier.from_pretrained(name)
        assert isinstance(loaded, MutualTeachingClassifier)
        np.testing.assert_array_equal(loaded.label_distributions_, fitted.label_distributions_)


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mtgcn.estimator.hub", None)
    with pytest.raises(InputError, match="mtgcn\\[hub\\]"):
        GraphModel.from_pretrained("me/model")
