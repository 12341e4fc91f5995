"""Python and the command line are two callers of one engine: the same seed, the same bits."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import cohort

SMALL = {"users": 30, "clusters": 3, "dim": 5, "arms": 8}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name}", value)]
ALL = [policy["name"] for policy in cohort.policies()]


def without_clock(summary: dict) -> dict:
    policies = []
    for policy in summary["policies"]:
        policies.append({k: v for k, v in policy.items() if k not in ("seconds", "user_rounds_per_second")})
    return {**summary, "policies": policies}


def test_every_policy_gives_the_same_summary(run_command):
    ours = cohort.simulate("clustered", ALL, rounds=60, reps=2, seed=11, **SMALL)
    theirs = run_command(
        "simulate", "--policy", ",".join(ALL), "--rounds", 60, "--reps", 2, "--seed", 11, *FLAGS
    )
    assert without_clock(ours.summary) == without_clock(theirs)


def test_every_round_is_the_same_bit_by_bit(run_command, tmp_path):
    flags = ["--env", "mixture", "--spread", 0.1, "--rounds", 80, "--reps", 3, *FLAGS]
    run_command("simulate", "--policy", "cohort,cmlb", "--out", tmp_path / "theirs", *flags)
    result = cohort.simulate(
        "mixture", "cohort,cmlb", spread=0.1, rounds=80, reps=3, out=tmp_path / "ours", **SMALL
    )
    # repr of a float is exact, and both sides write the shortest text that gives the number back.
    with open(tmp_path / "theirs/regret.csv") as file:
        theirs = np.array([float(row["regret"]) for row in csv.DictReader(file)])
    assert (result.regret.ravel() == theirs).all()
    for name in ["regret.csv", "clusters.csv", "experiment.toml", "regret.parquet"]:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_threads(threads):
    alone = cohort.simulate("clustered", "linucb-ind,sclub", rounds=40, reps=2, threads=1, **SMALL)
    other = cohort.simulate("clustered", "linucb-ind,sclub", rounds=40, reps=2, threads=threads, **SMALL)
    assert (alone.regret == other.regret).all()


def test_parameters_reach_policies_in_every_way_they_can_be_said(run_command):
    theirs = run_command(
        "simulate", "--policy", "linucb-ind,narrow=linucb-ind", "--set", "narrow.exploration=0.1",
        "--rounds", 40, "--reps", 1, *FLAGS,
    )  # fmt: skip
    expected = [policy["regret_mean"] for policy in theirs["policies"]]
    run = {"rounds": 40, "reps": 1, **SMALL}
    said = [
        cohort.simulate(policies="linucb-ind,narrow=linucb-ind", **{"narrow.exploration": 0.1}, **run),
        cohort.simulate(
            policies=["linucb-ind", cohort.Contender("linucb-ind", label="narrow", exploration=0.1)], **run
        ),
        cohort.simulate(
            cohort.Environment("clustered", **SMALL),
            {"linucb-ind": "linucb-ind", "narrow": cohort.Policy("linucb-ind", dim=5, exploration=0.1)},
            rounds=40,
            reps=1,
        ),
    ]
    for result in said:
        assert result.policies == ["linucb-ind", "narrow"]
        assert [result[name].regret_mean for name in result] == expected


def test_an_experiment_file_is_the_same_experiment(run_command, tmp_path):
    result = cohort.simulate("gaussian", "pmlb-warm", rounds=30, reps=2, spread=0.1, users=8)
    file = tmp_path / "again.toml"
    file.write_text(result.experiment)
    theirs = run_command("simulate", file)
    assert without_clock(theirs) == without_clock(result.summary)
    again = cohort.simulate(file, reps=1)
    assert (again.regret[:, 0] == result.regret[:, 0]).all()


def test_tables_are_taken_as_arrays_and_as_files(run_command, tmp_path):
    rng = np.random.default_rng(3)
    tables = {
        "contexts": rng.uniform(-0.5, 0.5, (50, 6, 4)),
        "thetas": rng.normal(size=(7, 4)),
        "noise_table": rng.normal(scale=0.1, size=(50, 7)),
    }
    for name, table in tables.items():
        np.save(tmp_path / f"{name}.npy", table)
    files = {name: tmp_path / f"{name}.npy" for name in tables}
    flags = [word for name, path in files.items() for word in (f"--{name.replace('_', '-')}", path)]
    run_command(
        "simulate", "--env", "table", *flags, "--policy", "linucb-ind", "--reps", 1,
        "--arms-out", tmp_path / "arms.npy",
    )  # fmt: skip
    theirs = np.load(tmp_path / "arms.npy")
    for given in (tables, files):
        result = cohort.simulate("table", "linucb-ind", reps=1, keep_arms=True, **given)
        assert (result["linucb-ind"].arms[0] == theirs).all()


def test_clusters_are_those_of_the_command(run_command, tmp_path):
    points = np.random.default_rng(5).normal(size=(2000, 3))
    np.save(tmp_path / "points.npy", points)
    for gamma, min_share in [(0.25, 0.0), (0.3, 0.01)]:
        run_command(
            "cluster", "--points", tmp_path / "points.npy", "--gamma", gamma, "--min-share", min_share,
            "--labels", tmp_path / "labels.npy",
        )  # fmt: skip
        labels = cohort.maximal_cluster(points, gamma, min_share)
        assert (labels == np.load(tmp_path / "labels.npy")).all()
        # Whatever order the points lie in, the answer is the same.
        assert (cohort.maximal_cluster(np.asfortranarray(points), gamma, min_share) == labels).all()


def test_a_loop_in_python_plays_what_the_lab_plays():
    env = cohort.Environment("clustered", noise=0.1, **SMALL)
    rounds = 50
    world = env.world(seed=7)
    for name in ["linucb-ind", "cmlb", "sclb-warm", "pmlb", "common", "cohort"]:
        lab = cohort.simulate(env, name, rounds=rounds, reps=1, seed=7, keep_arms=True)
        told = {} if name == "cohort" else {"sigma": world.sigma}
        policy = cohort.Policy(name, users=world.users, dim=world.dim, rounds=rounds, **told)
        for t in range(rounds):
            arms = policy.choose(world.contexts(t))
            assert (arms == lab.arms[0, 0, t]).all(), f"{name}, round {t}"
            assert np.isclose(world.regrets(t, arms).mean(), lab.regret[0, 0, t], rtol=0, atol=1e-15)
            policy.learn(world.contexts(t), arms, world.rewards(t, arms))


def test_oracles_are_told_the_truth():
    world = cohort.Environment("clustered", noise=0.1, **SMALL).world(seed=7)
    policy = cohort.Policy(
        "oracle-individual", users=world.users, dim=world.dim, thetas=world.thetas, clusters=world.clusters
    )
    assert world.regrets(3, policy.choose(world.contexts(3))).max() == 0.0
    with pytest.raises(cohort.BadInput, match="needs the users' true vectors"):
        cohort.Policy("oracle-individual", users=3, dim=2)
