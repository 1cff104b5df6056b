"""`mtgcn label`: more labels for a stored model, which is fitted again from what it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.estimator.labelling import LabelChanges, with_more_labels
from mtgcn.estimator.model_folder import check_destination, load_model, read_card, save_model
from mtgcn.graph import UNKNOWN
from mtgcn.io.labels import class_named
from mtgcn.methods import name_of
from mtgcn.report.progress import fitting_progress
from mtgcn.uncertainty.expected_accuracy import check_folds
from mtgcn.workflows.fitting import expectation, for_the_card, summary_of
from mtgcn.workflows.inputs import check_learnable, read_more_labels
from mtgcn.workflows.memory_check import within_memory
from mtgcn.workflows.notes import collected_notes
from mtgcn.workflows.summary import FitSummary, by_class, expected_words, mean_confidence

MOST_LISTED = 5


@dataclass(frozen=True)
class Refit:
    """A fit with more labels, beside the one before."""

    nodes_predicted_otherwise: int  # of those that had no label before
    nodes_without_label_before: int
    mean_confidence_before: float
    expected_accuracy_before: Mapping[str, Any] | None
    fit: FitSummary


@dataclass(frozen=True)
class LabelSummary:
    """What more labels changed; what `mtgcn label --json` prints."""

    changes: LabelChanges
    refit: Refit | None  # None where no label was new, and so nothing was fitted
    model: str


def label_files(
    folder: Path,
    labels: Path,
    *,
    columns: Mapping[str, str | Literal[False]] | None = None,
    new_classes: Sequence[str] = (),
    folds: int = 5,
    device: str = "auto",
) -> LabelSummary:
    """Add the labels of a table to a stored model and fit it again; the folder is replaced once that went well."""
    check_folds(folds)
    torch_device = chosen_device(device)
    model = load_model(folder)
    model.device = device
    check_destination(folder)
    if not model.has_node_ids_:
        raise InputError(
            "the nodes of this model were never given ids, so that no label can name them; fit it on files"
        )
    told_before = read_card(folder)["training"]
    free = model.graph_.labels == UNKNOWN
    predicted_before = model.transduction_
    with collected_notes() as notes:
        more = read_more_labels(labels, model.graph_, columns or {})
        new = [class_named(name, model.graph_.class_names) for name in new_classes]
        graph, classes, changes = with_more_labels(model, more, new)
        if changes.any:
            check_learnable(graph)
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
    kept_notes = [*told_before.get("notes", ()), *fit.notes]  # what reading the files did is still so
    save_model(model, folder, training=for_the_card(fit) | {"notes": kept_notes})
    refit = Refit(
        nodes_predicted_otherwise=int((model.transduction_ != predicted_before)[free].sum()),
        nodes_without_label_before=int(free.sum()),
        mean_confidence_before=confidence_before,
        expected_accuracy_before=told_before.get("expected_accuracy"),
        fit=fit,
    )
    return LabelSummary(changes, refit, str(folder))


def label_lines(summary: LabelSummary) -> Iterator[str]:
    """What changed, for a person to read."""
    changes = summary.changes
    yield f"added       {by_class(changes.added)}"
    for name in changes.new_classes:
        yield f"new class   {name}"
    for one in changes.corrected[:MOST_LISTED]:
        yield f"corrected   {one.node}: {one.before} before, now {one.after}"
    if len(changes.corrected) > MOST_LISTED:
        yield f"corrected   and {len(changes.corrected) - MOST_LISTED} more"
    if changes.repeated:
        yield f"known       {changes.repeated} of the labels were given before"
    if summary.refit is None:
        yield f"model       {summary.model}, unchanged: there is nothing new to learn"
    else:
        yield from _refit_lines(summary.refit)


def _refit_lines(refit: Refit) -> Iterator[str]:
    fit, before = refit.fit, refit.expected_accuracy_before
    yield f"labels      {by_class(fit.labels)}"
    yield f"fitted      {fit.method}, {fit.epochs} epochs, {fit.seconds:.1f} s on {fit.device}"
    yield (
        f"changed     {refit.nodes_predicted_otherwise} of {refit.nodes_without_label_before} nodes that had no label "
        "are predicted otherwise than before"
    )
    now, then = (f"{100 * share:.1f} %" for share in (fit.mean_confidence, refit.mean_confidence_before))
    yield f"confidence  {now} on average, of the nodes that were not given; {then} before"
    if before is not None:
        yield f"accuracy    {expected_words(fit)}; {100 * before['accuracy']:.0f} % before"
    else:
        yield f"accuracy    {expected_words(fit)}{'; not known before' if fit.expected_accuracy else ''}"
    for note in fit.notes:
        yield f"note        {note}"
    for warning in fit.warnings:
        yield f"warning     {warning}"
    yield f"model       {fit.model}"
