"""Model folders with valid checksums and malformed content."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from safetensors.numpy import load_file, save_file

from fuzz import malformed
from fuzz.case import require, require_sound_graph, require_sound_probabilities, run_command
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import ANSWERS, CARD, GRAPH, WEIGHTS, checksum, file_entry

NODES = 24
METHODS = {
    "gcn": ["epochs=3"],
    "lp": [],
    "mt-gcn": ["warmup_epochs=3", "teaching_epochs=3"],
    "mt-plus": ["infomax_epochs=2", "rounds=1", "embeddings=1", "dimensions=8"],
}
Damage = Callable[[Path], None]


def random_case(random):
    damage = random.choice((_card_change, _card_change, _array_change, _array_change, _array_change, _byte_change))
    return case_of(random.choice(list(METHODS)), damage(random), use=random.choice(list(USES)))


@cache
def model_of(method):
    """A fitted model with numbers, a category and missing values among its features."""
    home = Path(mkdtemp(prefix="mtgcn-fuzz-model-"))
    edges = "".join(f"n{i},n{(i * 5 + 1) % NODES}\nn{i},n{(i + 1) % NODES}\n" for i in range(NODES))
    nodes = "".join(f"n{i},{i * 1.5},{'abc'[i % 3]},{'' if i % 7 == 0 else i % 5}\n" for i in range(NODES))
    (home / "edges.csv").write_text("source,target\n" + edges, encoding="utf-8")
    (home / "nodes.csv").write_text("id,size,kind,level\n" + nodes, encoding="utf-8")
    labels = "".join(f"n{i},{'red' if i % 2 else 'blue'}\n" for i in range(8))
    (home / "labels.csv").write_text("id,label\n" + labels, encoding="utf-8")
    files = [part for name in ("edges", "nodes", "labels") for part in (f"--{name}", str(home / f"{name}.csv"))]
    settings = [part for setting in METHODS[method] for part in ("--set", setting)]
    run_command(["fit", *files, "--method", method, *settings, "--folds", "0", "--out", str(home / "model")])
    return home


def case_of(method, damage, use="all"):
    def case(folder):
        shutil.copytree(model_of(method) / "model", folder / "model")
        damage(folder / "model")
        for name in USES if use == "all" else [use]:
            USES[name](folder)

    return case


def with_sums(folder):
    """Write the checksums of the present content."""
    path = folder / CARD
    card = json.loads(path.read_bytes())
    if isinstance(card, dict):
        entries = card.get("files")
        if isinstance(entries, dict):
            known = [name for name in entries if (folder / name[:100]).is_file()]
            card["files"] = {**entries, **{name: file_entry(folder / name) for name in known}}
        card["sha256"] = checksum(card)
    path.write_text(json.dumps(card), encoding="utf-8")


def changed_card(change):
    def damage(folder):
        card = json.loads((folder / CARD).read_bytes())
        (folder / CARD).write_text(json.dumps(change(card) or card), encoding="utf-8")
        with_sums(folder)

    return damage


def changed_arrays(file, change):
    def damage(folder):
        if not (folder / file).is_file():
            return
        arrays = dict(load_file(folder / file))
        change(arrays)
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        (folder / file).unlink()
        save_file(arrays, folder / file)
        with_sums(folder)

    return damage


def _card_change(random):
    return changed_card(lambda card: malformed.changed_json(random, card))


def _array_change(random):
    def change(arrays):
        name = random.choice(sorted(arrays))
        if random.random() < 0.1:
            del arrays[name]
            return
        changed = malformed.array(random, arrays[name])
        arrays[name] = changed if changed.dtype.kind in "biuf" else np.zeros(changed.shape, np.float64)

    return changed_arrays(random.choice((ANSWERS, GRAPH, WEIGHTS)), change)


def _byte_change(random):
    def damage(folder):
        file = random.choice((ANSWERS, GRAPH, WEIGHTS, CARD))
        if (folder / file).is_file():
            malformed.damage(random, folder / file)
            if random.random() < 0.7 and file != CARD:
                with_sums(folder)

    return damage


def _answers(folder):
    model = MutualTeachingClassifier.load(folder / "model")
    require_sound_graph(model.graph_)
    require_sound_probabilities(model.predict_proba(), model.graph_.num_nodes, len(model.classes_))
    require(np.isin(model.predict(), model.classes_).all(), "classes that are none")


def _new_nodes(folder):
    (folder / "new.csv").write_text("id,size,kind,level\nz1,3,a,\nz2,1e9,q,4\n", encoding="utf-8")
    out = folder / "predictions.csv"
    run_command(["predict", str(folder / "model"), "--nodes", str(folder / "new.csv"), "--out", str(out)])
    require("nan" not in out.read_text(encoding="utf-8"), "nan among the predictions")


def _fit_again(folder):
    (folder / "more.csv").write_text("id,label\nn9,red\nn10,blue\n", encoding="utf-8")
    run_command(["label", str(folder / "model"), str(folder / "more.csv"), "--folds", "0"])
    _answers(folder)


USES = {
    "answers": _answers,
    "all nodes": lambda folder: run_command(["predict", str(folder / "model"), "--out", str(folder / "out.csv")]),
    "suggestions": lambda folder: run_command(["suggest", str(folder / "model"), "--count", "3", "--json"]),
    "new nodes": _new_nodes,
    "page": lambda folder: run_command(["report", str(folder / "model")]),
    "label": _fit_again,
}


def _card_with(method="lp", **parts):
    def change(card):
        for path, value in parts.items():
            *outer, last = path.split("__")
            inner = card
            for key in outer:
                inner = inner[key]
            inner[last] = value

    return case_of(method, changed_card(change))


def _arrays_with(method, file, name, value):
    def change(arrays):
        for key in sorted(arrays):
            if key == name or name == "*":
                arrays[key] = value(arrays[key])

    return case_of(method, changed_arrays(file, change))


def _without_weights(card):
    card["files"].pop(WEIGHTS, None)


def _runaway(starts):
    return np.where(np.arange(len(starts)) == 3, 10**9, 0).astype(starts.dtype)


HISTORY = "history.supervised"
REGRESSIONS = {
    "weights of another shape": _arrays_with("gcn", WEIGHTS, "*", lambda array: array[..., :1]),
    "NaN answers": _arrays_with("gcn", ANSWERS, "label_distributions", lambda array: array * np.nan),
    "a type of 10^8 characters": _card_with(classes_type="<U100000000"),
    "a type whose name is 10^7 characters": _card_with(classes_type="U" + "1" * 10**7),
    "starts of rows before an end of 0": _arrays_with("lp", GRAPH, "adjacency.indptr", _runaway),
    "weights in half precision": _arrays_with("gcn", WEIGHTS, "*", lambda array: array.astype(np.float16)),
    "huge weights": _arrays_with("gcn", WEIGHTS, "*", lambda array: np.full_like(array, 1e38)),
    "a history of one axis": _arrays_with("gcn", ANSWERS, HISTORY, lambda array: array[:, 0]),
    "an endless history": _arrays_with("gcn", ANSWERS, HISTORY, lambda array: array + np.inf),
    "negative peer weights": _arrays_with("mt-plus", ANSWERS, "peer_report.weights", lambda array: -array),
    "features of 1e30": _arrays_with("mt-plus", GRAPH, "features", lambda array: array * np.float32(1e30)),
    "labels of one byte": _arrays_with("gcn", GRAPH, "labels", lambda array: array.clip(0).astype(np.uint8)),
    **{f"{method} without the weights": case_of(method, changed_card(_without_weights)) for method in METHODS},
    "a format of many characters": _card_with(format="x" * 10_000),
    "an accuracy that is text": _card_with(training__expected_accuracy="good"),
    "a preprocessing of nothing": _card_with("gcn", preprocessing={"named": True, "columns": [{}]}),
    "10^12 nodes": _card_with(graph__nodes=10**12),
    "half a surrogate pair in a class": _card_with(class_names=["a\ud800", "b"]),
}
