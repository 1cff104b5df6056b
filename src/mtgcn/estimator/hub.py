"""Models on the Hugging Face Hub: `GraphModel.push_to_hub` and `from_pretrained`, through `ModelHubMixin`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download

from mtgcn._version import __version__
from mtgcn.estimator.graph_model import GraphModel, fit_background
from mtgcn.estimator.persistence import FILES, load_model, save_model
from mtgcn.methods import name_of

METADATA = "---\nlibrary_name: mtgcn\ntags:\n- node-classification\n- graph-ml\n- few-labels\n---\n"


class HubModel(ModelHubMixin):
    """A fitted model with the interface of the hub."""

    def __init__(self, model: GraphModel) -> None:
        self.model = model

    def _save_pretrained(self, save_directory: Path) -> None:
        save_model(self.model, save_directory, training=self.model.training_)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, kind: type[GraphModel], **download: Any) -> HubModel:  # type: ignore[override]
        downloaded = snapshot_download(model_id, **download, allow_patterns=list(FILES))
        with tempfile.TemporaryDirectory() as folder:  # the cache consists of links, which load_model refuses
            shutil.copytree(downloaded, folder, dirs_exist_ok=True)
            return cls(load_model(folder, kind))

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """The summary of the fit as the page of the repository."""
        return ModelCard(METADATA + "\n".join(card_lines(self.model)) + "\n")


def card_lines(model: GraphModel) -> Iterator[str]:
    """The model card in Markdown."""
    graph, background = model.graph_, fit_background(model)
    counts = ", ".join(f"{name} {count}" for name, count in zip(graph.class_names, graph.label_counts, strict=True))
    yield f"# {graph.name or 'Node classification'}"
    yield f"\nFitted by `{name_of(model.method_)}` of [mtgcn](https://pypi.org/project/mtgcn/) {__version__}.\n"
    yield f"- graph: {graph.num_nodes} nodes, {graph.num_edges} edges, {graph.num_features} features"
    yield f"- labels: {len(graph.known)} ({counts})"
    if (expected := background.expected_accuracy) is None:
        yield f"- expected accuracy: {background.why_no_expected_accuracy}"
    else:
        low, high = (f"{100 * end:.0f}" for end in expected.ci95)
        yield f"- expected accuracy: {100 * expected.accuracy:.0f} % (95 % interval {low} to {high}), cross-validated"
    yield from (f"- warning: {text}" for text in model.warnings_)
    yield "\n```python\nfrom mtgcn import MutualTeachingClassifier\n"
    yield 'model = MutualTeachingClassifier.from_pretrained("REPOSITORY")\nmodel.predictions()\n```\n'
    yield "The files contain the graph, with its features, labels and node table."
