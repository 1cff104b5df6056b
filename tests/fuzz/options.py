"""Command lines: every command with malformed or repeated options, on small valid files."""

import json
import os
import shutil
from functools import cache

from fuzz import malformed
from fuzz.case import require, run_command
from fuzz.models import METHODS as MODELS
from fuzz.models import model_of

# Counts are small or above every limit, so that valid ones end soon.
QUICK = {"gcn": ["epochs=2"], "lp": [], "sgc": [], "logistic": [], "ppr": [], "ica": [], "multi-stage": ["epochs=2"]}
VALUES = (
    *malformed.COUNTS,
    *("0.5", "-0.5", "1e-45", "1e38", "1e400", "inf", "true", "none", "all", "mean", "a=b", "a,b", "é"),
)
SETTINGS = (
    *("hidden_channels", "dropout", "learning_rate", "weight_decay", "per_class", "stages", "passes", "window"),
    *("walk_length", "walks_per_node", "dimensions", "degree", "alpha", "steps", "clusters", "folds", "peers", "init"),
    *("feature_scaling", "embeddings", "no_such", "", "method.epochs", "gcn.epochs"),
)
NO_TEXT = os.fsdecode(b"\xff.csv")  # a name that is no UTF-8, as old disks have
FILES = (
    *("edges.csv", "nodes.csv", "labels.csv", "split.json", "empty.csv", "no-such.csv", ".", "more.csv"),
    *("loop.csv", "pipe.csv", NO_TEXT, "n" * 300, "edges.csv/x", ""),
)
GRAPH = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--labels", "labels.csv"]
ROLES = (
    *("source", "weight", "id", "label", "name", "feature", "picture", "number", "category", "date", "text", "ignore"),
    *("x", ""),
)
COLUMNS = ("size", "kind", "level", "id", "1", "9", "", "no such", "size,kind", ",")
NAMES = ("gcn", "lp", "no such", "", "red,blue", "red", "red,red", "x,y", "grey", "drop", "add", "yes", "cpu", "cosine")
# The options of each kind of command, with values of which some are valid.
OF_FILES = {
    **dict.fromkeys(("--edges", "--nodes", "--labels"), FILES),
    "--column": [f"{role}={column}" for role in ROLES for column in COLUMNS],
    **dict.fromkeys(("--features", "--exclude"), COLUMNS),
    "--knn": malformed.COUNTS,
    **dict.fromkeys(("--metric", "--unknown-nodes", "--header", "--method", "--device"), (*NAMES, *VALUES)),
    "--set": [*(f"{name}={value}" for name in SETTINGS for value in VALUES), "epochs=-1", "epochs=1.5", "epochs=x"],
    "--seed": malformed.COUNTS,
}
OF_ROWS = {
    **OF_FILES,
    **dict.fromkeys(("--labels-per-class", "--runs"), (*malformed.COUNTS, "1,2")),
    "--split": ("over-all", "public", "split.json", "no-such", "nodes.csv", ""),
    **dict.fromkeys(("--out", "--latex", "--report"), ("result", *FILES)),
    "--reference": NAMES,
}
OF_MODELS = {
    **dict.fromkeys(("--nodes", "--edges"), ("new.csv", *FILES)),
    "--out": ("out.csv", "-", ".", "a/b/out.csv", "n" * 300, "loop.csv"),
    **dict.fromkeys(("--folds", "--count"), malformed.COUNTS),
    "--new-classes": NAMES,
}
FLAGS = ("--json", "--json", "--json", "--check", "--all", "--new-graph", "--no-such", "-h", "--", "--seed", "-")


def _model(random):
    valid = f"{random.choice(list(MODELS))}-model"
    return valid if random.random() < 0.95 else random.choice((".", "no-such", "edges.csv"))


def _others(random):
    limits = {"--runs": "10001", "--threads": "257", "--workers": "1000000"}
    count = random.choice(list(limits))
    names = random.choice(("--table", "--datasets", "--methods", "--protocol", "--suite"))
    return random.choice(
        (
            ["methods", random.choice(NAMES)],
            ["datasets", random.choice(VALUES)],
            ["report", random.choice((_model(random), *FILES))],
            *(["reproduce", count, random.choice(("0", "-1", limits[count], "9" * 30, "x"))] for _ in range(3)),
            ["reproduce", names, random.choice(VALUES[-8:])],
            [malformed.text(random)[:50].replace("\x00", "")],
        )
    )


def random_case(random):
    """A valid command with a few options added; of an option given twice, the last counts."""
    method = random.choice(list(QUICK))
    own = [*GRAPH, "--method", method, *(part for setting in QUICK[method] for part in ("--set", setting))]
    methods = ",".join(random.sample(list(QUICK), 2))
    arguments, options = random.choice(
        (
            *([(["fit", *own, "--out", "model", "--folds", random.choice("02")], OF_FILES | {"--classes": NAMES})] * 3),
            *([(["run", *own, "--labels-per-class", "1", "--runs", "2"], OF_ROWS)] * 2),
            (["compare", *GRAPH, "--methods", methods, "--set", "epochs=2", "--labels-per-class", "1"], OF_ROWS),
            (["predict", _model(random), "--out", "out.csv", "--nodes", "new.csv"], OF_MODELS),
            (["suggest", _model(random), "--count", "3"], OF_MODELS),
            (["label", _model(random), random.choice(("more.csv", *FILES)), "--folds", "0"], OF_MODELS),
            (_others(random), {}),
        )
    )
    if arguments[0] == "compare":
        arguments += ["--runs", "2"]
    for name in random.sample(list(options), min(len(options), random.choice((0, 0, 1, 1, 2)))):
        arguments += [name, random.choice(options[name])]
    if random.random() < 0.2:
        arguments.insert(random.randrange(1, len(arguments) + 1), malformed.text(random)[:500].replace("\x00", ""))
    if random.random() < 0.1:
        del arguments[random.randrange(len(arguments))]
    return case_of([*arguments, *random.sample(FLAGS, random.choice((0, 0, 1)))])


def case_of(arguments):
    """The command in a folder with edges.csv, nodes.csv, labels.csv, split.json and models."""

    def case(folder):
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

    return case


def _no_number(constant):
    require(False, f"{constant} in the JSON")


@cache
def _home():
    home = model_of("lp") / "files"
    home.mkdir()
    for name in ("edges.csv", "nodes.csv", "labels.csv"):
        shutil.copy(home.parent / name, home)
    (home / "split.json").write_text('{"train": ["n0", "n1"], "test": ["n2", "n3", "n4"]}', encoding="utf-8")
    (home / "new.csv").write_text("id,size,kind,level\nz1,3,a,\n", encoding="utf-8")
    (home / "more.csv").write_text("id,label\nn9,red\nn10,blue\n", encoding="utf-8")
    (home / "empty.csv").write_bytes(b"")
    return home


LIMITS = ["--labels-per-class", "1", "--runs", "1"]
COMMANDS = (
    ["predict", "gcn-model", "--out", "-"],
    ["predict", "gcn-model", "9" * 5000, "9" * 5000, "--out", "out.csv"],
    *(["reproduce", f"--{name}", "1000000000"] for name in ("threads", "workers", "runs")),
    ["run", *GRAPH, "--method", "lp", "--labels-per-class", "1", "--runs", "1000000000"],
    ["run", *GRAPH, "--method", "lp", "--labels-per-class", "9" * 5000],
    ["run", *GRAPH, "--method", "gcn", *LIMITS, "--set", "hidden_channels=1000000", "--set", "epochs=2"],
    ["fit", *GRAPH, "--method", "gcn", "--out", "model", "--set", "hidden_channels=1000000", "--set", "epochs=2"],
    *(
        ["fit", *GRAPH, "--method", method, "--out", "model", "--set", setting]
        for method, setting in (
            ("ica", "feature_scaling=" + "9" * 5000),
            ("multi-stage", "stages=1000000000"),
            ("deepwalk", "passes=1000000000"),
            ("deepwalk", "window=1000000000000"),
            ("deepwalk", "walk_length=1000000000"),
            ("planetoid", "window=1000000000"),
        )
    ),
)
REGRESSIONS = {" ".join(one for one in arguments if one not in GRAPH): case_of(arguments) for arguments in COMMANDS}
