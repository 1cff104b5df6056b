"""Text columns: what is learned from them, stored, and applied to later texts."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from mtgcn.io import text
from mtgcn.io.column_table import ColumnTable, Texts
from mtgcn.io.preprocessing import Preprocessor, fit_columns
from mtgcn.io.text import WEIGHT, fit_text

SKY = "red sun at dawn", "the sun and the moon", "moon and stars"
SEA = "deep blue sea", "a wave in the sea", "blue wave"
TEXTS = [f"{one} {number}" for number in range(4) for one in (*SKY, *SEA)]


def table_of(cells, title="t"):
    return ColumnTable(("note",), np.zeros((len(cells), 0)), (), {0: Texts.of(cells)}, title=title)


def test_weights_by_hand():
    """Two terms with frequencies 2 and 3 of 4 texts; one of them twice in a text."""
    texts = ["sun sun moon", "sun", "moon qq", "moon zz"]
    column = fit_text("note", texts)
    found = dict(zip(column.words, column.idf, strict=False))
    assert set(column.words) == {"sun", "moon"}  # others occur once
    assert found["sun"] == pytest.approx(1 + math.log(5 / 3))
    assert found["moon"] == pytest.approx(1 + math.log(5 / 4))
    weights = text._weighted(text._counts(texts[:1], column.words, ()), column.idf).toarray()[0]
    assert weights == pytest.approx([found["moon"], (1 + math.log(2)) * found["sun"]])


def test_similar_texts_are_close():
    rows = fit_text("note", TEXTS).rows([*SKY, *SEA])
    assert np.allclose(np.linalg.norm(rows, axis=1), WEIGHT)
    similarity = rows @ rows.T / WEIGHT**2
    assert similarity[0, 1:3].mean() > similarity[0, 3:].mean()
    assert similarity[3, 4:].mean() > similarity[3, :3].mean()


def test_same_features_in_any_table():
    """Rows are transformed one by one and after storing exactly as in the fit."""
    fitted = fit_columns(table_of([*TEXTS, None]), {"note": "text"})
    features = fitted.matrix(table_of([*TEXTS, None]))
    assert (features[-1] == 0).all()
    stored = Preprocessor.of(json.loads(json.dumps(fitted.plain())), fitted.arrays())
    for preprocessing in (fitted, stored, fit_columns(table_of([*TEXTS, None]), {"note": "text"})):
        alone = np.concatenate([preprocessing.matrix(table_of([one])) for one in TEXTS])
        np.testing.assert_allclose(alone, features[:-1], atol=1e-6)
        assert np.array_equal(preprocessing.matrix(table_of([*TEXTS, None])), features)
    assert stored.lines() == ["note: text, 24 different, 6 dimensions of word and character n-grams"]
    with pytest.raises(ValueError, match="arrays of a text column of shapes"):
        Preprocessor.of(fitted.plain(), {name: array[:-1] for name, array in fitted.arrays().items()})


def test_unknown_words():
    column = fit_text("note", TEXTS)
    assert not column.rows(["xyz", ""]).any()
    fitted = fit_columns(table_of(TEXTS), {"note": "text"})
    with pytest.warns(UserWarning, match="1 of 2 values of 'note' have no word known to the fit"):
        fitted.note_unfamiliar(table_of(["xyz", "blue sea"]))


def test_long_texts_have_no_character_grams(monkeypatch):
    assert fit_text("note", TEXTS).characters
    assert fit_text("note", [f"{one} " * 20 for one in TEXTS]).characters == ()
    monkeypatch.setattr(text, "MAX_TERMS", 5)
    limited = fit_text("note", TEXTS)
    assert (len(limited.words), len(limited.characters)) == (5, 5)
    monkeypatch.setattr(text, "MAX_FITTED_TEXTS", 6)
    assert fit_text("note", TEXTS).different == 24


def test_no_common_word():
    fitted = fit_columns(table_of(["ab", "cd", "ef"]), {"note": "text"})
    assert fitted.lines() == ["note: left out, 3 different values without a common word"]


def test_scikit_learn_is_imported_for_text_only(tmp_path):
    program = (
        "import sys; from mtgcn.io.read import read_graph\n"
        "graph = read_graph(None, nodes=sys.argv[1]); print(graph.num_features, 'sklearn' in sys.modules)"
    )
    for words, expected in (("w{}", "1 False"), ("some words {}", "6 True")):
        rows = [f"{row},{row % 3},{words.format(row % 7 + row)}" for row in range(25)]
        path = tmp_path / "t.csv"
        path.write_text("\n".join(["id,size,note", *rows, ""]), encoding="utf-8")
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
        assert done.stdout.split()[1] == expected.split()[1]
