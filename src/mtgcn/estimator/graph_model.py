"""`GraphModel`: a method fitted to a `Graph`, without scikit-learn, whose import takes longer than many fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, shown, unknown_name, warn_caller
from mtgcn.estimator.class_prior import corrected, prior_factors
from mtgcn.estimator.explanation import Explanation, explain
from mtgcn.estimator.inference import Scorer, normalised, predict_fitted
from mtgcn.estimator.inputs import (
    MISSING,
    check_learnable,
    check_magnitudes,
    has_no_label,
    num_columns,
    positions_of_ids,
    preprocessed_graph,
)
from mtgcn.estimator.predictions import GIVEN, NOT_PSEUDO_LABELED, predictions_of
from mtgcn.experiments.scoring import SCORE_TITLES, SCORES, ExpectedScore, expected_score
from mtgcn.graph import Graph
from mtgcn.labels import UNLABELED, classes_of
from mtgcn.methods import Method, as_method, create, fit_in_chunks, method_class, name_of, task_of
from mtgcn.shapes import Float, Int
from mtgcn.splits import Split, check_seed
from mtgcn.task import Prediction
from mtgcn.uncertainty.held_out import (
    FOLDS,
    ExpectedAccuracy,
    ExpectedGain,
    check_folds,
    expected_accuracy,
    held_out_probabilities,
    is_gain_measurable,
    label_copies,
    why_not_measurable,
)
from mtgcn.uncertainty.peer_weights import FittedModel
from mtgcn.uncertainty.suggestions import DoubtfulLabels, Suggestions, doubtful_labels, suggest
from mtgcn.uncertainty.warnings import FitWarning, model_warnings

if TYPE_CHECKING:
    from pandas import DataFrame

    from mtgcn.report.fit_page import Background

DEFAULT_METHOD = "mt-plus"
METHOD_WITH_BACKBONE = "mt-gcn"  # default if a backbone is given
VALIDATION_DIVISOR = 3  # one third of the labels of a class go to methods that need validation labels
MAX_NAMED = 3  # unknown nodes named in a message
MEASURING = "measuring accuracy on held-out labels"  # title of a stage
HOW_TO_MEASURE = "not measured; model.report(path, folds=5) does, by fitting five times more"


class GraphModel(FittedModel):
    """Classifies the nodes of a `Graph`. Parameters and learned attributes are those of `MutualTeachingClassifier`."""

    classes_: np.ndarray
    transduction_: np.ndarray
    labeled_iter_: Int[np.ndarray, "nodes"]
    n_iter_: int
    n_features_in_: int
    feature_names_in_: np.ndarray  # only if the features have names
    seed_: int
    has_node_ids_: bool
    class_factors_: Float[np.ndarray, "classes"] | None  # factors of the class prior
    training_: dict[str, Any]  # `training` in the card of a loaded model; empty after a fit

    def __init__(
        self,
        method: Any = None,
        *,
        backbone: Any = None,
        neighbors: int = 10,
        metric: str = "euclidean",
        mutual_neighbors: bool = False,
        scale: bool = True,
        settings: Mapping[str, Any] | None = None,
        class_prior: Any = None,
        device: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.backbone = backbone
        self.neighbors = neighbors
        self.metric = metric
        self.mutual_neighbors = mutual_neighbors
        self.scale = scale
        self.settings = settings
        self.class_prior = class_prior
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit_graph(self, graph: Graph) -> Self:
        """Fit the method to a graph and its labels; its features may be None."""
        check_learnable(graph.class_names, graph.label_counts)
        return self._fit(graph, graph.classes, seed_of(self.random_state), has_node_ids=not graph.numbered)

    def take_over(self, graph: Graph, prediction: Prediction, seed: int) -> Self:
        """Set the learned attributes from a prediction computed elsewhere."""
        self._set_attributes(graph, graph.classes, chosen_method(self), prediction)
        self.has_node_ids_, self.seed_ = True, seed
        return self

    def label(self, labels: Mapping[Any, Any], *, new_classes: Sequence[Any] = ()) -> Self:
        """Add or correct labels, given as a mapping from node id to class, and fit again.

        Parameters that do not depend on labels, such as embeddings, are reused. Classes without earlier labels must be
        listed in `new_classes`, which guards against typing errors.
        """
        self._check_fitted()
        graph, classes, _ = with_more_labels(self, labels, new_classes)
        return self.fit_again(graph, classes)

    def fit_again(self, graph: Graph, classes: np.ndarray) -> Self:
        """Fit the graph of the fit with other labels; see `label`."""
        self._check_fitted()
        check_learnable(graph.class_names, graph.label_counts)
        return self._fit(graph, classes, self.seed_, has_node_ids=self.has_node_ids_, learned=self.parameters_)

    def predictions(self, keep_columns: str = "none") -> DataFrame:
        """Predictions for the nodes of the fit: a pandas data frame with the columns of `mtgcn predict`, followed by
        columns of the node table: "none", "names" or "all"."""
        self._check_fitted()
        import pandas as pd

        columns = predictions_of(self, predict_fitted(self), self.graph_, keep_columns)
        return pd.DataFrame(columns).astype({"pseudo_label_epoch": "Int64"})

    def suggest(self, n: int = 10) -> Suggestions:
        """Nodes to label next with reasons, most useful first. A larger `n` extends the list."""
        self._check_fitted()
        return suggest(self, n)

    def expected_gain(self, folds: int = FOLDS) -> ExpectedGain | None:
        """The gain in accuracy that ten more labels are expected to bring, from cross-validation with fewer labels;
        None if there are too few labels."""
        self._check_fitted()
        check_folds(folds)
        expected, _ = measured_accuracy(self, folds)
        return None if expected is None else expected.gain

    def doubtful_labels(self, n: int | None = 10) -> DoubtfulLabels:
        """The given labels that are most likely wrong, with reasons; None lists all labels.

        The method is fitted again without each of ten folds of the labels.
        """
        self._check_fitted()
        return doubtful_labels(self, n, seed=self.seed_, device=chosen_device(self.device))

    def explain(self, node: Any, versus: Any = None) -> Explanation:
        """Explain why a node of the fit, given by its id, has its class rather than `versus`, by default the second
        most probable class. mt-plus decomposes predictions exactly; other methods list neighbours and nearby labels."""
        self._check_fitted()
        return explain(self, node, versus)

    def scorer(self) -> Scorer:
        """A thread-safe function for the class probabilities of single new nodes; creating it takes a warm-up."""
        self._check_fitted()
        return Scorer(self)

    def plot(self) -> Any:
        """A matplotlib figure with the map of the nodes, confidence, classes and training."""
        self._check_fitted()
        from mtgcn.report.fit_page import fit_figure

        return fit_figure(self)

    def report(self, path: str | Path, *, folds: int = 0) -> None:
        """Write a self-contained HTML page about this fit.

        With `folds` of at least 2 the accuracy is estimated by fitting the method that many times more. With 0 the page
        shows the estimate of the fit or of a loaded model, if any.
        """
        self._check_fitted()
        from mtgcn.report.fit_page import fit_html
        from mtgcn.storage.files import check_file, write_file

        check_file(path)
        write_file(path, fit_html(self, fit_background(self, folds)))

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder of safetensors and JSON files."""
        self._check_fitted()
        from mtgcn.estimator.persistence import save_model

        save_model(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model that `save` or `mtgcn fit` wrote."""
        from mtgcn.estimator.persistence import load_model

        model = load_model(folder, cls)
        assert isinstance(model, cls)
        return model

    def push_to_hub(self, repo_id: str, *, private: bool | None = True, **options: Any) -> str:
        """Upload the fitted model to the Hugging Face Hub, with a model card; returns the address of the commit.

        The files contain the graph with its features, labels and node table. Needs `mtgcn[hub]`; `options` are those of
        `huggingface_hub.ModelHubMixin.push_to_hub`.
        """
        self._check_fitted()
        return str(_hub_model()(self).push_to_hub(repo_id, private=private, **options))

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> Self:
        """Read a model from the Hugging Face Hub, or from a folder. Needs `mtgcn[hub]`; `options` are those of
        `huggingface_hub.ModelHubMixin.from_pretrained`."""
        if Path(name).is_dir():
            return cls.load(name)
        model = _hub_model().from_pretrained(name, kind=cls, **options).model
        assert isinstance(model, cls)
        return model

    @cached_property
    def warnings_(self) -> list[str]:
        """Why predictions may be unreliable, one sentence each."""
        return model_warnings(self)

    def _check_fitted(self) -> None:
        if not hasattr(self, "graph_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _fit(
        self,
        graph: Graph,
        classes: np.ndarray,
        seed: int,
        *,
        has_node_ids: bool,
        learned: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
        """Fit the method to a graph. `learned` are parameters of an earlier fit to the same graph with other labels."""
        check_magnitudes(graph)
        graph = preprocessed_graph(graph, scale=self.scale)
        method = chosen_method(self)
        progress: AbstractContextManager[Any] = nullcontext()
        if self.verbose:
            from mtgcn.report.progress import fitting_progress

            progress = fitting_progress(f"fitting {name_of(method)}", every_stage=True)
        with progress:
            task = task_of(method, graph, [_split_of(graph, method)], seed, chosen_device(self.device))
            if learned is not None:
                method.remember(learned, task)
            self._set_attributes(graph, classes, method, fit_in_chunks(method, task))
        self.has_node_ids_, self.seed_ = has_node_ids, seed
        for text in self.warnings_:
            warn_caller(FitWarning(text))
        return self

    def _set_attributes(self, graph: Graph, classes: np.ndarray, method: Method, prediction: Prediction) -> None:
        """Set the learned attributes from a prediction with a single run."""
        self.__dict__.pop("warnings_", None)
        self.graph_, self.classes_, self.method_ = graph, classes, method
        self.n_features_in_ = num_columns(graph)
        plain = normalised(prediction.probabilities[0])
        self.class_factors_ = prior_factors(self.class_prior, plain, graph.class_names, graph.label_counts)
        self.label_distributions_ = corrected(plain, self.class_factors_)
        self.transduction_ = classes[self.label_distributions_.argmax(axis=1)]
        self.peer_distributions_ = None if prediction.peers is None else prediction.peers[0]
        self.peer_report_ = report = prediction.peer_report
        if report is not None and graph.features is None:  # the method computed features from the edges
            names = tuple("structure" if name == "features" else name for name in report.names)
            self.peer_report_ = replace(report, names=names)
        share, labels, folds = (np.nan, 0, 0) if prediction.held_out is None else prediction.held_out[0].tolist()
        is_measured = labels and not len(label_copies(graph))  # a copy of the labels predicts held-out ones, too
        self.expected_accuracy_ = ExpectedAccuracy.of(share, int(labels), int(folds)) if is_measured else None
        self.history_ = {name: values[:, 0] for name, values in prediction.history.items()}
        self.n_iter_ = max(map(len, self.history_.values()), default=0)
        self.labeled_iter_ = np.full(graph.num_nodes, NOT_PSEUDO_LABELED)
        if prediction.pseudo_labelled_at is not None:
            np.copyto(self.labeled_iter_, prediction.pseudo_labelled_at[0], where=prediction.pseudo_labelled_at[0] > 0)
        self.labeled_iter_[graph.known] = GIVEN
        self.parameters_ = None if prediction.parameters is None else dict(prediction.parameters)
        self.training_ = {}


def _hub_model() -> Any:
    try:
        from mtgcn.estimator.hub import HubModel
    except ImportError as error:
        raise InputError(f"the hub needs huggingface_hub ({error}); pip install 'mtgcn[hub]'") from error
    return HubModel


def chosen_method(model: GraphModel) -> Method:
    """The method specified by the parameters of a model."""
    if not isinstance(model.settings, Mapping | None) or not all(isinstance(key, str) for key in model.settings or ()):
        raise InputError(f"settings are {shown(model.settings)}; give a dictionary, such as {{'per_class': 60}}")
    settings = dict(model.settings or {})
    method = model.method
    if method is None:
        method = DEFAULT_METHOD if model.backbone is None else METHOD_WITH_BACKBONE
    if not isinstance(method, str):
        if settings or model.backbone is not None:
            raise InputError(f"{type(method).__name__} has its own settings; pass backbone and settings to it")
        return as_method(method)
    if model.backbone is not None:
        if "backbone" not in method_class(method).__dataclass_fields__:
            raise InputError(f"method {method!r} has no backbone to choose; use {METHOD_WITH_BACKBONE!r}")
        settings["backbone"] = model.backbone
    return create(method, **settings)


def seed_of(random_state: Any) -> int:
    """The seed for a `random_state`; an int is the seed itself, as on the command line."""
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return check_seed(int(random_state))
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InputError(f"random_state is {shown(random_state)}; give a whole number >= 0, or None") from None


def _split_of(graph: Graph, method: Method) -> Split:
    """All labels for training; methods that use validation labels get one third of each class for validation."""
    train, validation = graph.known, np.empty(0, dtype=np.int64)
    if method.uses_validation:
        members = [np.flatnonzero(graph.labels == number) for number in range(graph.num_classes)]
        validation = np.concatenate([nodes[1::VALIDATION_DIVISOR] for nodes in members])
        train = np.setdiff1d(train, validation)
        if not len(validation):
            raise InputError(
                "the method needs validation labels, and no class has 2 labels; label more nodes, or use a method "
                "without validation"
            )
    return Split(train, validation, np.empty(0, dtype=np.int64))


def fit_background(model: GraphModel, folds: int = 0) -> Background:
    """Expected accuracy and notes for the HTML page: measured with `folds` folds, or read from the model card."""
    from mtgcn.report.fit_page import Background
    from mtgcn.report.progress import fitting_progress

    check_folds(folds)
    stored = Background.from_training(model.training_)
    if folds:
        with fitting_progress(MEASURING):
            expected, why_not = measured_accuracy(model, folds)
    elif stored.expected_accuracy or stored.why_no_expected_accuracy:
        return stored
    else:
        expected, why_not = measured_accuracy(model, None, refit=False)
    return replace(stored, expected_accuracy=expected, why_no_expected_accuracy=why_not)


def measured_accuracy(
    model: GraphModel, folds: int | None, *, refit: bool = True
) -> tuple[ExpectedAccuracy | None, str | None]:
    """The cross-validated accuracy of a fitted model, or why it cannot be measured.

    Without a number of folds this is the estimate of the method itself, if the model has one. Otherwise, and for the
    gain of more labels, the method is fitted again.
    """
    graph, method = model.graph_, model.method_
    if why_not := why_not_measurable(graph, method):
        return None, why_not
    own = None if folds is not None else model.expected_accuracy_
    if not refit or (own is not None and not is_gain_measurable(graph)):
        return own, None if own else HOW_TO_MEASURE
    device = chosen_device(model.device)
    found = expected_accuracy(graph, method, seed=model.seed_, device=device, folds=folds or FOLDS)
    return (found if own is None else replace(own, gain=found.gain)), None


def measured_score(model: GraphModel, folds: int | None, score: str) -> ExpectedScore | None:
    """A score other than accuracy on held-out labels; None if accuracy cannot be measured either."""
    graph, method = model.graph_, model.method_
    if score == SCORES[0] or folds == 0 or why_not_measurable(graph, method):
        return None
    from mtgcn.report.progress import fitting_progress

    with fitting_progress(f"measuring {SCORE_TITLES[score]} on held-out labels"):
        device = chosen_device(model.device)
        probabilities, truth = held_out_probabilities(
            graph, method, seed=model.seed_, device=device, folds=folds or FOLDS
        )
    return expected_score(corrected(probabilities, model.class_factors_), truth, score, graph.label_counts)


# --------------------------------------------------------------------------------------------------------- more labels


@dataclass(frozen=True)
class Correction:
    """A node whose label changes."""

    node: Any
    before: str
    after: str


@dataclass(frozen=True)
class LabelChanges:
    """The difference between the labels of a fit and new ones."""

    added: Mapping[str, int]  # new labels by class
    corrected: Sequence[Correction]
    repeated: int
    new_classes: Sequence[str]

    @property
    def any(self) -> bool:
        return bool(self.corrected) or sum(self.added.values()) > 0


def with_more_labels(
    model: GraphModel, labels: Mapping[Any, Any], new_classes: Iterable[Any] = ()
) -> tuple[Graph, np.ndarray, LabelChanges]:
    """The graph of a fit with more labels, given by node id; its classes; the changes."""
    graph = model.graph_
    labels = {node: str(name) for node, name in labels.items() if not has_no_label(name)}
    ids = np.array(list(labels), dtype=object)
    positions = positions_of_ids(graph.node_ids, ids.astype(str))
    unknown = ids[positions == MISSING]
    if len(unknown):
        raise InputError(
            f"{len(unknown)} of {len(ids)} labels refer to unknown nodes, for instance "
            f"{', '.join(repr(node) for node in unknown[:MAX_NAMED])}; remove them, or fit on a graph that has them"
        )
    known, extra = list(graph.class_names), [str(name) for name in new_classes]
    for name in labels.values():
        if name not in known and name not in extra:
            hint = str(unknown_name("class", name, known))
            end = "" if hint.endswith("?") else "."
            raise InputError(f"{hint}{end} For a new class give --new-classes {name}, or new_classes=[{name!r}]")
    added = [name for name in extra if name in labels.values() and name not in known]
    classes, order = _classes_with(model, added)
    old = np.where(graph.labels == UNLABELED, UNLABELED, order[graph.labels])
    after = old.copy()
    code_of = {name: number for number, name in enumerate(map(str, classes))}
    after[positions] = [code_of[name] for name in labels.values()]
    # With the same classes, values cached for the graph stay valid.
    more = replace(graph, labels=after, class_names=tuple(map(str, classes))) if added else graph.with_labels(after)
    before, now = old[positions], after[positions]
    counts = np.bincount(now[before == UNLABELED], minlength=more.num_classes)
    changed = np.flatnonzero((before != UNLABELED) & (before != now))
    changes = LabelChanges(
        added={name: int(count) for name, count in zip(more.class_names, counts, strict=True) if count},
        corrected=[
            Correction(node, more.class_names[before[one]], more.class_names[now[one]])
            for node, one in zip(graph.node_ids[positions[changed]].tolist(), changed, strict=True)
        ],
        repeated=int((before == now).sum()),
        new_classes=added,
    )
    return more, classes, changes


def _classes_with(model: GraphModel, new: Sequence[str]) -> tuple[np.ndarray, Int[np.ndarray, "known_classes"]]:
    """All classes in the order of a fit, and the new codes of the known classes."""
    names = model.graph_.class_names
    if not new:
        return model.classes_, np.arange(len(names))
    if model.classes_.dtype.kind not in "UO":
        raise InputError(
            f"{new[0]!r} would be a new class, and the classes of this model are numbers of type "
            f"{model.classes_.dtype}; fit again with a y that has it"
        )
    codes, ordered = classes_of([*names, *new])
    if len(ordered) < len(names) + len(new):  # 1 and 1.0 are different names
        ordered = tuple(sorted([*names, *new]))
        codes = np.array([ordered.index(name) for name in (*names, *new)])
    return np.array(ordered, dtype=object if model.classes_.dtype == object else None), codes[: len(names)]
