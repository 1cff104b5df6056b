"""A graph of a million nodes and ten million edges over 1, 2 and 4 ranks: memory, bytes, seconds; for docs/scaling.md.

    python benchmarks/distributed.py [--nodes 1000000] [--edges 10000000] [--ranks 1,2,4] [--epochs 5] [--folder DIR]

It makes the files, cuts them by the command, lets torchrun start jobs of `worker` below, and writes
docs/measurements/distributed.json. What lies in the folder already is not made again. Seconds are those of the fastest
epoch, by the clock and of the processor, which a busy machine slows down less. Memory is the most that a rank ever
held, less what an idle rank of the same job holds: one that has imported everything and joined the others, but read
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import measuring
import numpy as np

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "measurements" / "distributed.json"
COMMUNITY = 500  # nodes; where an edge leads: into its community, to a neighbouring one, or anywhere
WITHIN, NEARBY = 0.85, 0.12
FEATURES, CLASSES, LABELS_PER_CLASS = 64, 5, 20
EDGES_AT_ONCE = 1_000_000
SETTINGS = {"hidden_channels": 16, "per_class": 5000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--worker", choices=["idle", "fit"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.folder, options.epochs, idle=options.worker == "idle")
        return
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        measured = measure(folder, options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(measured, indent=1))


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    if not (folder / "edges.parquet").exists():
        write_files(folder, options.nodes, options.edges)
    kept = folder / "sharding.json"
    sharding = json.loads(kept.read_text()) if kept.exists() else cut(folder, options.parts)
    kept.write_text(json.dumps(sharding))
    jobs = []
    for ranks in map(int, options.ranks.split(",")):
        idle, busy = (run(folder, ranks, options.epochs, mode) for mode in ("idle", "fit"))
        beyond = [one["peak_bytes"] - other["peak_bytes"] for one, other in zip(busy, idle, strict=True)]
        jobs.append(
            {
                "ranks": ranks,
                "idle_bytes": max(one["peak_bytes"] for one in idle),
                "bytes_beyond_idle": beyond,
                "boundary_nodes": [one["boundary"] for one in busy],
                **{
                    f"{name}_{phase}_epoch": [one[f"{name}_{phase}"] for one in busy]
                    for name in ("seconds", "processor_seconds", "bytes_sent")
                    for phase in ("warmup", "teaching")
                },
            }
        )
    alone = max(jobs[0]["bytes_beyond_idle"])
    for job in jobs:
        job["share_of_one_over_ranks"] = max(job["bytes_beyond_idle"]) * job["ranks"] / (alone * jobs[0]["ranks"])
    measured = {
        "nodes": options.nodes,
        "edges": options.edges,
        "features": FEATURES,
        "classes": CLASSES,
        "settings": SETTINGS,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, gloo, one thread per rank",
        "command": "python benchmarks/distributed.py",
        "sharding": sharding,
        "jobs": jobs,
    }
    return {**measured, "prediction": prediction(measured)}


LARGE = {"nodes": 100_000_000, "edges": 1_600_000_000, "features": 128, "classes": 40}
LARGE_RANKS, BOUNDARIES = (8, 32, 128), (0.5, 2.0)
NETWORK = 1.25e9  # bytes per second: 10 Gbit/s
PEERS = 2


def bytes_per_node(graph: dict[str, Any]) -> float:
    """Of memory, in training: Â X, the row of Â, three tables of hidden units, two of logits, id and number."""
    hidden, classes = SETTINGS["hidden_channels"], graph["classes"]
    entries = 2 * graph["edges"] / graph["nodes"] + 1
    return 4 * graph["features"] + 8 * entries + 12 * PEERS * hidden + 8 * PEERS * classes + 30


def bytes_per_boundary_node(graph: dict[str, Any]) -> float:
    """Sent in an epoch: a row of the narrower of hidden units and logits, and its gradient."""
    return 2 * 4 * PEERS * min(SETTINGS["hidden_channels"], graph["classes"])


def prediction(measured: dict[str, Any]) -> dict[str, Any]:
    """What the model of the cost makes of the measurements, and for a graph a hundred times as large.

    Memory and bytes follow from sizes. An epoch reads and writes that memory some times over, and its processor time
    for each byte is measured with one rank. How many boundary nodes there are for each own node is the graph's, so it
    is assumed.
    """
    alone = measured["jobs"][0]
    per_byte = alone["processor_seconds_teaching_epoch"][0] / (measured["nodes"] * bytes_per_node(measured))
    check = [
        {
            "ranks": job["ranks"],
            "bytes_beyond_idle": measured["nodes"] / job["ranks"] * bytes_per_node(measured)
            + 4 * bytes_per_boundary_node(measured) * max(job["boundary_nodes"]),
            "bytes_sent_warmup_epoch": bytes_per_boundary_node(measured) * max(job["boundary_nodes"]),
        }
        for job in measured["jobs"]
    ]
    rows = []
    for ranks in LARGE_RANKS:
        for share in BOUNDARIES:
            own = LARGE["nodes"] / ranks
            sent = own * share * bytes_per_boundary_node(LARGE)
            rows.append(
                {
                    "ranks": ranks,
                    "boundary_nodes_per_own_node": share,
                    "gigabytes_per_rank": (own * bytes_per_node(LARGE) + 4 * sent) / 1e9,
                    "gigabytes_sent_per_rank_and_epoch": sent / 1e9,
                    "seconds_per_epoch": own * bytes_per_node(LARGE) * per_byte + sent / NETWORK,
                }
            )
    return {
        "nanoseconds_per_byte": 1e9 * per_byte,
        "of_what_was_measured": check,
        "graph": LARGE,
        "network_bytes_per_second": NETWORK,
        "rows": rows,
    }


def write_files(folder: Path, nodes: int, edges: int) -> None:
    """Communities on a ring, nodes listed in no order: as large graphs come."""
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    name = random.permutation(nodes)  # of each node on the ring
    labels = np.arange(nodes) // COMMUNITY % CLASSES
    features = random.normal(size=(nodes, FEATURES)).astype(np.float32)
    features += random.normal(size=(CLASSES, FEATURES)).astype(np.float32)[labels]
    listed = np.argsort(name)
    columns = {"id": np.arange(nodes), **{f"x{column}": features[listed, column] for column in range(FEATURES)}}
    parquet.write_table(pa.table(columns), folder / "nodes.parquet")
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with parquet.ParquetWriter(folder / "edges.parquet", schema) as writer:
        for start in range(0, edges, EDGES_AT_ONCE):
            count = min(EDGES_AT_ONCE, edges - start)
            source, kind = random.integers(nodes, size=count), random.random(count)
            reach = np.where(kind < WITHIN, COMMUNITY, 10 * COMMUNITY)
            inside = source // reach * reach + random.integers(0, reach, size=count)
            target = np.where(kind < WITHIN + NEARBY, np.minimum(inside, nodes - 1), random.integers(nodes, size=count))
            writer.write_table(pa.table([name[source], name[target]], schema=schema))
    chosen = np.concatenate(
        [np.flatnonzero(labels == one)[:: nodes // 200][:LABELS_PER_CLASS] for one in range(CLASSES)]
    )
    rows = "".join(f"{name[node]},class {labels[node]}\n" for node in chosen)
    (folder / "labels.csv").write_text("id,label\n" + rows, encoding="utf-8")


def cut(folder: Path, parts: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "mtgcn.distributed", "shard", "--edges", str(folder / "edges.parquet")]
    command += ["--nodes", str(folder / "nodes.parquet"), "--parts", str(parts), "--out", str(folder / "shards")]
    started = perf_counter()
    done = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
    assert done.stdout is not None
    with done.stdout:
        printed = done.stdout.read()
    _, status, used = os.wait4(done.pid, 0)
    done.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"sharding failed with status {status}")
    summary = json.loads(printed)
    return {
        "seconds": perf_counter() - started,
        "peak_bytes": used.ru_maxrss * 1024,
        **{key: summary[key] for key in ("parts", "order", "boundary")},
    }


def run(folder: Path, ranks: int, epochs: int, mode: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), __file__]
    command += ["--worker", mode, "--folder", str(folder), "--epochs", str(epochs)]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return [json.loads((folder / f"worker-{rank}.json").read_text()) for rank in range(ranks)]


def worker(folder: Path, epochs: int, *, idle: bool) -> None:
    """One rank of a job: it writes its measurements to its own file."""
    import torch

    from mtgcn.distributed import fitting
    from mtgcn.distributed.communicator import Ranks
    from mtgcn.memory import return_freed_blocks
    from mtgcn.training import loop

    torch.set_num_threads(1)
    return_freed_blocks()  # as the command does
    ranks = Ranks.started("cpu")
    ranks.sum(torch.zeros(1))
    measured: dict[str, Any] = {}
    if not idle:
        ends: list[tuple[float, float, int]] = []
        graphs: list[Any] = []
        read = fitting.read_local_graph

        class EpochTimes:
            """Checkpoints that save nothing and note when each epoch ends."""

            @property
            def every(self) -> int:
                """Read after each epoch; larger than any number of epochs, since a checkpoint would send bytes."""
                ends.append((perf_counter(), process_time(), ranks.sent))
                return sys.maxsize

            def load(self) -> None:
                self.every  # noqa: B018

            def save(self, *_given: Any) -> None: ...

        def noted_read(*given: Any) -> Any:
            graphs.append(read(*given))
            return graphs[0]

        fitting.read_local_graph = noted_read
        settings = {**SETTINGS, "warmup_epochs": epochs, "teaching_epochs": epochs}
        options = fitting.FitOptions("mt-gcn", [f"{key}={value}" for key, value in settings.items()])
        with loop.checkpointing(EpochTimes()):
            fitting.fit_shards(folder / "shards", folder / "labels.csv", folder / "result", options, ranks)
        steps = np.diff(np.array(ends), axis=0)
        for phase, some in (("warmup", steps[:epochs]), ("teaching", steps[epochs:])):
            names = (f"seconds_{phase}", f"processor_seconds_{phase}", f"bytes_sent_{phase}")
            measured |= dict(zip(names, some.min(axis=0).tolist(), strict=True))
        measured["boundary"] = graphs[0].communicator.boundary_size
    measured["peak_bytes"] = measuring.peak_memory()
    (folder / f"worker-{ranks.rank}.json").write_text(json.dumps(measured), encoding="utf-8")
    ranks.end()


if __name__ == "__main__":
    main()
