"""Imports point one way only, `import mtgcn` stays light, and tests lie where what they test lies."""

import ast
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import mtgcn

ROOT = Path(mtgcn.__file__).parent
# From the bottom up: a module may import its own floor and those before it.
FLOORS = [
    {"_version", "errors", "labels", "memory", "settings", "shapes"},
    {"storage"},
    {"environment", "graph", "graph_checks", "graph_cache", "splits", "task"},
    {"linalg"},
    {"io", "nn"},
    {"training"},
    {"methods", "datasets"},
    {"uncertainty", "experiments"},
    {"report", "estimator"},
    {"workflows", "comparison"},
    {"studio"},
    {"cli", "__main__", "distributed"},
]
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}
# `files` reads a person's own tables and is entered for nothing else; what `graph` takes from it at once is light.
CORE = {room for floor in FLOORS[: FLOOR_OF["methods"] + 1] for room in floor} - {"io", "datasets"}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(path: Path, *, inside_functions: bool = True) -> list[str]:
    """Everything a file imports, at the top or inside functions; `from package import module` counts as both."""
    names = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = [ast.walk(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    left_out = set() if inside_functions else set(itertools.chain(*inner))
    for node in (node for node in ast.walk(tree) if node not in left_out):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively; write the whole name"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_upward_only(path):
    room = room_of(path)
    assert room in FLOOR_OF, f"{room} has no floor yet; give it one in FLOORS and in docs/architecture.md"
    for name in imported_modules(path):
        package, *rest = name.split(".")
        if package == "mtgcn" and rest and rest[0] in FLOOR_OF:
            assert FLOOR_OF[rest[0]] <= FLOOR_OF[room], f"{room} must not import {name}, which lies above it"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if room_of(path) in CORE], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_core_needs_torch_numpy_and_scipy_alone(path):
    # jaxtyping is read by type checkers and never imported when the program runs; triton comes with torch for CUDA,
    # filelock with every torch.
    allowed = {"mtgcn", "torch", "numpy", "scipy", "filelock", "jaxtyping", "triton"} | sys.stdlib_module_names
    assert {name.split(".")[0] for name in imported_modules(path, inside_functions=False)} <= allowed
    # These are missed only by who calls the function: deepwalk, neighbours, or a cache that no variable names.
    assert {name.split(".")[0] for name in imported_modules(path)} <= allowed | {
        "gensim",
        "platformdirs",
        "pynndescent",
        "sklearn",
        "threadpoolctl",  # which sklearn brings
    }


HEAVY = (
    "torch",
    "numpy",
    "scipy",
    "sklearn",
    "matplotlib",
    "torch_geometric",
    "ray",
    "rich",
    "typer",
    "pandas",
    "pyarrow",
    "networkx",
    "nicegui",
    "fastapi",
)


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import mtgcn", HEAVY),
        ("import mtgcn.cli.app", [name for name in HEAVY if name not in ("typer", "rich")]),
        ("import mtgcn; mtgcn.Graph", [name for name in HEAVY if name not in ("numpy", "scipy")]),
        (
            "import mtgcn.methods",
            ["gensim", "sklearn", "matplotlib", "torch_geometric", "rich", "typer", "pandas", "jaxtyping"],
        ),
    ],
)
@pytest.mark.slow
def test_an_import_brings_no_more_than_it_needs(statement, unwanted):
    report = f"import sys; {statement}; print(*[name for name in {list(unwanted)} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_package_offers_what_it_says():
    assert all(getattr(mtgcn, name) for name in mtgcn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Grpah'"):
        _ = mtgcn.Grpah


def test_shapes_have_one_source():
    """What imports them from elsewhere is not checked in tests."""
    importing = [path for path in MODULES if any(name.startswith("jaxtyping") for name in imported_modules(path))]
    assert importing == [ROOT / "shapes.py"]
