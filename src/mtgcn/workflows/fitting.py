"""`mtgcn fit`: read, check, fit, measure, write. Nothing is written before everything else went well."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError
from mtgcn.estimator.fitting import DEFAULT_METHOD
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.model_folder import check_destination, save_model
from mtgcn.estimator.model_folder.files import FILES
from mtgcn.methods import method_class, method_from_text, name_of
from mtgcn.report.progress import fitting_progress
from mtgcn.settings import parse_settings
from mtgcn.splits import check_seed
from mtgcn.storage.files import check_file, write_file
from mtgcn.uncertainty.expected_accuracy import (
    ExpectedAccuracy,
    check_folds,
    expected_accuracy,
    why_not_measurable,
)
from mtgcn.uncertainty.peer_weights import contributions
from mtgcn.uncertainty.warnings import model_warnings
from mtgcn.workflows.inputs import GraphFiles, check_learnable, read_graph
from mtgcn.workflows.memory_check import within_memory
from mtgcn.workflows.notes import collected_notes
from mtgcn.workflows.summary import FitSummary, columns_of, label_counts, label_coverage, mean_confidence

if TYPE_CHECKING:
    import torch

Expectation = tuple[ExpectedAccuracy | None, str | None]  # and why there is none


def fit_files(
    files: GraphFiles,
    *,
    out: Path | None,
    report: Path | None = None,
    method: str | None = None,
    settings: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
    device: str = "auto",
) -> FitSummary:
    """Fit a model on these files and write it to the folder `out`, and a page about it to `report`."""
    if out is None:
        raise InputError("no folder for the model; give --out, or --check to only see what would be done")
    check_folds(folds)
    check_seed(seed)
    name = method or DEFAULT_METHOD
    torch_device = chosen_device(device)
    model = GraphModel(
        method=name,
        neighbors=files.knn or 10,
        metric=files.metric,
        settings=parse_settings(method_class(name), settings) or None,
        device=device,
        random_state=seed,
    )
    check_destination(out)
    check_page(report, out)
    with collected_notes() as notes:
        graph = read_graph(files)
        check_learnable(graph, classes)
        chosen = method_from_text(name, settings)
        with within_memory(graph, chosen, torch_device):
            started = perf_counter()
            with fitting_progress(f"fitting {name}"):
                model.fit_graph(graph)
            seconds = perf_counter() - started
            expected = expectation(model, seed, torch_device, folds)
    summary = summary_of(model, seconds, expected, notes, out, report)
    page = None if report is None else _page(model, expected, notes)
    save_model(model, out, training=for_the_card(summary))
    if report is not None and page is not None:
        try:
            write_file(report, page)
        except InputError as error:
            raise InputError(
                f"{error}. The model is written all the same: mtgcn report {out} makes the page"
            ) from error
    return summary


def check_page(report: Path | None, model: Path) -> None:
    """Refuse a page that could not be written, or would be written over a part of the model."""
    if report is None:
        return
    check_file(report)
    real, folder = os.path.realpath(report), os.path.realpath(model)
    if real == folder or real in {os.path.join(folder, name) for name in FILES}:
        raise InputError(f"the page {report} would be written where the model is; give another file")


def _page(model: GraphModel, expected: Expectation, notes: Sequence[str]) -> str:
    from mtgcn.report.fit_page import Background, page_text

    return page_text(model, Background(*expected, notes))


def summary_of(
    model: GraphModel,
    seconds: float,
    expectation: Expectation,
    notes: Sequence[str],
    out: Path,
    report: Path | None = None,
) -> FitSummary:
    """What there is to tell about a fit that is to be written to `out`."""
    graph, votes = model.graph_, model.peer_report_
    expected, why_not = expectation
    return FitSummary(
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        features=graph.num_features,
        columns=columns_of(graph),
        coverage=label_coverage(graph),
        labels=label_counts(graph),
        method=name_of(model.method_),
        epochs=int(model.n_iter_),
        seconds=seconds,
        device=device_title(chosen_device(model.device)),
        mean_confidence=mean_confidence(model),
        expected_accuracy=expected,
        why_no_expected_accuracy=why_not,
        peers=None if votes is None else contributions(votes),
        teaching=None if votes is None else float(votes.teaching[0]),
        notes=notes,
        warnings=model_warnings(model),
        model=str(out),
        report=None if report is None else str(report),
    )


def expectation(model: GraphModel, seed: int, device: torch.device, folds: int) -> Expectation:
    """How accurate the model will be, or why that is not known."""
    if folds == 0:
        return None, "not measured, as asked (--folds 0)"
    why_not = why_not_measurable(model.graph_, model.method_, folds)
    if why_not:
        return None, why_not
    with fitting_progress("measuring accuracy on held-out labels"):
        return expected_accuracy(model.graph_, model.method_, seed=seed, device=device, folds=folds), None


def for_the_card(summary: FitSummary) -> dict[str, object]:
    """What a model's card tells of its fit."""
    told = asdict(summary)
    kept = (
        "columns",
        "seconds",
        "device",
        "coverage",
        "mean_confidence",
        "expected_accuracy",
        "why_no_expected_accuracy",
        "peers",
        "teaching",
        "notes",
        "warnings",
    )
    return {key: told[key] for key in kept}
