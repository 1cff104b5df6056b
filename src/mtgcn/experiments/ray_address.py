"""Whether a Ray cluster answers at an address, found out within a bounded time.

Ray itself waits for minutes, in code that no signal interrupts, and fills the screen meanwhile. So a port that nobody
listens on is told at once, and the first connection is made by another process, which can be ended.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys

from mtgcn.errors import InputError, shown

SECONDS_TO_CONNECT = 5
SECONDS_TO_JOIN = 60
RUNNING_HERE = "auto"  # Ray's own name for the cluster that was started on this machine
_TRIAL = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='error'); ray.shutdown()"
_HOST_AND_PORT = re.compile(r"(?P<host>[^\s:/]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")


def check_reachable(address: str) -> None:
    """Refuse an address at which no cluster answers that this process could join."""
    if address != RUNNING_HERE:
        _check_listened_to(address)
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _TRIAL, address],
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_JOIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"what listens at {address} has not answered as a Ray cluster for {SECONDS_TO_JOIN} s; give the address "
            "that ray start printed on the head node, usually with port 6379"
        ) from None
    if trial.returncode:
        raise InputError(_reason(address, trial.stderr))


def _check_listened_to(address: str) -> None:
    parts = _HOST_AND_PORT.fullmatch(address)
    if parts is None:
        raise InputError(
            f"--ray is {shown(address)}; give HOST:PORT of a cluster's head node, {RUNNING_HERE} for the cluster that "
            "runs on this machine, or local to start one here"
        )
    try:
        socket.create_connection((parts["host"].strip("[]"), int(parts["port"])), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        why = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"no Ray cluster can be reached at {address} ({why}); see that it runs there, and which port ray start told"
        ) from None


def _reason(address: str, complaint: str) -> str:
    """What Ray complained of, in one line."""
    if "Version mismatch" in complaint:
        versions = re.findall(r"^\s*(Ray|Python): *(\S+)", complaint, re.MULTILINE)
        there, here = (" and ".join(" ".join(one) for one in half) for half in (versions[:2], versions[2:4]))
        return f"the cluster at {address} has {there}, this process {here}; use the same versions in both places"
    if "AuthenticationError" in complaint or "InvalidAuthToken" in complaint:
        return (
            f"the cluster at {address} lets in only who has its token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or "
            "RAY_AUTH_TOKEN_PATH, as where it was started"
        )
    lines = [line for line in complaint.splitlines() if line.strip()]
    last_line = lines[-1].strip() if lines else "it ended without a word"
    return (
        f"cannot join the Ray cluster at {address}: {last_line}; this machine must be a node of it, which "
        f"ray start --address=HOST:PORT makes it"
    )
