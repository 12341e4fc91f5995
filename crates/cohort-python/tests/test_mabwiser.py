"""The conventions of MABWiser."""

from __future__ import annotations

import numpy as np
import pytest

import cohort


def disjoint_ridge(decisions, rewards, contexts, arms):
    """MABWiser's LinGreedy: one ridge regression per arm."""
    models = {}
    for arm in arms:
        rows = [k for k, decision in enumerate(decisions) if decision == arm]
        x, y = contexts[rows], rewards[rows]
        models[arm] = np.linalg.solve(x.T @ x + np.eye(contexts.shape[1]), x.T @ y)
    return models


def test_a_model_for_each_arm_as_existing_code_expects():
    rng = np.random.default_rng(0)
    arms = ["tea", "coffee", "water"]
    contexts = rng.normal(size=(300, 4))
    decisions = rng.choice(arms, 300).tolist()
    rewards = rng.normal(size=300)
    # exploration=0 is greedy: expectations are the predictions of the models.
    policy = cohort.Policy("linucb-ind", dim=3 * 4, arms=arms, exploration=0.0)
    policy.fit(decisions[:200], rewards[:200], contexts[:200])
    policy.partial_fit(decisions[200:], rewards[200:], contexts[200:])
    models = disjoint_ridge(decisions, rewards, contexts, arms)
    rows = rng.normal(size=(10, 4))
    expectations = policy.predict_expectations(rows)
    for row, expected in zip(rows, expectations):
        assert list(expected) == arms
        for arm in arms:
            assert np.isclose(expected[arm], models[arm] @ row, rtol=0, atol=1e-9)
    assert policy.predict(rows) == [max(row, key=row.get) for row in expectations]
    # One row: one arm, one dictionary.
    assert policy.predict(rows[:1]) == policy.predict(rows)[0]
    assert policy.predict_expectations(rows[0]) == expectations[0]
    with pytest.raises(cohort.BadInput, match="decisions: found 'milk', expected one of 'tea'"):
        policy.partial_fit(["milk"], [1.0], rows[:1])


def test_rows_of_several_users_with_offers_of_their_own():
    rng = np.random.default_rng(1)
    offers = rng.uniform(-1, 1, (40, 5, 3))
    users = [f"u{k % 4}" for k in range(40)]
    decisions, rewards = rng.integers(0, 5, 40), rng.normal(size=40)
    policy = cohort.Policy("linucb-ind", dim=3).fit(decisions, rewards, offers, users)
    loop = cohort.Policy("linucb-ind", dim=3)
    for user, offer, arm, reward in zip(users, offers, decisions, rewards):
        loop.learn(user, offer[arm], reward)
    ask = rng.uniform(-1, 1, (5, 3))
    expected = [loop.decide(f"u{k}", ask) for k in range(4)]
    assert policy.predict(ask, users=["u0", "u1", "u2", "u3"]) == expected
    scores = policy.predict_expectations(ask, users=["u2"])
    assert np.allclose(list(scores.values()), loop.judge("u2", ask).score)
    # Fitting again forgets.
    assert policy.fit(decisions[:1], rewards[:1], offers[:1], users[:1]).n_users == 1


def test_a_round_is_fitted_by_policies_that_work_in_rounds():
    policy = cohort.Policy("cmlb", users=4, dim=2, rounds=50)
    offer = np.array([[1.0, 0.0], [0.0, 1.0]])
    for _ in range(30):
        arms = policy.predict(offer)
        policy.partial_fit(arms, [float(arm == 0) for arm in arms], offer)
    assert policy.predict(offer) == [0, 0, 0, 0]


def test_whom_rows_are_about_must_be_clear():
    policy = cohort.Policy("linucb-ind", users=3, dim=2)
    with pytest.raises(cohort.BadInput, match="users= to say whom each of 2 rows is about"):
        policy.partial_fit([0, 0], [1.0, 1.0], np.ones((2, 4, 2)))
    policy.partial_fit([0, 0, 0], [1.0, 1.0, 1.0], np.ones((3, 4, 2)))
    with pytest.raises(cohort.BadInput, match="users: found 1, expected 2"):
        policy.predict(np.ones((2, 4, 2)), users=["a"])
    with pytest.raises(cohort.BadInput, match=r"contexts: found shape \(2, 4, 9\)"):
        policy.predict(np.ones((2, 4, 9)))
