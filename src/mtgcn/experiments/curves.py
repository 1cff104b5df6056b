"""Training curves of MT-GCN: accuracy, losses and precision of pseudo labels over epochs.

They cover the lowest and the highest label rate of each dataset and are stored in `curves.json` next to the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.experiments.plan import CUDA_BUDGET, Plan, decisive_versions, limited_threads
from mtgcn.experiments.protocol import RANDOM, REFERENCE, TABLES, Cell
from mtgcn.experiments.scoring import FittingProgress, accuracy_over_epochs, pseudo_label_precision
from mtgcn.experiments.statistics import SampleSummary, summarise, summarise_share
from mtgcn.experiments.store import FORMAT, STORED, Count, check_format, content_of, described
from mtgcn.memory import CPU_BUDGET
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import LARGEST_SEED, draw_splits
from mtgcn.storage.files import write_file
from mtgcn.task import observe
from mtgcn.training.loop import recording

CURVES_FILE = "curves.json"
RUNS = 10  # gives a smooth mean
EVERY = 10  # epochs between two evaluations
LOSSES = ("supervised", "pseudo-label", "consistency")
DIGITS = 4  # decimal places of stored values

Epoch = Annotated[int, Field(ge=0, le=10**9)]


def _with_warmup(settings: dict[str, Any]) -> dict[str, Any]:
    TypeAdapter(Epoch).validate_python(settings.get("warmup_epochs"), strict=True)
    return settings


class Made(TypedDict):
    """Everything that decides the numbers of a curve."""

    dataset: str
    labels_per_class: Count
    settings: Annotated[dict[str, Any], AfterValidator(_with_warmup)]
    runs: Count
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]
    device: str
    threads: Count
    every: Epoch
    versions: dict[str, str]


@dataclass(frozen=True)
class Band:
    """Mean over runs and its 95 % interval at each recorded epoch; None where no run has a value."""

    mean: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class Curves:
    """The training curves of one cell."""

    __pydantic_config__: ClassVar[ConfigDict] = STORED

    made: Made
    epochs: tuple[Annotated[int, Field(ge=1, le=10**9)], ...]
    accuracy: Band  # accuracy on test nodes
    losses: dict[str, Band]
    class_names: tuple[str, ...]
    precision: tuple[Band, ...]  # precision of the pseudo labels by class
    format: Literal[3] = FORMAT

    def __post_init__(self) -> None:
        bands = [self.accuracy, *self.losses.values(), *self.precision]
        if any(len(part) != len(self.epochs) for band in bands for part in vars(band).values()):
            raise ValueError("its curves are of different length")
        if len(self.precision) != len(self.class_names):
            raise ValueError("its classes have no curve each")

    @property
    def teaching_from(self) -> int:
        """The last epoch of the warm-up."""
        return int(self.made["settings"]["warmup_epochs"])


def curve_cells(plan: Plan) -> list[Cell]:
    """The cells with random splits that have the fewest and the most labels of each planned dataset."""
    cells = [cell for table in TABLES.values() for cell in table.cells if cell.split == RANDOM]
    return [
        extreme((cell for cell in cells if cell.dataset == dataset), key=lambda cell: cell.labels_per_class)
        for dataset in dict.fromkeys(unit.dataset for unit in plan.units)
        for extreme in (min, max)
    ]


def draw_curves(plan: Plan, folder: Path, progress: FittingProgress = nullcontext) -> Path:
    """Train the cells without stored curves, and write the curves of each as soon as it is done."""
    selection = plan.selection
    stored = {json.dumps(curves.made, sort_keys=True): curves for curves in read_curves(folder)}
    for cell in curve_cells(plan):
        made = Made(
            dataset=cell.dataset,
            labels_per_class=cell.labels_per_class,
            settings=asdict(create(REFERENCE)),
            runs=selection.runs or min(RUNS, cell.runs),
            seed=selection.seed,
            device=selection.device,
            threads=selection.threads,
            every=EVERY,
            versions=decisive_versions(),
        )
        key = json.dumps(made, sort_keys=True)
        if key not in stored:
            title = f"training curves, {cell.dataset} {cell.labels_per_class}"
            with progress(title), limited_threads(selection.threads):
                stored[key] = _trained(cell, made)
            text = json.dumps([asdict(curves) for curves in stored.values()], allow_nan=False)
            write_file(folder / CURVES_FILE, text + "\n")
    return folder / CURVES_FILE


def read_curves(folder: Path) -> list[Curves]:
    """The stored curves of a folder; empty without a file."""
    path = folder / CURVES_FILE
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[Curves]).validate_json(content_of(path))
    except ValidationError as error:
        check_format(error, path)
        raise InputError(f"{path} is not a file of curves ({described(error)}); remove it and run again") from error


def _trained(cell: Cell, made: Made) -> Curves:
    device = torch.device(made["device"].split()[0])
    graph = load(cell.dataset)
    splits = draw_splits(graph, cell.labels_per_class, made["runs"], made["seed"], cell.validation)
    task = observe(graph, splits, made["seed"], device=device)
    with recording(EVERY) as record:
        prediction = fit_in_chunks(create(REFERENCE), task, CUDA_BUDGET if device.type == "cuda" else CPU_BUDGET)
    precision = pseudo_label_precision(record.chosen, graph)  # [runs, snapshots, classes]
    moments = np.array(record.epochs) - 1
    return Curves(
        made=made,
        epochs=record.epochs,
        accuracy=_band(accuracy_over_epochs(record.predicted, graph, splits).T, summarise_share),
        losses={name: _band(prediction.history[name][moments].mean(axis=2), summarise) for name in LOSSES},
        class_names=graph.class_names,
        precision=tuple(_band(one, summarise_share) for one in precision.transpose(2, 1, 0)),
    )


def _band(values: np.ndarray, summary: Callable[[Sequence[float]], SampleSummary]) -> Band:
    """Summarise values [epochs, runs]; an epoch is summarised over the runs with a value."""
    parts: list[tuple[float | None, ...]] = []
    for finite in ([float(value) for value in of_runs[np.isfinite(of_runs)]] for of_runs in np.asarray(values)):
        found = summary(finite) if finite else None
        parts.append(tuple(round(one, DIGITS) for one in (found.mean, *found.ci95)) if found else (None,) * 3)
    return Band(*zip(*parts, strict=True))
