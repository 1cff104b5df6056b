import json
import subprocess
import sys

import pytest

from mtgcn.studio.teaching import START


def started():
    return subprocess.Popen(
        [sys.executable, "-P", "-c", START, "src"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def order(folder, **recipe):
    return json.dumps({"folder": str(folder), "recipe": recipe}) + "\n"


@pytest.mark.slow
def test_lines_in_and_lines_out_until_the_input_ends(labelled):
    with started() as process:
        process.stdin.write(order(labelled.folder, method="gcn", settings=["epochs=20"], folds=0))
        process.stdin.write(order(labelled.folder, method="gnc"))
        process.stdin.write(order(labelled.folder.parent / "given" / "edges.csv"))
        process.stdin.flush()
        told = []
        while sum("done" in one or "failed" in one for one in told) < 3:
            told.append(json.loads(process.stdout.readline()))
        ends = [one for one in told if "done" in one or "failed" in one]
        assert ends[0]["done"]["labels"] == {"cat": 2, "dog": 2, "eel": 2}
        assert "unknown method 'gnc'" in ends[1]["failed"]
        assert "is a file; give a folder for the project" in ends[2]["failed"]
        assert {"epochs": 20, "total": 20} in told
        [curve] = [one for one in told if "curve" in one and one["epoch"] == 20]
        assert curve["values"].keys() == {"supervised"}
        assert {"stage": "writing the model", "epochs": 0, "total": 0} in told
        process.stdin.close()
        assert process.wait() == 0
