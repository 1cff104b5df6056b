"""How MT-GCN's training goes: accuracy, losses and the precision of pseudo labels over epochs, for a page to draw.

They are of the lowest and the highest label rate of each dataset and lie beside the rows, in one small file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mtgcn import environment
from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.experiments.plan import Selection
from mtgcn.experiments.progress import FittingProgress, silent_fitting
from mtgcn.experiments.protocol import PAPER_TABLES, REFERENCE, TABLES, Cell
from mtgcn.experiments.rows import FORMAT, check_format, format_of
from mtgcn.experiments.scoring import accuracy_over_epochs, pseudo_label_precision
from mtgcn.experiments.split_choice import RANDOM
from mtgcn.experiments.statistics import SampleSummary, summarise, summarise_share
from mtgcn.experiments.store import content_of, write_text
from mtgcn.experiments.units import CUDA_BUDGET, DECISIVE_VERSIONS, limited_threads
from mtgcn.io.json_form import Anything, Number, Something, Text, Whole, check_form
from mtgcn.memory import CPU_BUDGET
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import LARGEST_SEED, draw_splits
from mtgcn.storage.files import parsed_json
from mtgcn.task import observe
from mtgcn.training.recording import recording

CURVES_FILE = "curves.json"
RUNS = 10  # a mean over these is smooth enough to read
EVERY = 10  # epochs
LOSSES = ("supervised", "pseudo-label", "consistency")
DIGITS = 4  # behind the point; a page shows three


_BAND_FORM = {part: [(Number(), None)] for part in ("mean", "low", "high")}
CURVES_FORM = {
    "made": {
        "dataset": Text(),
        "labels_per_class": Whole(),
        "runs": Whole(),
        "seed": Whole(most=LARGEST_SEED),
        "device": Text(),
        "settings": {"warmup_epochs": Whole(most=10**9)},
    },
    "epochs": [Whole(1, 10**9)],
    "accuracy": _BAND_FORM,
    "losses": Anything(of=_BAND_FORM),
    "class_names": [Text()],
    "precision": [_BAND_FORM],
}


@dataclass(frozen=True)
class Band:
    """A mean over runs with its 95 % interval, at each moment; None where there is nothing to average."""

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class Curves:
    """The training of one cell."""

    made: dict[str, Any]  # all that decides the numbers: dataset, labels_per_class, runs, seed, device …
    epochs: tuple[int, ...]  # the moments
    accuracy: Band  # on test nodes
    losses: dict[str, Band]
    class_names: tuple[str, ...]
    precision: tuple[Band, ...]  # of the pseudo labels of each class
    format: int = FORMAT

    @property
    def teaching_from(self) -> int:
        """The epoch after which the peers teach."""
        return int(self.made["settings"]["warmup_epochs"])


def curve_cells(selection: Selection) -> list[Cell]:
    """The random cells with the fewest and the most labels of each dataset that is asked for."""
    asked_for = TABLES if selection.tables is None else [name for name in selection.tables if name in TABLES]
    asked = [cell.dataset for name in asked_for for cell in TABLES[name].cells if _is_wanted(cell, selection)]
    cells = [cell for table in TABLES.values() for cell in table.cells if cell.split == RANDOM]
    return [
        extreme((cell for cell in cells if cell.dataset == dataset), key=lambda cell: cell.labels_per_class)
        for dataset in dict.fromkeys(asked)
        for extreme in (min, max)
    ]


def _is_wanted(cell: Cell, selection: Selection) -> bool:
    if selection.datasets is not None:
        return cell.dataset in selection.datasets
    return selection.tables is not None or cell.dataset in _DATASETS_OF_THE_PAPER


_DATASETS_OF_THE_PAPER = {cell.dataset for table in PAPER_TABLES for cell in table.cells}


def draw_curves(selection: Selection, folder: Path, progress: FittingProgress = silent_fitting) -> Path:
    """Train what the folder's curves lack, one cell after the other, and write each down as soon as it is done."""
    cells = curve_cells(selection)
    stored = {json.dumps(curves.made, sort_keys=True): curves for curves in read_curves(folder)}
    for cell in cells:
        made = _making(cell, selection)
        key = json.dumps(made, sort_keys=True)
        if key not in stored:
            with (
                progress(f"training curves, {cell.dataset} {cell.labels_per_class}"),
                limited_threads(selection.threads),
            ):
                stored[key] = _trained(cell, selection, made)
            text = json.dumps([asdict(curves) for curves in stored.values()], allow_nan=False)
            write_text(folder, CURVES_FILE, text + "\n")
    return folder / CURVES_FILE


def read_curves(folder: Path) -> list[Curves]:
    """The curves in a folder; none if there are none."""
    path = folder / CURVES_FILE
    if not path.exists():
        return []
    try:
        contents = parsed_json(content_of(path))
        for content in contents:
            check_form(content, dict.fromkeys(CURVES_FORM, Something()), "it")
            check_format(format_of(content), path)
        found = [_from_json(content) for content in contents]
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is no file of curves ({error}); take it away and draw them anew") from error
    return found


def _making(cell: Cell, selection: Selection) -> dict[str, Any]:
    versions = environment.versions()
    return {
        "dataset": cell.dataset,
        "labels_per_class": cell.labels_per_class,
        "settings": asdict(create(REFERENCE)),
        "runs": selection.runs or min(RUNS, cell.runs),
        "seed": selection.seed,
        "device": selection.device,
        "threads": selection.threads,
        "every": EVERY,
        "versions": {name: versions[name] for name in DECISIVE_VERSIONS},
    }


def _trained(cell: Cell, selection: Selection, made: dict[str, Any]) -> Curves:
    device = torch.device(selection.device.split()[0])
    graph = load(cell.dataset)
    splits = draw_splits(graph, cell.labels_per_class, made["runs"], selection.seed, cell.validation)
    task = observe(graph, splits, selection.seed, device=device)
    with recording(EVERY) as record:
        prediction = fit_in_chunks(create(REFERENCE), task, CUDA_BUDGET if device.type == "cuda" else CPU_BUDGET)
    precision = pseudo_label_precision(record.chosen, graph)  # runs, snapshots, classes
    moments = np.array(record.epochs) - 1
    return Curves(
        made=made,
        epochs=record.epochs,
        accuracy=_band(accuracy_over_epochs(record.predicted, graph, splits).T, summarise_share),
        losses={name: _band(prediction.history[name][moments].mean(axis=2), summarise) for name in LOSSES},
        class_names=graph.class_names,
        precision=tuple(_band(one, summarise_share) for one in precision.transpose(2, 1, 0)),
    )


def _band(values: Sequence[Sequence[float]] | np.ndarray, summary: Callable[[Sequence[float]], SampleSummary]) -> Band:
    """Of values by moment and run. A run in which there is none at a moment is left out of its mean."""

    def summaries() -> Iterator[tuple[float | None, float | None, float | None]]:
        for of_runs in np.asarray(values):
            there = of_runs[np.isfinite(of_runs)]
            if len(there):
                found = summary([float(value) for value in there])
                mean, low, high = (round(value, DIGITS) for value in (found.mean, *found.ci95))
                yield mean, low, high
            else:
                yield None, None, None

    mean, low, high = zip(*summaries(), strict=True)
    return Band(mean, low, high)


def _from_json(content: dict[str, Any]) -> Curves:
    check_form(content, CURVES_FORM)
    bands = [content["accuracy"], *content["losses"].values(), *content["precision"]]
    if any(len(part) != len(content["epochs"]) for band in bands for part in band.values()):
        raise ValueError("its curves are of different length")
    if len(content["precision"]) != len(content["class_names"]):
        raise ValueError("its classes have no curve each")

    def band(part: dict[str, Any]) -> Band:
        return Band(*(tuple(part[name]) for name in ("mean", "low", "high")))

    return Curves(
        **{
            "format": format_of(content),
            **content,
            "epochs": tuple(content["epochs"]),
            "accuracy": band(content["accuracy"]),
            "losses": {name: band(part) for name, part in content["losses"].items()},
            "class_names": tuple(content["class_names"]),
            "precision": tuple(map(band, content["precision"])),
        }
    )
