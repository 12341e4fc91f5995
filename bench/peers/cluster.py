#!/usr/bin/env python3
"""Peers of MAXIMAL-CLUSTER's components, on the same points, each in a process of its own.

    cluster.py POINTS.npy GAMMA [--peers dbscan,sklearn,scipy,linfa] [--labels OURS.npy]
               [--time-limit 600] [--memory-gb 16] [--repeat 1]

Prints one line of JSON per peer: {"peer", "peak_mib", "cpu_seconds", "seconds", "clusters",
"same_labels"}, or "failed" in place of the last three, with "gave_up_after" where time ran out. `seconds` is the clustering alone, the best of
the repeats, without start-up or reading; `cpu_seconds` and `peak_mib` are those of the whole process.
A peer that needs more time or address space than it may fails, and the machine stays up.
`same_labels` compares with OURS.npy, or else with the first peer that finished.

Needs numpy and whichever of scikit-learn, scipy, dbscan are to be measured; linfa needs cargo.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def with_sklearn(points, gamma):
    from sklearn.cluster import DBSCAN

    return lambda: DBSCAN(eps=gamma, min_samples=1, n_jobs=-1).fit(points).labels_


def with_scipy(points, gamma):
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    def run():
        pairs = cKDTree(points).query_pairs(gamma, output_type="ndarray")
        ones = np.ones(len(pairs), dtype=np.int8)
        graph = coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(len(points), len(points)))
        return connected_components(graph, directed=False)[1]

    return run


def with_dbscan(points, gamma):
    from dbscan import DBSCAN

    return lambda: DBSCAN(points, eps=gamma, min_samples=1)[0]


PYTHON_PEERS = {"dbscan": with_dbscan, "sklearn": with_sklearn, "scipy": with_scipy}
PEERS = [*PYTHON_PEERS, "linfa"]


def numbered(labels):
    """Labels numbered by smallest member, so that equal partitions are equal arrays."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def run_python_peer(peer, points, gamma, labels):
    """In the process of its own."""
    run = PYTHON_PEERS[peer](np.load(points), gamma)
    start = time.perf_counter()
    found = run()
    print(time.perf_counter() - start)
    np.save(labels, np.asarray(found, dtype=np.int64))


def command(peer, points, gamma, labels):
    if peer in PYTHON_PEERS:
        return [sys.executable, __file__, str(points), str(gamma), "--child", peer, "--labels", labels]
    target = HERE.parents[1] / "target" / "peers"
    build = ["cargo", "build", "--release", "--quiet", "--manifest-path", HERE / "linfa" / "Cargo.toml"]
    subprocess.run([*build, "--target-dir", target], check=True)
    return [target / "release" / "linfa-peer", str(points), str(gamma), labels]


def measure(peer, args, folder):
    """One run: seconds, peak memory and labels, or what went wrong."""
    labels = os.path.join(folder, f"{peer}.npy")
    limit = int(args.memory_gb * 2**30)
    process = subprocess.Popen(
        command(peer, args.points, args.gamma, labels),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    timer = threading.Timer(args.time_limit, process.kill)
    timer.start()
    complaint = []
    reader = threading.Thread(target=lambda: complaint.append(process.stderr.read()))
    reader.start()
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    timed_out = not timer.is_alive()
    timer.cancel()
    cpu = round(usage.ru_utime + usage.ru_stime, 2)
    result = {"peak_mib": usage.ru_maxrss // 1024, "cpu_seconds": cpu}
    if process.returncode == 0:
        found = numbered(np.load(labels))
        return {**result, "seconds": float(said.split()[-1]), "clusters": int(found.max(initial=-1)) + 1}, found
    if timed_out:
        return {**result, "gave_up_after": args.time_limit, "failed": f"more than {args.time_limit:g} s"}, None
    last = ((complaint[0] or "").strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return {**result, "failed": f"{last} (may use {args.memory_gb:g} GB)"}, None


def best_of(peer, args, folder):
    best, labels = None, None
    for _ in range(args.repeat):
        result, found = measure(peer, args, folder)
        if "failed" in result:
            return result, None
        if best is None or result["seconds"] < best["seconds"]:
            best, labels = result, found
    return best, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points")
    parser.add_argument("gamma", type=float)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--labels")
    parser.add_argument("--time-limit", type=float, default=600)
    parser.add_argument("--memory-gb", type=float, default=16)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--child", choices=PYTHON_PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return run_python_peer(args.child, args.points, args.gamma, args.labels)
    unknown = set(args.peers.split(",")) - set(PEERS)
    if unknown:
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    expected = numbered(np.load(args.labels)) if args.labels else None
    with tempfile.TemporaryDirectory() as folder:
        for peer in args.peers.split(","):
            result, labels = best_of(peer, args, folder)
            if labels is not None:
                expected = labels if expected is None else expected
                result["same_labels"] = bool(np.array_equal(labels, expected))
            print(json.dumps({"peer": peer, **result}), flush=True)


if __name__ == "__main__":
    main()
