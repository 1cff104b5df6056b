"""Every program in `benchmarks/` runs, on graphs of a thousand nodes and with few epochs."""

import concurrent.futures
import runpy
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import pytest

import mtgcn
from mtgcn import datasets, methods

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
PROGRAMS = {
    "arena_rows.py": "--graphs cora --labels 3 --methods lp,mt-plus,random-forest --runs 2 --out OUT",
    "calibration.py": "--datasets breast_cancer,cora --labels 2,5 --runs 2",
    "cells.py": "--datasets cora --methods mt-gcn,mt-plus",
    "distributed.py": "--nodes 3000 --edges 9000 --ranks 1 --parts 2 --epochs 1 --out OUT",
    "docs_tables.py": "",
    "doubt.py": "--datasets cora,iris --labels 5 --runs 1",
    "explain.py": "--datasets cora --nodes 2",
    "first_fit.py": "--dataset cora",
    "growth.py": "--edges 1000,2000 --degree 5",
    "m3s_check.py": "--cells cora:5 --runs 1",
    "many_labels.py": "--cells 400,3,200",
    "mt_plus_ablation.py": "--datasets cora --labels 3 --runs 1 --variants 'mt-plus;without teaching'",
    "mutants.py": "--count 0 --json OUT",
    "opponents.py": "--datasets cora --methods iceberg+v --epochs 2 --runs 2",
    "own_graph.py": "--nodes 400 --edges 2000 --method lp",
    "page.py": "",
    "peer_agreement.py": "--datasets cora --runs 1",
    "peers.py": "--dataset synthetic --nodes 400 --edges 2000 --runs 2 --infomax-epochs 2 --programs lp,PyG",
    "reference.py": "--datasets cora --runs 1 --json OUT",
    "row_order.py": "--runs 1",
    "serve.py": "--nodes 400 --rows 20 --predicted 2 --seconds 1 --clients 2",
    "speed.py": "--dataset cora --runs 2 --peer-runs 1",
    "studio_queue.py": "--datasets cora --runs 1",
    "stopping.py": "--datasets iris --labels 8 --runs 1",
    "studio_latency.py": "--nodes 400 --keys 2",
    "suggestions.py": "--datasets cora --runs 1 --rounds 1",
    "threads.py": "--one",
    "trace.py": "predict",
    "useless_parts.py": "--labels 5 --runs 2",
}
SHORT = dict.fromkeys(("epochs", "warmup_epochs", "teaching_epochs", "infomax_epochs"), 2)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Datasets of 1200 nodes and methods with few epochs, for programs that run in this process."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    known = set(sys.modules)
    import measuring
    from synthetic import random_graph

    create = methods.create

    def short(name, **settings):
        few = {field.name: SHORT[field.name] for field in fields(methods.METHODS[name]) if field.name in SHORT}
        return create(name, **few | settings)

    monkeypatch.setattr(measuring, "in_fresh_process", lambda work, *args: work(*args))
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", lambda workers, _: ThreadPoolExecutor(workers))
    monkeypatch.setattr(methods, "create", short)
    for module in (mtgcn, datasets):
        monkeypatch.setattr(module, "load", lambda name: random_graph(1200, 5000, 20, 3))
    yield
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch Geometric calls it
def test_programs_have_help(tiny, monkeypatch, capsys):
    programs = {path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert programs == {*PROGRAMS, "marked_fit.py", "text.py"}  # run by first_fit.py, and by packages downloaded for it
    for program in PROGRAMS:
        monkeypatch.setattr(sys, "argv", [program, "--help"])
        assert not status_of(BENCHMARKS / program)
    assert capsys.readouterr().out.count("usage: ") == len(PROGRAMS)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::mtgcn.uncertainty.warnings.FitWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_program_runs(program, tiny, tmp_path, monkeypatch, capsys):
    options = shlex.split(PROGRAMS[program].replace("OUT", str(tmp_path / "out.json")))
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / program), *options])
    assert not status_of(BENCHMARKS / program)
    assert capsys.readouterr().out


def status_of(path):
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return end.code
    return 0
