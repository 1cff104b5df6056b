"""How a case runs, and the invariants of its result. A case is a function of an empty folder."""

import contextlib
import io
import os
import resource
import signal
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from mtgcn import FitWarning
from mtgcn.cli.app import main
from mtgcn.errors import GraphNote, InputError

MAX_MESSAGE = 2000  # characters of an error message
MEMORY = 3 << 30  # bytes that a case may allocate
CPU_SECONDS = 60  # that a case may take


class Unsound(Exception):
    """A result that violates an invariant."""


def succeeds(case, folder):
    """True if the program gives a sound result, False if it refuses in one line. Everything else is raised: other
    exceptions, warnings, unsound results, too much memory or time."""
    folder.mkdir()
    before = os.getcwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings(), _limits():
            warnings.simplefilter("error")
            for meant in (FitWarning, GraphNote, DataConversionWarning):
                warnings.simplefilter("ignore", meant)
            case(folder)
    except InputError as refusal:
        message = str(refusal).strip()
        require(0 < len(message) <= MAX_MESSAGE, f"an error message of {len(message)} characters")
        return False
    finally:
        os.chdir(before)
    return True


def require(sound, what):
    """Raise `Unsound` unless the condition holds."""
    if not sound:
        raise Unsound(what)


class TooLong(BaseException):
    """Not an `Exception`, so that nothing catches it by mistake."""


@contextlib.contextmanager
def _limits():
    """Bound memory and CPU time."""

    def too_long(*_):
        raise TooLong

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    handler = signal.signal(signal.SIGPROF, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, handler)


def run_command(arguments):
    """The standard output of a command; an InputError with its message if it refuses."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    require(status in (0, 2), f"status {status} of {list(arguments)}")
    printed, description = (stream.buffer.getvalue().decode() for stream in (out, err))
    if status == 0:
        return printed
    errors = [line for line in description.splitlines() if line.startswith("mtgcn: error: ")]
    require(len(errors) == 1 and len(errors[0]) <= MAX_MESSAGE, f"error {description[:3000]!r}")
    raise InputError(errors[0])


def require_sound_graph(graph):
    """Finite, symmetric, and with names that can be written down."""
    nodes = graph.num_nodes
    adjacency = graph.adjacency
    require(nodes > 0 and adjacency.shape == (nodes, nodes), "no square adjacency")
    require(np.isfinite(adjacency.data).all() and (adjacency.data > 0).all(), "weights that are none")
    require(abs(adjacency - adjacency.T).max() <= 1e-5 * adjacency.data.max(initial=1), "an adjacency with a direction")
    require(len(graph.labels) == nodes == len(graph.node_ids), "labels or ids for other nodes")
    require(graph.labels.min() >= -1 and graph.labels.max() < max(1, graph.num_classes), "a label of no class")
    if graph.features is not None:
        values = graph.features.data if sp.issparse(graph.features) else graph.features
        require(graph.features.shape[0] == nodes and graph.num_features, "features for other nodes")
        require(np.isfinite(values).all(), "features that are not finite")
        require(len(graph.feature_names) in (0, graph.num_features), "names for other features")
    for names in (graph.class_names, graph.node_ids.tolist()):
        require(len(set(names)) == len(names), "two things of one name")
    for names in (graph.class_names, graph.feature_names, graph.node_ids.tolist()):
        "".join(map(str, names)).encode()


def require_sound_probabilities(probabilities, rows, classes):
    require(np.shape(probabilities) == (rows, classes), f"probabilities of shape {np.shape(probabilities)}")
    require(np.isfinite(probabilities).all(), "probabilities that are not finite")
    require(np.min(probabilities) >= 0 and np.allclose(np.sum(probabilities, axis=1), 1, atol=1e-3), "no probabilities")
