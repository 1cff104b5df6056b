"""`mtgcn suggest` and `mtgcn label`: nodes to label next as a table, and a refit of a stored model with more labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import LabelChanges, with_more_labels
from mtgcn.estimator.persistence import check_destination, load_model, save_model
from mtgcn.graph import UNLABELED
from mtgcn.labels import class_named
from mtgcn.methods import name_of
from mtgcn.report.progress import fitting_progress
from mtgcn.uncertainty.held_out import check_folds
from mtgcn.workflows.fit import (
    FitSummary,
    accuracy_text,
    by_class,
    expectation,
    fitted_line,
    for_the_card,
    mean_confidence,
    remark_lines,
    summary_of,
    within_memory,
)
from mtgcn.workflows.inputs import check_labels, read_more_labels
from mtgcn.workflows.output import collected_notes, write_table

if TYPE_CHECKING:
    from mtgcn.report.tables import Table
    from mtgcn.uncertainty.suggestions import Suggestion

MAX_CORRECTIONS_LISTED = 5


@dataclass(frozen=True)
class Refit:
    """A refit with more labels, compared with the fit before."""

    nodes_predicted_otherwise: int  # of the nodes without a label before
    nodes_without_label_before: int
    mean_confidence_before: float
    expected_accuracy_before: Mapping[str, Any] | None
    fit: FitSummary


@dataclass(frozen=True)
class LabelSummary:
    """What `mtgcn label --json` prints."""

    changes: LabelChanges
    refit: Refit | None  # None if no label is new, so nothing was fitted
    model: str


def label_files(
    folder: Path,
    labels: Path,
    *,
    columns: Mapping[str, str | int | Literal[False]] | None = None,
    new_classes: Sequence[str] = (),
    folds: int = 5,
    device: str = "auto",
) -> LabelSummary:
    """Add the labels of a table to a stored model and fit it again; the folder is replaced once that succeeded."""
    check_folds(folds)
    torch_device = chosen_device(device)
    model = load_model(folder)
    model.device = device
    check_destination(folder)
    if not model.has_node_ids_:
        raise InputError("the nodes of this model have no ids, so labels cannot refer to them; fit it on files")
    before, predicted_before = model.training_, model.transduction_
    unlabeled = model.graph_.labels == UNLABELED
    with collected_notes() as notes:
        more = read_more_labels(labels, model.graph_, columns or {})
        new = [class_named(name, model.graph_.class_names) for name in new_classes]
        graph, classes, changes = with_more_labels(model, more, new)
        if changes.any:
            check_labels(graph)
            confidence_before = mean_confidence(model)
            with within_memory(graph, model.method_, torch_device):
                started = perf_counter()
                with fitting_progress(f"fitting {name_of(model.method_)}"):
                    model.fit_again(graph, classes)
                seconds = perf_counter() - started
                expected = expectation(model, model.seed_ or 0, torch_device, folds)
    if not changes.any:
        return LabelSummary(changes, None, str(folder))
    fit = summary_of(model, seconds, expected, notes, folder)
    kept_notes = [*before.get("notes", ()), *fit.notes]  # notes on the files of the first fit still hold
    save_model(model, folder, training=for_the_card(fit) | {"notes": kept_notes})
    refit = Refit(
        nodes_predicted_otherwise=int((model.transduction_ != predicted_before)[unlabeled].sum()),
        nodes_without_label_before=int(unlabeled.sum()),
        mean_confidence_before=confidence_before,
        expected_accuracy_before=before.get("expected_accuracy"),
        fit=fit,
    )
    return LabelSummary(changes, refit, str(folder))


def label_lines(summary: LabelSummary) -> Iterator[str]:
    """The summary as text, a line each."""
    changes = summary.changes
    yield f"added       {by_class(changes.added)}"
    yield from (f"new class   {name}" for name in changes.new_classes)
    for one in changes.corrected[:MAX_CORRECTIONS_LISTED]:
        yield f"corrected   {one.node}: {one.before} before, now {one.after}"
    if len(changes.corrected) > MAX_CORRECTIONS_LISTED:
        yield f"corrected   and {len(changes.corrected) - MAX_CORRECTIONS_LISTED} more"
    if changes.repeated:
        yield f"known       {changes.repeated} of the labels are in the model already"
    if summary.refit is None:
        yield f"model       {summary.model}, unchanged: no label is new"
        return
    refit, fit = summary.refit, summary.refit.fit
    yield f"labels      {by_class(fit.labels)}"
    yield fitted_line(fit)
    yield (
        f"changed     predictions of {refit.nodes_predicted_otherwise} of {refit.nodes_without_label_before} nodes "
        "without a label before"
    )
    now, then = (f"{100 * share:.1f} %" for share in (fit.mean_confidence or 0, refit.mean_confidence_before))
    yield f"confidence  {now} on average over unlabelled nodes; {then} before"
    before = refit.expected_accuracy_before
    if before is not None:
        yield f"accuracy    {accuracy_text(fit)}; {100 * before['accuracy']:.0f} % before"
    else:
        yield f"accuracy    {accuracy_text(fit)}{'; not known before' if fit.expected_accuracy else ''}"
    yield from remark_lines(fit)
    yield f"model       {fit.model}"


def suggestion_table(suggestions: Iterable[Suggestion]) -> Table:
    """Suggestions as a table for the terminal, best first."""
    from mtgcn.report.tables import Table

    rows = [(str(one.node), one.predicted, f"{one.score:.2f}", one.reason) for one in suggestions]
    return Table.of_text(["node", "predicted", "score", "why"], rows, title="Nodes to label next", prose=True)


def write_suggestions(path: Path, suggestions: Iterable[Suggestion]) -> None:
    """Write suggestions as a CSV table with an empty column `label`; filled in, `mtgcn label` reads it."""
    rows = ([str(one.node), "", one.predicted, f"{one.score:.6f}", one.reason] for one in suggestions)
    write_table(path, ["id", "label", "predicted", "score", "reason"], rows)
