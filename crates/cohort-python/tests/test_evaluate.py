"""Policies judged by logs, from files and from tables."""

from __future__ import annotations

import json

import numpy as np
import pandas
import polars
import pytest

import cohort


def a_log(rows=600):
    """Decisions of a policy that explores, with the features of all candidates."""
    rng = np.random.default_rng(2)
    thetas = rng.normal(size=(5, 3))
    policy = cohort.Policy("linucb-ind", dim=3)
    log = {name: [] for name in ("user", "item", "reward", "propensity", "candidates", "features")}
    for row in range(rows):
        user, offer = row % 5, rng.uniform(-1, 1, (4, 3))
        choice = policy.decide(f"u{user}", offer, epsilon=0.4)
        reward = float(offer[choice.arm] @ thetas[user] + 0.1 * rng.normal())
        policy.learn(f"u{user}", offer[choice.arm], reward)
        log["user"].append(f"u{user}")
        log["item"].append(f"i{choice.arm}")
        log["reward"].append(reward)
        log["propensity"].append(choice.probability)
        log["candidates"].append([f"i{arm}" for arm in range(4)])
        log["features"].append(offer)
    return log


@pytest.fixture(scope="module")
def log():
    return a_log()


def test_tables_files_and_the_command_say_the_same(log, tmp_path, run_command):
    by_columns = cohort.evaluate(log, ["logged", "random", "linucb-ind"])
    table = pandas.DataFrame(log)
    assert cohort.evaluate(table, ["logged", "random", "linucb-ind"]).records() == by_columns.records()
    lists = {name: [np.ravel(x).tolist() for x in log[name]] if name == "features" else log[name] for name in log}
    by_polars = cohort.evaluate(polars.DataFrame(lists), ["logged", "random", "linucb-ind"])
    assert by_polars.records() == by_columns.records()
    path = tmp_path / "log.csv"
    for name in ("candidates", "features"):
        table[name] = [json.dumps(np.ravel(cell).tolist()) for cell in table[name]]
    table.to_csv(path, index=False)
    said = run_command("evaluate", path, "--policy", "logged,random,linucb-ind")
    for evaluation, one in zip(by_columns.policies, said["policies"]):
        assert evaluation.policy == one["policy"] and evaluation.warnings == one["warnings"]
        for estimate in one["estimates"]:
            found = evaluation.estimates[estimate["estimator"]]
            assert found == (estimate["value"], estimate["low"], estimate["high"], estimate["rows"])
    assert by_columns["linucb-ind"].estimates["dr"].value > by_columns["random"].estimates["dr"].value
    assert "random" in repr(by_columns) and len(by_columns.to_pandas()) == 12


def test_policies_with_parameters_and_probabilities_of_ones_own(log):
    judged = cohort.evaluate(
        log,
        {
            "narrow": cohort.Policy("linucb-ind", dim=3, exploration=0.01),
            "wide": cohort.Policy("linucb-ind", dim=3, exploration=30.0),
            "uniform": np.full((600, 4), 0.25),
            "random": "random",
        },
        estimators=["ips", "snips"],
    )
    assert [one.policy for one in judged.policies] == ["narrow", "wide", "uniform", "random"]
    assert judged["uniform"].estimates == judged["random"].estimates
    assert judged["narrow"].estimates["snips"].value > judged["wide"].estimates["snips"].value
    assert judged["random"].effective_rows > 100


def test_what_cannot_be_judged_is_said(log):
    cases = [
        (lambda: cohort.evaluate(log, "linucb"), "there is no policy `linucb`"),
        (lambda: cohort.evaluate(log, estimators=["magic"]), "estimators: found `magic`, expected some of replay"),
        (lambda: cohort.evaluate("/nowhere.csv"), "/nowhere.csv"),
        (lambda: cohort.evaluate({"item": ["a"]}), "a column `reward`"),
        (lambda: cohort.evaluate({"item": ["a"], "reward": [1, 2]}), "found columns of"),
        (lambda: cohort.evaluate(log, ["random", "random"]), "two called 'random'"),
        (lambda: cohort.evaluate(log, np.ones((3, 4))), "600, the decisions of the log with a reward"),
        (lambda: cohort.evaluate(log, cohort.Policy("common", dim=3, users=1)), "one user at a time"),
    ]
    for refused, sentence in cases:
        with pytest.raises(cohort.CohortError, match=sentence) as error:
            refused()
        assert "\n" not in str(error.value)


def test_rows_without_a_reward_are_counted():
    nan = float("nan")
    judged = cohort.evaluate(
        {"item": ["a", "b", "a"], "reward": [1.0, nan, None], "propensity": [0.5] * 3}, estimators=["ips"]
    )
    assert (judged.rows, judged.unrewarded, judged.users) == (1, 2, 1)
