"""Command lines: every command with malformed or repeated options, on small valid files."""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path
from random import Random

from fuzz import malformed
from fuzz.case import Case, require, run_command
from fuzz.models import METHODS as MODELS
from fuzz.models import model_of

# Counts are small or above every limit, so that valid ones end soon.
SETTINGS = (
    *("epochs", "hidden_channels", "dropout", "learning_rate", "weight_decay", "per_class", "stages", "passes"),
    "window",
    *("walk_length", "walks_per_node", "dimensions", "degree", "alpha", "steps", "clusters", "folds", "peers", "init"),
    *("feature_scaling", "embeddings", "no_such", "", "method.epochs", "gcn.epochs"),
)
QUICK = {"gcn": ["epochs=2"], "lp": [], "sgc": [], "logistic": [], "ppr": [], "ica": [], "multi-stage": ["epochs=2"]}
SLOW_TO_ALLOW = {  # counts in between take long
    "epochs": ("1", "2", "-1", "0", "nan", "1.5", "10000000", "9" * 30, "x", "", "none"),
}
VALUES = (
    *malformed.COUNTS,
    *("0.5", "-0.5", "1e-45", "1e38", "1e400", "inf", "true", "none", "all", "mean", "a=b", "a,b", "é"),
)


def random_case(random: Random) -> Case:
    command = random.choice((_fit, _fit, _fit, _run, _run, _compare, _predict, _suggest, _label, _others))
    arguments = command(random)
    if arguments and random.random() < 0.2:
        place = random.randrange(1, len(arguments) + 1)
        what = random.randrange(3)
        if what == 0:
            arguments.insert(place, malformed.text(random)[:500].replace("\x00", ""))
        elif what == 1 and len(arguments) > 2:
            del arguments[place % len(arguments) or 1]
        else:
            arguments.insert(place, random.choice(("--json", "--no-such", "-h", "--", "--seed", "--device", "-")))
    return case_of(arguments)


def case_of(arguments: list[str]) -> Case:
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

    return Case(" ".join(arguments)[:300], attempt)


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
    return random.choice(malformed.COUNTS) if random.random() < chance else plain


def _maybe(random: Random, chance: float, *arguments: str) -> list[str]:
    return list(arguments) if random.random() < chance else []


def _files(random: Random) -> list[str]:
    arguments = []
    for name in ("edges", "nodes", "labels"):
        file = f"{name}.csv" if random.random() < 0.98 else random.choice(FILES)
        arguments += _maybe(random, 0.98, f"--{name}", file)
    role = random.choice(("source", "weight", "id", "label", "number", "category", "date", "text", "ignore", "x", ""))
    column = random.choice(("size", "kind", "level", "id", "1", "9", "", "no such"))
    columns = random.choice(("size", "size,kind", "no such", ",", "id"))
    neighbours = random.choice(malformed.COUNTS)
    return [
        *arguments,
        *_maybe(random, 0.1, "--column", f"{role}={column}"),
        *_maybe(random, 0.1, random.choice(("--features", "--exclude")), columns),
        *_maybe(random, 0.05, "--knn", neighbours, "--metric", _odd(random, "cosine", 0.3)),
        *_maybe(random, 0.1, "--unknown-nodes", random.choice(("drop", "add", "error", "x"))),
        *_maybe(random, 0.05, "--header", random.choice(("yes", "no", "x"))),
    ]


def _method(random: Random) -> list[str]:
    method = random.choice(list(QUICK))
    name = random.choice(SETTINGS)
    malformed_setting = _maybe(random, 0.25, f"{name}={random.choice(SLOW_TO_ALLOW.get(name, VALUES))}")
    settings = [part for setting in (*QUICK[method], *malformed_setting) for part in ("--set", setting)]
    return ["--method", _odd(random, method, 0.05), *settings]


def _fit(random: Random) -> list[str]:
    return [
        *("fit", *_files(random), *_method(random), "--out", "model"),
        *("--folds", _count(random, random.choice(("0", "0", "2")))),
        *_maybe(random, 0.2, "--check"),
        *_maybe(random, 0.1, "--seed", _count(random, "7", 0.5)),
        *_maybe(random, 0.1, "--classes", random.choice(("red,blue", "red,blue", "red", "red,red", ",", "x,y"))),
        *_maybe(random, 0.2, "--device", _odd(random, "cpu", 0.2)),
        *_maybe(random, 0.1, "--report", "page.html"),
        *_maybe(random, 0.3, "--json"),
    ]


def _experiment(random: Random) -> list[str]:
    splits = ("over-all", "public", "split.json", "no-such", "nodes.csv", "")
    return [
        *("--labels-per-class", _odd(random, random.choice(("1", "1,2", "2")), 0.1)),
        *("--runs", _count(random, random.choice("12"))),
        *_maybe(random, 0.1, "--split", random.choice(splits)),
        *_maybe(random, 0.1, "--seed", _count(random, "7", 0.5)),
        *_maybe(random, 0.2, "--out", "rows"),
        *_maybe(random, 0.2, "--latex", "table.tex", "--report", "page.html"),
        *_maybe(random, 0.3, "--json"),
    ]


def _run(random: Random) -> list[str]:
    return ["run", *_files(random), *_method(random), *_experiment(random)]


def _compare(random: Random) -> list[str]:
    methods = _odd(random, ",".join(random.sample(list(QUICK), 2)))
    reference = _maybe(random, 0.2, "--reference", random.choice(("gcn", "no such", "lp")))
    return ["compare", *_files(random), "--methods", methods, "--set", "epochs=2", *reference, *_experiment(random)]


def _model(random: Random) -> str:
    valid = f"{random.choice(list(MODELS))}-model"
    return valid if random.random() < 0.95 else random.choice((".", "no-such", "edges.csv"))


def _predict(random: Random) -> list[str]:
    out = random.choice(("out.csv", "out.csv", "-", ".", "a/b/out.csv", "n" * 300, "loop.csv"))
    nodes = random.choice(FILES if random.random() < 0.2 else ("new.csv", "nodes.csv"))
    return [
        *("predict", _model(random), "--out", out),
        *_maybe(random, 0.7, "--nodes", nodes),
        *_maybe(random, 0.15, "--edges", random.choice(FILES)),
        *_maybe(random, 0.2, "--all"),
        *_maybe(random, 0.2, "--new-graph"),
        *_maybe(random, 0.3, "--json"),
    ]


def _suggest(random: Random) -> list[str]:
    output = random.choice(([], ["--json"], ["--out", "out.csv"], ["--out", "-"], ["--out", "."]))
    return ["suggest", _model(random), "--count", _count(random, "3", 0.4), *output]


def _label(random: Random) -> list[str]:
    return [
        *("label", _model(random), random.choice(FILES) if random.random() < 0.2 else "more.csv", "--folds", "0"),
        *_maybe(random, 0.2, "--new-classes", random.choice(("green", "red", ",", ""))),
        *_maybe(random, 0.3, "--json"),
    ]


def _others(random: Random) -> list[str]:
    limits = {"--runs": "10001", "--threads": "257", "--workers": "1000000"}
    count = random.choice(list(limits))
    names = random.choice(("--table", "--datasets", "--methods", "--protocol", "--suite"))
    return random.choice(
        (
            ["methods", _odd(random, random.choice(list(QUICK)), 0.3)],
            ["methods", "--json"],
            ["datasets", _odd(random, "no such", 0.5)],
            ["report", random.choice((_model(random), *FILES))],
            *(["reproduce", count, random.choice(("0", "-1", limits[count], "9" * 30, "x"))] for _ in range(3)),
            ["reproduce", names, random.choice(VALUES[-8:])],
            [malformed.text(random)[:50]],
            [],
        )
    )


def _regression(command: str, *settings: str, **options: str) -> Case:
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    given += [part for setting in settings for part in ("--set", setting)]
    files = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--labels", "labels.csv"]
    return case_of([command, *(files if command != "reproduce" else []), *given])


REGRESSIONS = (
    case_of(["predict", "gcn-model", "--out", "-"]),
    *(_regression("reproduce", **{name: "1000000000"}) for name in ("threads", "workers", "runs")),
    _regression("run", method="lp", labels_per_class="1", runs="1000000000"),
    _regression("run", method="lp", labels_per_class="9" * 5000),
    *(
        _regression("fit", *settings, method=method, out="model")
        for method, *settings in (
            ("ica", "feature_scaling=" + "9" * 5000),
            ("multi-stage", "stages=1000000000"),
            ("deepwalk", "passes=1000000000"),
            ("deepwalk", "window=1000000000000"),
            ("deepwalk", "walk_length=1000000000"),
            ("planetoid", "window=1000000000"),
            ("gcn", "hidden_channels=1000000", "epochs=2"),
        )
    ),
    _regression("run", "hidden_channels=1000000", "epochs=2", method="gcn", runs="1", labels_per_class="1"),
)
