"""Addresses at which no Ray cluster answers are told in one line and soon."""

import socket

import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import ray_address
from mtgcn.experiments.ray_address import check_reachable


@pytest.mark.parametrize(
    "address", ["somewhere", "ray://head:10001", "head", ":6379", "head:port", "http://head:1", ""]
)
def test_what_is_no_address(address):
    with pytest.raises(InputError, match="give HOST:PORT of a cluster's head node, auto for the cluster that runs on"):
        check_reachable(address)


def test_a_port_that_nobody_listens_on():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"no Ray cluster can be reached at {address} \(Connection refused\)"):
            check_reachable(address)
    for port in ("0", "99999"):
        with pytest.raises(InputError, match="no Ray cluster can be reached"):
            check_reachable(f"127.0.0.1:{port}")


def test_a_name_that_nobody_has():
    with pytest.raises(InputError, match=r"no Ray cluster can be reached at nobody\.invalid:6379"):
        check_reachable("nobody.invalid:6379")


def test_what_listens_and_is_no_cluster_is_waited_for_in_bounds(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_address, "SECONDS_TO_JOIN", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InputError, match=f"what listens at {address} has not answered as a Ray cluster for 2 s"):
            check_reachable(address)


COMPLAINTS = {
    "the cluster at head:1 has Ray 2.1.0 and Python 3.10.2, this process Ray 2.60.0 and Python 3.11.7;": (
        "Traceback\nRuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n    Python: 3.10.2\n"
        "This process on node 1.2.3.4 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    ),
    "the cluster at head:1 lets in only who has its token;": "ray.exceptions.AuthenticationError: RPC error\n\n",
    "cannot join the Ray cluster at head:1: ValueError: no raylet here; this machine must be a node of it": (
        "Traceback\n  line 1\nValueError: no raylet here\n"
    ),
    "cannot join the Ray cluster at head:1: it ended without a word;": "",
}


@pytest.mark.parametrize("told", COMPLAINTS)
def test_complaints_of_ray_become_one_line(told, monkeypatch):
    program = f"import sys; sys.stderr.write({COMPLAINTS[told]!r}); sys.exit(1)"
    monkeypatch.setattr(ray_address, "_TRIAL", program)
    monkeypatch.setattr(ray_address, "_check_listened_to", lambda _: None)
    with pytest.raises(InputError) as refused:
        check_reachable("head:1")
    assert str(refused.value).startswith(told)
    assert "\n" not in str(refused.value)
