"""`mtgcn run`, `compare` and `demo`: methods on splits of one graph. `reproduce` and `arena`: whole tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from mtgcn.cli import options as cli
from mtgcn.errors import InputError, shown, unknown_name

if TYPE_CHECKING:
    from mtgcn.experiments.compare import Comparison
    from mtgcn.experiments.protocol import Protocol
    from mtgcn.methods import Method

DEMONSTRATED = "gcn,mt-gcn,mt-plus"

DATASET = cli.option(
    "A name from mtgcn datasets, for instance cora; or give files.", "NAME", shown=False, complete=cli.dataset_names
)


@dataclass(frozen=True)
class SplitOptions(cli.OptionGroup):
    """Splits, seed and device of `run` and `compare`."""

    labels_per_class: str | None = cli.option(
        "Labels drawn per class: one number, or a comma-separated number for each class.", "N[,N…]"
    )
    validation_per_class: int = cli.option(
        "Validation labels drawn per class for methods that use them; no method is scored on them.",
        "N",
        default=0,
        shown="500 in all, if a method uses them",
    )
    runs: int | None = cli.option("Number of splits, or of seeds on a fixed split.", "N", shown="30")
    seed: int = cli.SEED
    split: str = cli.option(
        "random (from each class), over-all (from all nodes), public (of Planetoid) or a JSON file.",
        "NAME|FILE",
        default="random",
    )
    score: str = cli.SCORE
    device: str = cli.DEVICE

    def label_counts(self) -> int | tuple[int, ...] | None:
        if self.labels_per_class is None:
            return None
        try:
            numbers = tuple(int(part) for part in self.labels_per_class.split(","))
        except ValueError:
            counts = f"labels-per-class is {shown(self.labels_per_class)}"
            raise InputError(f"{counts}; give a whole number, or a comma-separated number for each class") from None
        return numbers[0] if len(numbers) == 1 else numbers


@dataclass(frozen=True)
class OutputOptions(cli.OptionGroup):
    """Output options of `run` and `compare`."""

    out: Path | None = cli.option("Folder for rows, tables and a page; stored methods are not run again.", "DIR")
    latex: Path | None = cli.option("Also write the table for a paper.", "FILE")
    report: Path | None = cli.option("Also write one HTML page.", "FILE")
    as_json: bool = cli.AS_JSON


def run(
    *,
    context: typer.Context,
    dataset: str | None = DATASET,
    method: str = cli.option(
        "A name from mtgcn methods, or module:Class for a user-defined method.",
        "NAME",
        default="mt-plus",
        complete=cli.method_names,
    ),
    settings: list[str] | None = cli.SETTINGS,
    splits: SplitOptions,
    files: cli.FileOptions,
    output: OutputOptions,
) -> None:
    """Fit and score one method on many splits of a named graph or of your own files."""
    from mtgcn.report.comparisons import cell_table
    from mtgcn.report.tables import print_table

    comparison, notes = _compare([method], dataset, files, splits, output, settings or (), command=context.obj or "")
    [cell] = comparison.cells
    if output.as_json:
        cli.print_json(asdict(cell) | {"score": comparison.score, "notes": notes, "warnings": comparison.warnings})
    else:
        print_table(cell_table(cell))


def compare(
    *,
    context: typer.Context,
    dataset: str | None = DATASET,
    methods: str = cli.option(
        "Comma-separated names from mtgcn methods, or module:Class for user-defined methods.",
        "NAME,NAME…",
        default=DEMONSTRATED,
        complete=cli.method_lists,
    ),
    settings: list[str] | None = cli.option(
        "A setting of one method (gcn.hidden_channels=32), or of all methods that have it (hidden_channels=32); "
        "may be repeated.",
        "KEY=VALUE",
        "--set",
    ),
    reference: str | None = cli.option(
        "The method that the others are compared with.",
        "NAME",
        shown="mt-plus, mt-gcn or the first",
        complete=cli.method_names,
    ),
    splits: SplitOptions,
    files: cli.FileOptions,
    output: OutputOptions,
) -> None:
    """Compare methods on the same splits of a named graph or of your own files: means, intervals, paired
    differences."""
    from mtgcn.report.comparisons import comparison_table
    from mtgcn.report.tables import print_table

    names, command = cli.listed(methods, "methods"), context.obj or ""
    comparison, notes = _compare(names, dataset, files, splits, output, settings or (), reference, command)
    if output.as_json:
        cli.print_json(asdict(comparison) | {"notes": notes})
    else:
        print_table(comparison_table(comparison))


def demo() -> None:
    """Compare a GCN, MT-GCN and mt-plus with 2 labels per class, on Cora or, if it cannot be downloaded, on digits."""
    from mtgcn.datasets import SourceUnreachable, load
    from mtgcn.report.comparisons import comparison_table
    from mtgcn.report.tables import print_table

    dataset = "cora"
    try:
        load(dataset)
    except SourceUnreachable as error:
        cli.remark(str(error))
        cli.remark("continuing with the digits of scikit-learn")
        dataset = "digits"
    print(
        f"Accuracy on {dataset} with 2 labels per class and 30 random splits: a graph convolutional network (gcn),\n"
        "two that teach each other (mt-gcn, the paper's method), and eight peers with different views of a node\n"
        "(mt-plus, the default). The same as\n\n"
        f"    mtgcn compare --dataset {dataset} --labels-per-class 2\n",
        flush=True,
    )
    names = DEMONSTRATED.split(",")
    comparison, _ = _compare(names, dataset, cli.FileOptions(), SplitOptions("2"), OutputOptions())
    print_table(comparison_table(comparison))


def _compare(
    names: Sequence[str],
    dataset: str | None,
    files: cli.FileOptions,
    splits: SplitOptions,
    output: OutputOptions,
    settings: Sequence[str] = (),
    reference: str | None = None,
    command: str = "",
) -> tuple[Comparison, list[str]]:
    """Check the options, read the graph, compare with a progress bar, and write the files.

    Returns the comparison and notes on the files and settings, which are also printed on stderr, unless as JSON.
    """
    from mtgcn import datasets
    from mtgcn.environment import chosen_device
    from mtgcn.estimator.inputs import read_graph
    from mtgcn.experiments.compare import compared_rows, comparison_of, stored_comparisons
    from mtgcn.experiments.protocol import PUBLIC, check_not_final
    from mtgcn.experiments.scoring import check_score
    from mtgcn.experiments.store import Store
    from mtgcn.report.comparisons import comparison_page, comparison_tables, write_comparisons
    from mtgcn.report.progress import fitting_progress
    from mtgcn.storage.files import check_files, check_folder, write_file
    from mtgcn.workflows.output import collected_files, collected_notes

    tables = files.table_options()
    if (dataset is None) != tables.given:
        given = "no graph" if dataset is None else "two graphs"
        raise InputError(f"{given}; give either --dataset or files, for instance a table")
    if tables.given and splits.split == PUBLIC:
        raise InputError("--split public requires --dataset; use --split random, or a split file")
    check_not_final(splits.seed)
    check_score(splits.score)
    methods, setting_notes = configured_methods(names, settings)
    label_counts, device = splits.label_counts(), chosen_device(splits.device)
    if output.out is not None:
        check_folder(output.out, "rows")
    check_files((output.latex, output.report))
    with collected_notes() as notes, collected_files() as recognised:
        graph = datasets.load(dataset) if dataset is not None else read_graph(tables)
    if not len(graph.known):
        raise InputError("no node is labelled, so nothing can be scored; give --target or --labels")
    check_score(splits.score, graph.num_classes)
    notes += setting_notes
    written: list[Path] = []
    with nullcontext() if output.out is None else Store(output.out) as store:
        rows = compared_rows(
            graph,
            methods,
            split=splits.split,
            labels_per_class=label_counts,
            runs=splits.runs,
            seed=splits.seed,
            validation_per_class=splits.validation_per_class,
            device=device,
            reference=reference,
            progress=fitting_progress,
            store=store,
        )
        if store is not None:
            stored = stored_comparisons(store.units.values(), reference, splits.score)
            written += [store.path, *write_comparisons(store.folder, stored)]
    comparison = comparison_of(rows, reference, splits.score)
    if output.latex is not None:
        written.append(write_file(output.latex, comparison_tables([comparison])))
    if output.report is not None:
        written.append(write_file(output.report, comparison_page([comparison], command=command, notes=notes)))
    if not output.as_json:
        warnings = [f"warning: {one}" for one in comparison.warnings]
        for message in (*recognised, *(f"note: {note}" for note in notes), *warnings):
            cli.remark(message)
    if written:
        cli.remark(f"wrote {', '.join(map(str, written))}")
    return comparison, notes


def configured_methods(names: Sequence[str], assignments: Sequence[str]) -> tuple[dict[str, Method], list[str]]:
    """The methods with these settings, and notes on settings that only some of them have.

    `gcn.hidden_channels=32` applies to one method, `hidden_channels=32` to all that have the setting.
    """
    from mtgcn.methods import method_from_text, typed_method_class
    from mtgcn.settings import described_settings

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
        having = [name for name in names if setting.replace("-", "_") in settable[name]]
        for name in having or names[:1]:  # if no method has the setting, the first raises the error
            chosen[name].append(assignment)
        if having and len(having) < len(names):
            lacking = [name for name in names if name not in having]
            notes.append(f"--set {assignment} is for {', '.join(having)}; no such setting: {', '.join(lacking)}")
    return {name: method_from_text(name, texts) for name, texts in chosen.items()}, notes


def reproduce(
    suite: str | None = cli.option("A suite of other graphs instead of the paper's tables.", "world", shown=False),
    table: str | None = cli.option("Tables of the paper, 1 to 5, or digits.", "N,N…", shown="1 to 5"),
    datasets: str | None = cli.option(
        "Only these datasets.", "NAME,NAME…", shown="those of the paper, or of the suite"
    ),
    methods: str | None = cli.option(
        "Only these methods, also others than the paper's.", "NAME,NAME…", shown="the paper's, or the suite's"
    ),
    runs: int | None = cli.option("Runs of each cell.", "N", shown="30; for PubMed and suites 10"),
    seed: int | None = cli.option("Seed of splits and methods.", "N", shown="0"),
    protocol: str = cli.option(
        "ours; or paper, the authors' optimistic evaluation: the better peer by test accuracy, the largest of ten "
        "averages.",
        "ours|paper",
        default="ours",
    ),
    ablation: bool = cli.flag("MT-GCN with parts removed or changed.", "--ablation"),
    backbones: bool = cli.flag("MT-GCN with other networks, without and with teaching.", "--backbones"),
    curves: bool = cli.flag("Also draw training curves of MT-GCN at the lowest and highest label rates.", "--curves"),
    final: bool = cli.flag("Use splits reserved for final figures; refuses development seeds.", "--final"),
    out: Path | None = cli.option(
        "Folder for the rows; stored units are not run again.",
        "DIR",
        shown="reproduction; for a suite reproduction-NAME",
    ),
    workers: int | None = cli.option("Number of processes; rows do not depend on it.", "N", shown="by cores"),
    ray: str | None = cli.option(
        "Use a Ray cluster instead of --workers: HOST:PORT of its head node, auto for a running cluster on this "
        "machine, local to start one for this command. Rows are the same.",
        "ADDRESS|local",
        shown=False,
    ),
    threads: int = cli.option("Threads per unit of work; another number gives new rows.", "N", default=1),
    device: str = cli.DEVICE,
) -> None:
    """Measure the paper's tables, or a suite of other graphs. An interrupted command resumes when started again."""
    from mtgcn.environment import chosen_device
    from mtgcn.experiments.plan import Selection, plan
    from mtgcn.experiments.protocol import checked_seed
    from mtgcn.experiments.reproduce import carry_out, machines
    from mtgcn.experiments.store import Store
    from mtgcn.report.progress import fitting_progress, sweep_progress
    from mtgcn.report.reproduction import write_reproduction

    selection = Selection(
        suite=suite,
        tables=cli.listed(table, "table"),
        datasets=cli.listed(datasets, "datasets"),
        methods=cli.listed(methods, "methods"),
        runs=runs,
        seed=checked_seed(seed, final=final),
        protocol=cast("Protocol", protocol),  # checked there
        ablation=ablation,
        backbones=backbones,
        curves=curves,
        threads=threads,
    )
    out = out or Path("reproduction" if suite is None else f"reproduction-{suite}")
    with machines(device, threads, workers, ray) as found:
        if curves:
            chosen_device(found.device.split()[0])  # curves are trained on this machine
        planned = plan(replace(selection, device=found.device))
        with Store(out, warn=lambda message: cli.remark(f"warning: {message}")) as store:
            try:
                reproduction = carry_out(planned, store, found, sweep_progress, fitting_progress)
            except KeyboardInterrupt:
                done = sum(unit.id in store.units for unit in planned.units)
                cli.remark(f"{done} of {len(planned.units)} units are stored in {out}; the same command resumes")
                raise
            text, files = write_reproduction(out, reproduction)
    cli.remark(f"wrote {', '.join(map(str, files))}")
    cli.show(*text.split("\n"))
    if reproduction.failures:
        raise InputError("; ".join(reproduction.failures))


def arena(
    *,
    graphs: str = cli.option(
        "Names from mtgcn datasets, or the groups graphs and tables.", "NAME,NAME…", default="graphs"
    ),
    methods: str | None = cli.option(
        "Names from mtgcn methods, or module:Class for user-defined methods.",
        "NAME,NAME…",
        shown="those of the group",
        complete=cli.method_lists,
    ),
    labels: str | None = cli.option("Labels per class.", "N,N…", shown="1,2,3,5,10,20; for tables 3,5,20"),
    runs: int | None = cli.option("Splits of each graph and label rate.", "N", shown="30; for tables 10"),
    seed: int | None = cli.option("Seed of splits and methods.", "N", shown="0"),
    final: bool = cli.flag("Use splits and tables reserved for final figures.", "--final"),
    validation_per_class: int = cli.option("Validation labels, for methods that use them.", "N", default=0),
    out: Path | None = cli.option("Folder for rows and page; stored units are not run again.", "DIR"),
    check: Path | None = cli.option("Recompute some of the rows in a folder instead.", "DIR"),
    score: str = cli.SCORE,
    workers: int | None = cli.option("Number of processes.", "N", shown="by cores"),
    ray: str | None = cli.option("Use a Ray cluster instead of --workers.", "ADDRESS|local"),
    device: str = cli.DEVICE,
) -> None:
    """Compare methods on graphs or tables at several label rates, and write one page. An interrupted command resumes
    when started again."""
    from mtgcn.experiments.arena import arena_units, missing_units, record_failure, stored_arena
    from mtgcn.experiments.protocol import checked_seed
    from mtgcn.experiments.reproduce import machines, sweep
    from mtgcn.experiments.scoring import check_score
    from mtgcn.experiments.store import Store
    from mtgcn.report.arena import rank_table, rankings_of, score_table, write_arena
    from mtgcn.report.progress import sweep_progress
    from mtgcn.report.tables import markdown_lines

    names = cli.listed(methods, "methods")
    check_score(score)
    if check is not None:
        _recompute(check, names or [], seed or 0, device)
        return
    if out is None:
        raise InputError("--out is missing; give a folder for the rows")
    try:
        rates = None if labels is None else [int(part) for part in cli.listed(labels, "labels")]
    except ValueError:
        raise InputError(f"labels is {labels!r}; give comma-separated whole numbers, such as 1,5,20") from None
    seed = checked_seed(seed, final=final)
    with (
        machines(device, 1, workers, ray) as found,
        Store(out, warn=lambda text: cli.remark(f"warning: {text}")) as store,
    ):
        units = arena_units(
            cli.listed(graphs, "graphs"),
            names,
            rates,
            runs=runs,
            seed=seed,
            validation_per_class=validation_per_class,
            device=found.device,
        )
        for unit, error in sweep(missing_units(units, store.units), store, found, sweep_progress):
            record_failure(out, unit, error)
            cli.remark(f"{unit.title}: {error}")
        stored = stored_arena(out, store.units, seed, score)
    if stored is None:
        raise InputError(f"all {len(units)} units failed; the lines above give the reasons")
    cli.remark(f"wrote {write_arena(out, stored)}")
    for part in stored.groups.values():
        rankings = rankings_of(part)  # none of two methods, or one cell
        cli.show(*markdown_lines(rank_table(rankings) if rankings else score_table(part, None)))


def _recompute(folder: Path, methods: list[str], seed: int, device: str) -> None:
    """Recompute random units and compare their mean accuracies with those stored."""
    from mtgcn.environment import chosen_device, device_title
    from mtgcn.experiments.arena import TOLERANCE, recomputed
    from mtgcn.experiments.store import read_units

    differing = 0
    for title, stored, here in recomputed(read_units(folder), methods, seed, device_title(chosen_device(device))):
        differs = abs(stored - here) > TOLERANCE
        differing += differs
        cli.show(f"{title}: stored {100 * stored:.2f} %, here {100 * here:.2f} %{', DIFFERENT' if differs else ''}")
    if differing:
        raise InputError(f"{differing} units differ by more than {100 * TOLERANCE:g} point; do not add these rows")


def report(
    folder: Path = typer.Argument(
        ...,
        help="Folder with a model (mtgcn fit) or with rows (mtgcn reproduce, arena, run or compare).",
        metavar="MODEL|DIR",
    ),
    out: Path | None = cli.option("File for the page about a model.", "FILE", shown="MODEL/report.html"),
) -> None:
    """Write a page about stored results, without running anything.

    For a model: report.html, with the map of its nodes and all predictions. For stored rows: report.html and tables.tex
    for the paper's tables, report-NAME.html and tables-NAME.tex for a suite, report-comparison.html and
    tables-comparison.tex for mtgcn run and compare, and arena.html for the arena.
    """
    from mtgcn.storage.files import check_file, current_path

    if current_path(folder, "card.json").exists():
        from mtgcn.estimator.persistence import load_model

        page = out or folder / "report.html"
        check_file(page)
        load_model(folder).report(page)
        cli.print_result({}, (page,), as_json=False, written=page)
        return
    if out is not None:
        raise InputError(f"--out {out} requires a model, which {folder} does not contain; omit it")
    from mtgcn.experiments.arena import stored_arena
    from mtgcn.experiments.compare import stored_comparisons
    from mtgcn.experiments.store import PACKED_ROWS_FILE, ROWS_FILE, read_units
    from mtgcn.experiments.tables import of_sweeps, stored_evidence, suites_in
    from mtgcn.report.arena import write_arena
    from mtgcn.report.comparisons import write_comparisons
    from mtgcn.report.reproduction import write_report

    if not any((folder / name).is_file() for name in (ROWS_FILE, PACKED_ROWS_FILE)):
        raise InputError(
            f"{folder} holds neither a model (card.json) nor rows ({ROWS_FILE}); give a folder written by mtgcn fit "
            "or mtgcn reproduce"
        )
    units = read_units(folder)
    comparisons = stored_comparisons(units.values())
    written = write_comparisons(folder, comparisons) if comparisons else []
    if arena := stored_arena(folder, units):
        written.append(write_arena(folder, arena))
    if of_sweeps(units) or not written:
        for suite in suites_in(units):
            written += write_report(folder, stored_evidence(units, suite=suite))
    cli.print_result({}, written, as_json=False, written=" and ".join(map(str, written)))
