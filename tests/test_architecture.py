"""What an import loads. The order of the layers is checked by import-linter (`make lint`)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mtgcn

ROOT = Path(mtgcn.__file__).parent
RENDERING = ("matplotlib", "jinja2", "rich", "typer")
READING = ("pyarrow", "pandas", "pydantic", "networkx", "safetensors")
HEAVY = ("torch", "numpy", "scipy", "sklearn", "torch_geometric", "ray", "nicegui", "fastapi", *RENDERING, *READING)
TORCH_LOADS = ("networkx",)  # torch imports it by itself in some versions


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import mtgcn", HEAVY),
        ("import mtgcn.cli.app", set(HEAVY) - {"typer", "rich"}),
        ("import mtgcn; mtgcn.Graph", set(HEAVY) - {"numpy", "scipy"}),
        (
            "import mtgcn.methods",
            {"gensim", "sklearn", "torch_geometric", "jaxtyping", "mtgcn.io", *RENDERING, *READING} - {*TORCH_LOADS},
        ),
    ],
)
@pytest.mark.slow
def test_imports_are_light(statement, unwanted):
    report = f"import sys; {statement}; print(*[name for name in {sorted(unwanted)} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_public_names_exist():
    assert all(getattr(mtgcn, name) for name in mtgcn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Grpah'"):
        _ = mtgcn.Grpah


@pytest.mark.slow
def test_shapes_are_imported_from_one_module():
    """Shapes imported from jaxtyping directly are not checked in tests."""
    importing = [
        path
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "jaxtyping"
    ]
    assert importing == [ROOT / "shapes.py"]
