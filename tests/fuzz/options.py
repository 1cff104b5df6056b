"""Command lines: every command with options that are wrong, odd or given twice, on small files that are right."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path
from random import Random

from fuzz import nasty
from fuzz.commands import run_command
from fuzz.models import METHODS as MODELS
from fuzz.models import model_of
from fuzz.trial import Trial, require

# Every count that a case may be given is small or beyond all limits, so that what is allowed ends soon.
SETTINGS = (
    *(
        "epochs",
        "hidden_channels",
        "dropout",
        "learning_rate",
        "weight_decay",
        "per_class",
        "stages",
        "passes",
        "window",
    ),
    *("walk_length", "walks_per_node", "dimensions", "degree", "alpha", "steps", "clusters", "folds", "peers", "init"),
    *("feature_scaling", "embeddings", "no_such", "", "method.epochs", "gcn.epochs"),
)
QUICK = {"gcn": ["epochs=2"], "lp": [], "sgc": [], "logistic": [], "ppr": [], "ica": [], "multi-stage": ["epochs=2"]}
SLOW_TO_ALLOW = {  # a setting's counts between a few and the limit take long, and rightly so
    "epochs": ("1", "2", "-1", "0", "nan", "1.5", "10000000", "9" * 30, "x", "", "none"),
}
VALUES = (
    *nasty.COUNTS,
    "0.5",
    "-0.5",
    "1e-45",
    "1e38",
    "1e400",
    "inf",
    "true",
    "none",
    "all",
    "mean",
    "a=b",
    "a,b",
    "é",
)


def drawn(random: Random) -> Trial:
    command = random.choice((_fit, _fit, _fit, _run, _run, _compare, _predict, _suggest, _label, _others))
    arguments = command(random)
    if arguments and random.random() < 0.2:
        place = random.randrange(1, len(arguments) + 1)
        what = random.randrange(3)
        if what == 0:
            arguments.insert(place, nasty.text(random)[:500].replace("\x00", ""))
        elif what == 1 and len(arguments) > 2:
            del arguments[place % len(arguments) or 1]
        else:
            arguments.insert(place, random.choice(("--json", "--no-such", "-h", "--", "--seed", "--device", "-")))
    return trial_of(arguments)


def trial_of(arguments: list[str]) -> Trial:
    """The command in a folder with edges.csv, nodes.csv, labels.csv, split.json and models."""

    def attempt(folder: Path) -> None:
        for path in _home().iterdir():
            shutil.copy(path, folder)
        (folder / "loop.csv").symlink_to("loop.csv")
        os.mkfifo(folder / "pipe.csv")
        shutil.copy(folder / "edges.csv", folder / NO_TEXT)
        needed = next((name for name in MODELS if f"{name}-model" in arguments), None)
        if needed:
            shutil.copytree(model_of(needed) / "model", folder / f"{needed}-model")
        printed = run_command(arguments)
        # Behind an option without a value, --json is that value.
        if arguments[-1:] == ["--json"] and not arguments[-2].startswith("-") and "-h" not in arguments:
            json.loads(printed, parse_constant=_no_number)

    return Trial(" ".join(arguments)[:300], attempt)


def _no_number(constant: str) -> None:
    require(False, f"{constant} in the JSON")


@cache
def _home() -> Path:
    home = model_of("lp") / "files"
    home.mkdir()
    for name in ("edges.csv", "nodes.csv", "labels.csv"):
        shutil.copy(home.parent / name, home)
    (home / "split.json").write_text('{"train": ["n0", "n1"], "test": ["n2", "n3", "n4"]}', encoding="utf-8")
    (home / "new.csv").write_text("id,size,kind,level\nz1,3,a,\n", encoding="utf-8")
    (home / "more.csv").write_text("id,label\nn9,red\nn10,blue\n", encoding="utf-8")
    (home / "empty.csv").write_bytes(b"")
    return home


NO_TEXT = os.fsdecode(b"\xff.csv")  # a name that is no UTF-8, as old disks have
FILES = (
    *("edges.csv", "nodes.csv", "labels.csv", "split.json", "empty.csv", "no-such.csv", ".", "more.csv"),
    *("loop.csv", "pipe.csv", NO_TEXT, "n" * 300, "edges.csv/x", ""),
)


def _odd(random: Random, plain: str, chance: float = 0.05) -> str:
    return random.choice(VALUES) if random.random() < chance else plain


def _count(random: Random, plain: str, chance: float = 0.15) -> str:
    return random.choice(nasty.COUNTS) if random.random() < chance else plain


def _files(random: Random) -> list[str]:
    arguments = []
    for name in ("edges", "nodes", "labels"):
        if random.random() < 0.98:
            arguments += [f"--{name}", f"{name}.csv" if random.random() < 0.98 else random.choice(FILES)]
    if random.random() < 0.1:
        role = random.choice(
            ("source", "weight", "id", "label", "number", "category", "date", "text", "ignore", "x", "")
        )
        arguments += ["--column", f"{role}={random.choice(('size', 'kind', 'level', 'id', '1', '9', '', 'no such'))}"]
    if random.random() < 0.1:
        arguments += [
            random.choice(("--features", "--exclude")),
            random.choice(("size", "size,kind", "no such", ",", "id")),
        ]
    if random.random() < 0.05:
        arguments += ["--knn", random.choice(nasty.COUNTS), "--metric", _odd(random, "cosine", 0.3)]
    if random.random() < 0.1:
        arguments += ["--unknown-nodes", random.choice(("drop", "add", "error", "x"))]
    if random.random() < 0.05:
        arguments += [random.choice(("--header", "--no-header"))]
    return arguments


def _method(random: Random) -> list[str]:
    method = random.choice(list(QUICK))
    arguments = ["--method", _odd(random, method, 0.05)]
    settings = list(QUICK[method])
    if random.random() < 0.25:
        name = random.choice(SETTINGS)
        settings.append(f"{name}={random.choice(SLOW_TO_ALLOW.get(name, VALUES))}")
    return arguments + [part for setting in settings for part in ("--set", setting)]


def _fit(random: Random) -> list[str]:
    arguments = ["fit", *_files(random), *_method(random), "--out", "model"]
    arguments += ["--folds", _count(random, random.choice(("0", "0", "2")))]
    if random.random() < 0.2:
        arguments += ["--check"]
    if random.random() < 0.1:
        arguments += ["--seed", _count(random, "7", 0.5)]
    if random.random() < 0.1:
        arguments += ["--classes", random.choice(("red,blue", "red,blue", "red", "red,red", ",", "x,y"))]
    if random.random() < 0.2:
        arguments += ["--device", _odd(random, "cpu", 0.2)]
    if random.random() < 0.1:
        arguments += ["--report", "page.html"]
    return arguments + ["--json"] * (random.random() < 0.3)


def _experiment(random: Random) -> list[str]:
    arguments = ["--labels-per-class", _odd(random, random.choice(("1", "1,2", "2")), 0.1)]
    arguments += ["--runs", _count(random, random.choice("12"))]
    if random.random() < 0.1:
        arguments += ["--split", random.choice(("over-all", "public", "split.json", "no-such", "nodes.csv", ""))]
    if random.random() < 0.1:
        arguments += ["--seed", _count(random, "7", 0.5)]
    if random.random() < 0.2:
        arguments += ["--out", "rows"]
    if random.random() < 0.2:
        arguments += ["--latex", "table.tex", "--report", "page.html"]
    return arguments + ["--json"] * (random.random() < 0.3)


def _run(random: Random) -> list[str]:
    return ["run", *_files(random), *_method(random), *_experiment(random)]


def _compare(random: Random) -> list[str]:
    methods = ",".join(random.sample(list(QUICK), 2))
    arguments = ["compare", *_files(random), "--methods", _odd(random, methods), "--set", "epochs=2"]
    if random.random() < 0.2:
        arguments += ["--reference", random.choice(("gcn", "no such", "lp"))]
    return arguments + _experiment(random)


def _model(random: Random) -> str:
    return (
        f"{random.choice(list(MODELS))}-model"
        if random.random() < 0.95
        else random.choice((".", "no-such", "edges.csv"))
    )


def _predict(random: Random) -> list[str]:
    arguments = [
        "predict",
        _model(random),
        "--out",
        random.choice(("out.csv", "out.csv", "-", ".", "a/b/out.csv", "n" * 300, "loop.csv")),
    ]
    if random.random() < 0.7:
        arguments += [
            "--nodes",
            random.choice(FILES) if random.random() < 0.2 else random.choice(("new.csv", "nodes.csv")),
        ]
    if random.random() < 0.15:
        arguments += ["--edges", random.choice(FILES)]
    arguments += ["--all"] * (random.random() < 0.2) + ["--new-graph"] * (random.random() < 0.2)
    return arguments + ["--json"] * (random.random() < 0.3)


def _suggest(random: Random) -> list[str]:
    arguments = ["suggest", _model(random), "--count", _count(random, "3", 0.4)]
    return arguments + random.choice(([], ["--json"], ["--out", "out.csv"], ["--out", "-"], ["--out", "."]))


def _label(random: Random) -> list[str]:
    arguments = ["label", _model(random), random.choice(FILES) if random.random() < 0.2 else "more.csv", "--folds", "0"]
    if random.random() < 0.2:
        arguments += ["--new-classes", random.choice(("green", "red", ",", ""))]
    return arguments + ["--json"] * (random.random() < 0.3)


def _others(random: Random) -> list[str]:
    return random.choice(
        (
            ["methods", _odd(random, random.choice(list(QUICK)), 0.3)],
            ["methods", "--json"],
            ["datasets", _odd(random, "no such", 0.5)],
            ["report", random.choice((_model(random), *FILES))],
            ["reproduce", "--runs", random.choice(("0", "-1", "10001", "9" * 30, "x"))],
            ["reproduce", "--threads", random.choice(("0", "-1", "257", "9" * 30, "x"))],
            ["reproduce", "--workers", random.choice(("0", "-1", "1000000", "9" * 30, "x"))],
            [
                "reproduce",
                random.choice(("--table", "--datasets", "--methods", "--protocol", "--suite")),
                random.choice(VALUES[-8:]),
            ],
            [nasty.text(random)[:50]],
            [],
        )
    )


_GIVEN = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--labels", "labels.csv"]
KEPT = (
    trial_of(["run", *_GIVEN, "--method", "lp", "--labels-per-class", "1", "--runs", "1000000000"]),
    trial_of(["run", *_GIVEN, "--method", "lp", "--labels-per-class", "9" * 5000]),
    trial_of(["fit", *_GIVEN, "--method", "ica", "--set", "feature_scaling=" + "9" * 5000, "--out", "model"]),
    trial_of(["predict", "gcn-model", "--out", "-"]),
    trial_of(["reproduce", "--threads", "1000000"]),
    trial_of(["reproduce", "--workers", "1000000"]),
    trial_of(["reproduce", "--runs", "1000000000"]),
    trial_of(["fit", *_GIVEN, "--method", "multi-stage", "--set", "stages=1000000000", "--out", "model"]),
    trial_of(["fit", *_GIVEN, "--method", "deepwalk", "--set", "passes=1000000000", "--out", "model"]),
    trial_of(["fit", *_GIVEN, "--method", "deepwalk", "--set", "window=1000000000000", "--out", "model"]),
    trial_of(["fit", *_GIVEN, "--method", "deepwalk", "--set", "walk_length=1000000000", "--out", "model"]),
    trial_of(["fit", *_GIVEN, "--method", "planetoid", "--set", "window=1000000000", "--out", "model"]),
    trial_of(
        ["fit", *_GIVEN, "--method", "gcn", "--set", "hidden_channels=1000000", "--set", "epochs=2", "--out", "model"]
    ),
    trial_of(
        [
            "run",
            *_GIVEN,
            "--method",
            "gcn",
            "--set",
            "hidden_channels=1000000",
            "--set",
            "epochs=2",
            "--runs",
            "1",
            "--labels-per-class",
            "1",
        ]
    ),
)
