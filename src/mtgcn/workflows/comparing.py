"""What `mtgcn run` and `compare` do: methods on splits of a named graph or of a person's own files, and what is
written about them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from mtgcn import datasets
from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.experiments.compare import compare_methods
from mtgcn.experiments.comparisons import Comparison, stored_comparisons
from mtgcn.experiments.protocol import check_not_final
from mtgcn.experiments.split_choice import PUBLIC
from mtgcn.experiments.store import Store
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.methods import Method, method_from_text, typed_method_class
from mtgcn.report.comparisons import comparison_page, comparison_tables, write_comparisons
from mtgcn.report.progress import fitting_progress
from mtgcn.settings import described_settings
from mtgcn.storage.files import check_files, check_folder, write_file
from mtgcn.workflows.inputs import read_graph
from mtgcn.workflows.output import collected_notes


@dataclass(frozen=True)
class Experiment:
    """What was asked for, as it was typed."""

    dataset: str | None
    files: TableOptions
    methods: Sequence[str]
    settings: Sequence[str] = ()  # key=value or, for one of several methods, method.key=value
    labels_per_class: str | None = None
    runs: int | None = None
    seed: int = 0
    split: str = "random"
    device: str = "auto"
    reference: str | None = None

    def __post_init__(self) -> None:
        if (self.dataset is None) != self.files.given:
            raise InputError("nothing, or two things, to compare on; give either --dataset or own files, say --edges")
        if self.files.given and self.split == PUBLIC:
            raise InputError("own files have no public split; use --split random, or a split file")
        check_not_final(self.seed)  # here too, where no graph has been read yet


@dataclass(frozen=True)
class Outcome:
    """What came of it, and where it was written."""

    comparison: Comparison
    notes: list[str]  # what was remarked on the files, and on settings that not all methods have
    files: list[Path]

    @property
    def remarks(self) -> dict[str, list[str]]:
        return {"notes": self.notes, "warnings": list(self.comparison.warnings)}


def compare_graph(
    experiment: Experiment,
    *,
    out: Path | None = None,
    latex: Path | None = None,
    report: Path | None = None,
    command: str = "",
) -> Outcome:
    """Carry it out, with a progress bar. The graph is read once the rest is in order."""
    methods, notes = configured_methods(experiment.methods, experiment.settings)
    label_counts = _label_counts(experiment.labels_per_class)
    device = chosen_device(experiment.device)
    if out is not None:
        check_folder(out, "rows")
    check_files((latex, report))
    graph, reading_notes = _read(experiment)
    notes = [*reading_notes, *notes]
    files: list[Path] = []
    with ExitStack() as stack:
        store = None if out is None else stack.enter_context(Store(out))
        comparison = compare_methods(
            graph,
            methods,
            split=experiment.split,
            labels_per_class=label_counts,
            runs=experiment.runs,
            seed=experiment.seed,
            device=device,
            reference=experiment.reference,
            progress=fitting_progress,
            store=store,
        )
        if store is not None:
            held = stored_comparisons(store.units.values(), experiment.reference)
            files += [store.path, *write_comparisons(store.folder, held)]
    texts: list[tuple[Path, str]] = []  # all of them made before the first is written
    if latex is not None:
        texts.append((latex, comparison_tables([comparison])))
    if report is not None:
        texts.append((report, comparison_page([comparison], command=command, notes=notes)))
    for path, text in texts:
        try:
            files.append(write_file(path, text))
        except InputError as error:
            written = f". Written before that: {', '.join(map(str, files))}" if files else ""
            raise InputError(f"{error}{written}") from error
    return Outcome(comparison, notes, files)


def configured_methods(names: Sequence[str], assignments: Sequence[str]) -> tuple[dict[str, Method], list[str]]:
    """The methods with these settings, and remarks on settings that only some of them have.

    `gcn.hidden_channels=32` is for one of them, `hidden_channels=32` for all that have such a setting.
    """
    settable = {name: {one.name for one in described_settings(typed_method_class(name))} for name in names}
    chosen: dict[str, list[str]] = {name: [] for name in names}
    notes = []
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        method, dot, setting = key.strip().rpartition(".")
        if dot:
            if method not in chosen:
                raise unknown_name(f"method in --set {assignment}:", method, chosen)
            chosen[method].append(f"{setting}{equals}{value}")
            continue
        wanted = setting.replace("-", "_")
        having = [name for name in names if wanted in settable[name]]
        # Where none has it, the first says what there is; so it does where there is no equals sign.
        for name in having or names[:1]:
            chosen[name].append(assignment)
        if having and len(having) < len(names):
            lacking = [name for name in names if name not in having]
            notes.append(f"--set {assignment} is for {', '.join(having)}; no such setting: {', '.join(lacking)}")
    return {name: method_from_text(name, texts) for name, texts in chosen.items()}, notes


def _read(experiment: Experiment) -> tuple[Graph, list[str]]:
    if experiment.dataset is not None:
        return datasets.load(experiment.dataset), []
    with collected_notes() as notes:
        graph = read_graph(experiment.files)
    if not len(graph.known):
        raise InputError("no node is labelled, so nothing can be scored; give --labels, or a column 'label' in --nodes")
    return graph, notes


def _label_counts(text: str | None) -> int | tuple[int, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = f"labels-per-class is {shown(text)}"
        raise InputError(f"{counts}; give a whole number, or one per class with commas") from None
    return numbers[0] if len(numbers) == 1 else numbers
