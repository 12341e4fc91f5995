#!/usr/bin/env python3
"""How fast is the engine through Python, beside the command line?

    python bench/python_speed.py [--command target/release/cohort] [--runs 5] [--out bench/results/python.json]

Needs the package installed from a wheel of the same profile as the command (``pip install .`` is release). Both
sides do the same work for the same seed on one thread, in turns, and the best of several runs counts:

- lab: user-rounds per second of learning time, ``cohort.simulate`` beside ``cohort simulate --json``;
- wall: seconds for the whole call beside the whole command, starting Python and importing numpy not included;
- loop: user-rounds per second of a loop in Python over ``choose`` and ``learn`` (contexts and rewards at hand), beside
  the command's learning time. The loop has as many threads as the machine has cores unless RAYON_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import time

os.environ.setdefault("RAYON_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import cohort  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZE = {"users": 1000, "clusters": 10, "dim": 15, "arms": 25, "noise": 0.1}


def of_command(command, policy, rounds):
    flags = [str(word) for name, value in SIZE.items() for word in (f"--{name}", value)]
    words = [command, "simulate", "--policy", policy, "--rounds", str(rounds), "--reps", "1", "--threads", "1"]
    started = time.perf_counter()
    done = subprocess.run([*words, "--json", *flags], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    said = json.loads(done.stdout)["policies"][0]
    return said["user_rounds_per_second"], seconds, said["regret_mean"]


def of_lab(policy, rounds):
    started = time.perf_counter()
    result = cohort.simulate("clustered", policy, rounds=rounds, reps=1, threads=1, progress=False, **SIZE)
    seconds = time.perf_counter() - started
    return result[policy].user_rounds_per_second, seconds, result[policy].regret_mean


class Recorded:
    """Contexts of every round, and the noise, so that a loop need not wait for the world."""

    def __init__(self, rounds):
        world = cohort.Environment("clustered", **SIZE).world()
        self.contexts = [world.contexts(t) for t in range(rounds)]
        nobody = np.zeros(world.users, dtype=np.int64)
        expected = [(world.thetas @ contexts.T) for contexts in self.contexts]
        self.rewards = [
            values + (world.rewards(t, nobody) - values[:, 0])[:, np.newaxis] for t, values in enumerate(expected)
        ]
        self.sigma = world.sigma


def of_loop(policy, rounds, world):
    told = {} if policy == "cohort" else {"sigma": world.sigma}
    learner = cohort.Policy(policy, users=SIZE["users"], dim=SIZE["dim"], rounds=rounds, **told)
    users, seconds = np.arange(SIZE["users"]), 0.0
    for contexts, rewards in zip(world.contexts, world.rewards):
        started = time.perf_counter()
        arms = learner.choose(contexts)
        seconds += time.perf_counter() - started
        answers = rewards[users, arms]
        started = time.perf_counter()
        learner.learn(contexts, arms, answers)
        seconds += time.perf_counter() - started
    return SIZE["users"] * rounds / seconds


def measure(command, policies, rounds, runs):
    world = Recorded(rounds)
    rows = []
    for policy in policies:
        theirs, lab, loop = [], [], []
        for _ in range(runs):
            theirs.append(of_command(command, policy, rounds))
            lab.append(of_lab(policy, rounds))
            loop.append(of_loop(policy, rounds, world))
        assert {regret for *_, regret in theirs} == {regret for *_, regret in lab}, "the same work"
        rate = max(rate for rate, *_ in theirs)
        rows.append(
            {
                "policy": policy,
                "command_user_rounds_per_second": rate,
                "lab_share": max(rate for rate, *_ in lab) / rate,
                "wall_share": min(seconds for _, seconds, _ in theirs) / min(seconds for _, seconds, _ in lab),
                "loop_share": max(loop) / rate,
            }
        )
        shares = ", ".join(f"{name} {rows[-1][f'{name}_share']:.0%}" for name in ["lab", "wall", "loop"])
        print(f"{policy}: command {rate / 1e6:.2f} M user-rounds/s; Python: {shares}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--command", type=pathlib.Path, default=ROOT / "target/release/cohort")
    parser.add_argument("--policies", default="linucb-ind,cmlb,sclb-warm,cohort")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    rows = measure(options.command, options.policies.split(","), options.rounds, options.runs)
    if options.out is not None:
        about = {
            "what": "user-rounds per second through Python as a share of the command line's, one thread, best of runs",
            "size": {**SIZE, "rounds": options.rounds},
            "runs": options.runs,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cohort": cohort.__version__,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({**about, "policies": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
