"""Users' own methods."""

import json
import pickle
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

import mtgcn.methods
from mtgcn import methods
from mtgcn.cli.app import main
from mtgcn.errors import InputError
from mtgcn.task import Prediction


@dataclass(frozen=True)
class Frequencies:
    """Every node gets the classes' shares among the labels; inherits from nothing."""

    pretend: float = 0.0

    def fit(self, task):
        shares = np.bincount(task.labelled.classes[0], minlength=task.num_classes) + self.pretend
        probabilities = np.broadcast_to(shares / shares.sum(), (task.runs, task.num_nodes, task.num_classes))
        return Prediction(np.ascontiguousarray(probabilities, dtype=np.float32))


@dataclass(frozen=True, kw_only=True)
class Inheriting(methods.Method):
    pretend: float = 0.0

    def fit(self, task):
        return Frequencies(self.pretend).fit(task)


@pytest.fixture(autouse=True)
def same_registry_afterwards(monkeypatch):
    monkeypatch.setattr("mtgcn.methods.METHODS", methods.METHODS)
    before = dict(methods.METHODS)
    yield
    methods.METHODS.clear()
    methods.METHODS.update(before)


@pytest.mark.parametrize("own", [Frequencies, Inheriting])
def test_register(own, two_runs):
    methods.register("frequencies", own)
    methods.register("frequencies", own)  # the same again changes nothing
    method = methods.create("frequencies", pretend=1.0)
    assert isinstance(method, methods.Method)
    assert isinstance(method, own)
    np.testing.assert_allclose(method.fit(two_runs).probabilities.sum(-1), 1, atol=1e-6)
    assert method.bytes_per_run(two_runs) == 0
    with pytest.raises(InputError, match="did you mean 'pretend'"):
        methods.create("frequencies", pretent=1.0)


@pytest.mark.parametrize("own", [Frequencies, Inheriting])
def test_pickle(own):
    method = methods.as_method(own(pretend=2.0))
    copy = pickle.loads(pickle.dumps(method))
    assert copy == method
    assert type(copy) is type(method)
    assert copy.pretend == 2.0


def test_compare(capsys):
    methods.register("frequencies", Frequencies)
    arguments = "compare --dataset digits --labels-per-class 2 --runs 2 --methods lp,frequencies --json"
    assert main(arguments.split()) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert {cell["method"] for cell in cells} == {"lp", "frequencies"}


def test_entry_points(monkeypatch):
    offers = EntryPoints(
        [
            EntryPoint("their-own", "collections:OrderedDict", mtgcn.methods.ENTRY_POINTS),
            EntryPoint("broken", "mtgcn.no_such_module:Thing", mtgcn.methods.ENTRY_POINTS),
            EntryPoint("good", f"{methods.Method.__module__}:Method", mtgcn.methods.ENTRY_POINTS),
        ]
    )
    monkeypatch.setattr(mtgcn.methods, "entry_points", lambda **wanted: offers.select(**wanted))
    assert methods.method_class("good") is methods.Method
    assert "good" in methods.METHODS
    with pytest.raises(InputError, match=r"'broken' of mtgcn\.no_such_module:Thing cannot be imported"):
        methods.method_class("broken")
    with pytest.raises(InputError, match="OrderedDict has no fit"):
        methods.method_class("their-own")
    with pytest.raises(InputError, match="unknown method 'missing'"):
        methods.method_class("missing")


WITH_FIT = {"fit": lambda self, task: None}


@pytest.mark.parametrize(
    ("name", "own", "complaint"),
    [
        ("", Frequencies, "is empty or has spaces or commas"),
        ("two words", Frequencies, "is empty or has spaces or commas"),
        ("a,b", Frequencies, "is empty or has spaces or commas"),
        ("gcn", Frequencies, "'gcn' is already GCNWithoutValidation; choose another name"),
        ("own", dataclass(type("Thawed", (), WITH_FIT)), "is not a frozen dataclass"),
        ("own", type("Plain", (), WITH_FIT), "is not a frozen dataclass"),
        ("own", dataclass(frozen=True)(type("Unfit", (), {})), r"has no fit\(task\)"),
        ("own", Frequencies(), r"has no fit\(task\)"),
    ],
)
def test_invalid_registration_is_refused(name, own, complaint):
    with pytest.raises(InputError, match=complaint):
        methods.register(name, own)


OWN_MODULE = """
from dataclasses import dataclass
from mtgcn.methods import Method

@dataclass(frozen=True)
class Frequencies:
    'Every class as often as among the labels.'
    pretend: float = 1.0  # labels of each class that are added

    def fit(self, task):
        raise NotImplementedError

class NoMethod:
    pass
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """The name of a module in the current folder, which is not on Python's path."""
    (tmp_path / "their_methods.py").write_text(OWN_MODULE)
    (tmp_path / "their_missing.py").write_text("import no_such_package_of_theirs\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield "their_methods"
    for name in ("their_methods", "their_missing"):
        sys.modules.pop(name, None)


def test_class_is_imported_from_current_folder(own_module):
    method = methods.method_from_text(f"{own_module}:Frequencies", ["pretend=3"])
    assert method.pretend == 3.0
    assert methods.METHODS[f"{own_module}:Frequencies"] is type(method)
    assert methods.method_title(f"{own_module}:Frequencies") == "Every class as often as among the labels."


def test_create_imports_nothing(own_module):
    """A model folder names its method, and must not run code of who wrote it."""
    with pytest.raises(InputError, match="'their_methods:Frequencies' must be registered first, since names in files"):
        methods.create("their_methods:Frequencies")
    assert own_module not in sys.modules


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("their_methods:", "write module:Class"),
        ("their_methods:Frequencies()", "write module:Class"),
        ("their_methods.py:Frequencies", "names a file; name the module, 'their_methods'"),
        ("their_methods:Frequency", "unknown class of module their_methods 'Frequency'; did you mean 'Frequencies'"),
        ("their_methods:NoMethod", "NoMethod has no fit"),
        ("missing_module:Thing", "no module 'missing_module' in .* or on Python's path; go to its folder"),
    ],
)
@pytest.mark.usefixtures("own_module")
def test_invalid_reference_is_refused(reference, complaint):
    with pytest.raises(InputError, match=complaint):
        methods.imported_method(reference)


@pytest.mark.usefixtures("own_module")
def test_errors_of_the_module_are_raised():
    with pytest.raises(ModuleNotFoundError, match="no_such_package_of_theirs"):
        methods.imported_method("their_missing:Thing")
