"""Clocks, memory and tables for the programs in this folder."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
import torch

from mtgcn import environment
from mtgcn.graph import UNLABELED, Graph
from mtgcn.memory import keep_freed_blocks
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.task import Prediction, Task
from mtgcn.training import loop
from mtgcn.training.progress import progress_callbacks

GIB = 2**30
OUTSIDE = "other work"  # outside of any stage


OPTIONS: dict[str, dict[str, Any]] = {  # that several programs have
    "device": {"help": "auto, cpu or cuda"},
    "threads": {"type": int, "help": "of torch; default: what torch takes"},
    "set": {"action": "append", "metavar": "NAME=VALUE", "help": "a setting of the method"},
    "json": {"type": Path, "metavar": "FILE", "help": "write the numbers here as well"},
}


def arguments(description: str | None, **options: Any) -> argparse.Namespace:
    """Options of the command line by their names, and `--json`.

    Each is a default; a default and a help text; or the settings of `add_argument`. A type as default is the type of an
    option without one.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, given in {**options, "json": None}.items():
        default, *text = given if isinstance(given, tuple) else [given]
        settings = OPTIONS.get(name, {}) | (given if isinstance(given, dict) else {"default": default})
        settings |= {"help": text[0]} if text else {}
        if default is False:
            settings["action"] = "store_true"
        elif isinstance(default, type):
            settings |= {"type": default, "default": None}
        elif isinstance(default, int | float):
            settings["type"] = type(default)
        parser.add_argument(f"--{name.replace('_', '-')}", **settings)
    return parser.parse_args()


def start(arguments: argparse.Namespace, *packages: str) -> tuple[torch.device, dict[str, Any]]:
    """Use the device and the threads of the options; returns the device and facts about the machine with the versions
    of further packages, and prints them."""
    keep_freed_blocks()
    if getattr(arguments, "threads", None):
        torch.set_num_threads(arguments.threads)
    device = environment.chosen_device(getattr(arguments, "device", "cpu"))
    facts = machine(device)
    for package in packages:
        try:
            facts["versions"][package] = version(package)
        except PackageNotFoundError:
            facts["versions"][package] = "missing"
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    print(f"{facts['processor']}, {facts['cores']} cores, {facts['threads']} threads; device {facts['device']}")
    print(f"{versions}; load average at start {facts['load average']}\n")
    return device, facts


def timed(
    work: Callable[..., Any], *args: Any, device: torch.device | str = "cpu", **settings: Any
) -> tuple[Any, float]:
    """What `work` returns, and the seconds it took."""
    finish_pending_work(device)
    started = perf_counter()
    result = work(*args, **settings)
    finish_pending_work(device)
    return result, perf_counter() - started


def parted(parts: dict[str, float], device: torch.device | str, work: Callable[..., Any], *args: Any) -> Any:
    """What `work` returns; the seconds of its stages (`mtgcn.training.progress.stage`) are added to `parts`."""
    current, since = OUTSIDE, perf_counter()

    def note(title: str) -> None:
        nonlocal current, since
        finish_pending_work(device)
        now = perf_counter()
        parts[current] = parts.get(current, 0.0) + now - since
        current, since = title or OUTSIDE, now

    with progress_callbacks(lambda done, total: None, note):
        result = work(*args)
    note("")
    return result


def finish_pending_work(device: torch.device | str) -> None:
    """Wait for the GPU, which computes asynchronously."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def epoch_seconds(method: Method, task: Task) -> tuple[np.ndarray, Prediction]:
    """When each epoch of a fit was done, in seconds since the first one was; and what was fitted.

    Read from the progress reports of the training loop, so that set-up is not in it.
    """
    finished: list[float] = []

    def note(done: int, total: int) -> None:
        finish_pending_work(task.device)
        finished.append(perf_counter())

    usual = loop.EPOCHS_BETWEEN_REPORTS
    loop.EPOCHS_BETWEEN_REPORTS = 1
    try:
        with progress_callbacks(note):
            prediction = fit_in_chunks(method, task)
    finally:
        loop.EPOCHS_BETWEEN_REPORTS = usual
    return np.array(finished) - finished[0], prediction


def resident_memory() -> int:
    """Bytes of this process that lie in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_memory() -> int:
    """The most bytes this process ever held in memory.

    Linux starts `ru_maxrss` of a new program at its parent's value, so the kernel's own mark is preferred.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def in_fresh_process(work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)` where nothing else has taken memory before."""
    with multiprocessing.get_context("spawn").Pool(1, initializer=keep_freed_blocks) as pool:
        return pool.apply(work, args)


def machine(device: torch.device) -> dict[str, Any]:
    """Processor, device, threads, load and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": environment.device_title(device),
        "threads": torch.get_num_threads(),
        "load average": round(os.getloadavg()[0], 2),
        "versions": environment.versions(),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def show_table(rows: Sequence[dict[str, Any]]) -> None:
    """The rows as a Markdown table; the first one names the columns."""
    cells = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    for line in cells:
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |")
    print(flush=True)


def means_by_dataset(found: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Prints the means over the runs of each dataset and over all datasets; returns them with each run."""
    rows = [
        {"dataset": name} | {key: mean(run[key] for run in runs) for key in runs[0]} for name, runs in found.items()
    ]
    rows.append({"dataset": "mean"} | {key: mean(row[key] for row in rows) for key in rows[0] if key != "dataset"})
    show_table(rows)
    return [row | {"per run": found.get(row["dataset"], [])} for row in rows]


@dataclass(frozen=True)
class AsFitted:
    """The attributes of a fitted model that are needed to hold out its labels."""

    graph_: Graph
    method_: Method
    parameters_: Any = None
    label_distributions_: Any = None
    peer_distributions_: Any = None
    peer_report_: Any = None
    history_: Any = None


def labelled_graph(graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph with the labels of these nodes alone."""
    labels = np.full(graph.num_nodes, UNLABELED)
    labels[nodes] = graph.labels[nodes]
    return graph.with_labels(labels)


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 10 else f"{value:,.1f}"


def write_json(path: Path | None, content: dict[str, Any]) -> None:
    """The numbers, with the command that made them."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"command": command(sys.argv), **content}
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def command(typed: Sequence[str]) -> str:
    """The command line without `--json`.

    >>> command(["benchmarks/explain.py", "--timed", "--json", "explain.json"])
    'python benchmarks/explain.py --timed'
    """
    program, *given = typed
    for place, option in enumerate(given):
        if option == "--json":
            given[place : place + 2] = []
            break
    given = [option for option in given if not option.startswith("--json=")]
    return shlex.join(["python", f"benchmarks/{Path(program).name}", *given])
