"""Serving `mt-plus`: time and memory of one new row at a time, and a server under concurrent clients.

python benchmarks/serve.py --nodes 2000,100000 --rows 10000 --seconds 60 --clients 50 --json FILE

For each size: `model.scorer()` and `model.predict_proba` one row at a time, the largest difference between them, and
the growth of memory over all calls of the scorer, in this thread and then in eight. On the last model, `mtgcn serve`
runs in a separate process: clients post rows to it for a while; it is killed, started again, and must give the same
answers. On a busy machine compare processor times: the requests per second are the cores that the server got, divided
by its processor time for each request.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter, sleep, thread_time
from typing import Any

import measuring
import numpy as np
import psutil
import scipy.sparse as sp

from mtgcn import MutualTeachingClassifier

CLASSES, FEATURES, DEGREE = 5, 20, 10
TOKEN = "benchmark"
SETTLED = 1000  # calls before memory is measured
THREADS = 8  # that call the scorer at once


def main() -> None:
    arguments = measuring.arguments(
        __doc__, nodes="2000,100000", rows=10_000, predicted=50, seconds=60, clients=50, threads=int
    )
    _, facts = measuring.start(arguments)
    warnings.simplefilter("ignore")
    rows = []
    for nodes in arguments.nodes.split(","):
        model, new = fitted(int(nodes), arguments.rows)
        rows.append({"nodes": int(nodes), **scored(model, new, arguments.predicted)})
    measuring.show_table(rows)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        server = served(Path(folder) / "model", new, arguments.seconds, arguments.clients)
    measuring.show_table([server])
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows, "server": server})


def fitted(nodes: int, count: int) -> tuple[MutualTeachingClassifier, np.ndarray]:
    """Five classes of nodes with noisy features, four of five edges within classes; and new rows."""
    random = np.random.default_rng(0)
    truth = random.integers(0, CLASSES, nodes)
    features = random.normal(size=(CLASSES, FEATURES))[truth] + 2 * random.normal(size=(nodes, FEATURES))
    by_class = np.argsort(truth, kind="stable")
    first = np.searchsorted(truth[by_class], np.arange(CLASSES + 1))
    ends = random.integers(0, nodes, (2, nodes * DEGREE // 2))
    within = random.random(ends.shape[1]) < 0.8
    low, high = first[truth[ends[0]]], first[truth[ends[0]] + 1]
    ends[1] = np.where(within, by_class[low + (random.random(len(low)) * (high - low)).astype(int)], ends[1])
    edges = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), (nodes, nodes)).tocsr()
    y = np.where(np.arange(nodes) < 100, truth, -1)
    model = MutualTeachingClassifier(random_state=0, settings={"infomax_epochs": 20})
    model.fit(features, y, graph=edges.maximum(edges.T))
    return model, features[np.arange(count) % nodes] + 0.1 * random.normal(size=(count, FEATURES))


def scored(model: MutualTeachingClassifier, new: np.ndarray, predicted: int) -> dict[str, Any]:
    scorer, warm_up = measuring.timed(model.scorer)
    before, wall, busy = 0, [], []
    for number, row in enumerate(new):
        if number == min(SETTLED, len(new) - 1):
            gc.collect()
            before = measuring.resident_memory()
        started, of_thread = perf_counter(), thread_time()
        scorer(row)
        wall.append(1000 * (perf_counter() - started))
        busy.append(1000 * (thread_time() - of_thread))
    gc.collect()
    growth = measuring.resident_memory() - before
    in_threads = []
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(2):  # in the first round each thread gets memory of its own
            before = measuring.resident_memory()
            deque(pool.map(scorer, new), maxlen=0)
            gc.collect()
            in_threads.append((measuring.resident_memory() - before) / 2**20)
    usual, difference = [], 0.0
    for row in new[:predicted]:
        started = perf_counter()
        answer = model.predict_proba(row[None])[0]
        usual.append(1000 * (perf_counter() - started))
        difference = max(difference, float(np.abs(answer - scorer(row)).max()))
    return {
        "warm-up, s": warm_up,
        "p50, ms": float(np.percentile(wall, 50)),
        "p99, ms": float(np.percentile(wall, 99)),
        "processor p50, ms": float(np.percentile(busy, 50)),
        "calls": len(new),
        "growth, MiB": growth / 2**20,
        f"growth in {THREADS} threads, MiB": in_threads[0],
        "in the same again, MiB": in_threads[1],
        "predict_proba p50, ms": float(np.percentile(usual, 50)),
        "largest difference": difference,
    }


def served(folder: Path, new: np.ndarray, seconds: float, clients: int) -> dict[str, Any]:
    """Requests, errors and times of concurrent clients; and whether answers are the same after a kill and a restart."""
    port, log = 0, folder.parent / "log.jsonl"
    process, port = start(folder, port, log)
    bodies = [json.dumps({"features": row.tolist()}) for row in new[: max(clients, 100)]]
    times: list[list[float]] = [[] for _ in range(clients)]
    errors: list[str] = []
    until, busy = perf_counter() + seconds, sum(psutil.Process(process.pid).cpu_times()[:2])

    def work(number: int) -> None:
        turn = number
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while perf_counter() < until:
            started = perf_counter()
            try:
                post(connection, bodies[turn % len(bodies)])
            except (OSError, ValueError) as error:
                errors.append(str(error))
                connection.close()
            times[number].append(1000 * (perf_counter() - started))
            turn += clients

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    busy = sum(psutil.Process(process.pid).cpu_times()[:2]) - busy
    expected = [post(HTTPConnection("127.0.0.1", port, timeout=60), body) for body in bodies[:20]]
    process.kill()
    process.wait()
    process, port = start(folder, port, log)
    same = [post(HTTPConnection("127.0.0.1", port, timeout=60), body) for body in bodies[:20]] == expected
    process.terminate()
    process.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    everything = np.concatenate([np.array(one) for one in times])
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(everything),
        "processor per request, ms": 1000 * busy / len(everything),
        "cores": busy / seconds,
        "errors": len(errors),
        "p50, ms": float(np.percentile(everything, 50)),
        "p99, ms": float(np.percentile(everything, 99)),
        "lines of log": len(lines),
        "same after a kill": same,
    }


def start(folder: Path, port: int, log: Path) -> tuple[subprocess.Popen[str], int]:
    """A server that answers, and its port."""
    command = [sys.executable, "-m", "mtgcn", "serve", str(folder), "--port", str(port)]
    with log.open("a") as lines:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=lines, text=True, env=os.environ | {"MTGCN_TOKEN": TOKEN}
        )
    assert process.stdout is not None
    address = process.stdout.readline()
    port = int(address.split(":")[2].split("/")[0])
    for _ in range(600):
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/health", headers={"Authorization": f"Bearer {TOKEN}"})
            if connection.getresponse().status == 200:
                return process, port
        except OSError:
            sleep(0.1)
    raise SystemExit(f"the server does not answer: {log.read_text()}")


def post(connection: HTTPConnection, body: str) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request("POST", "/predict", body, headers)
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise ValueError(f"{response.status} {text[:200]!r}")
    return json.loads(text)


if __name__ == "__main__":
    main()
