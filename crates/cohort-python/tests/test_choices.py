"""What `decide` tells, coefficients, parameters, arms that come and go, and bounds."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import cohort

OFFER = np.eye(3)


def taught(name="linucb-ind", **more):
    policy = cohort.Policy(name, dim=3, **more)
    for _ in range(60):
        for arm, reward in enumerate([1.0, 0.4, -0.2]):
            policy.learn(user="ann", x=OFFER[arm], reward=reward)
    return policy


def test_a_choice_has_its_probability_and_the_best_arms():
    policy = taught(exploration=0.01)
    choice = policy.decide("ann", OFFER, k=2)
    assert (choice.arm, choice.probability, choice.ranking.tolist()) == (0, 1.0, [0, 1])
    assert choice.arm == policy.decide("ann", OFFER)
    assert np.allclose(choice.expected, [1.0, 0.4, -0.2], atol=0.05) and (choice.bonus > 0).all()
    assert policy.decide("ann", OFFER, k=99).ranking.tolist() == [0, 1, 2]
    with pytest.raises(cohort.BadInput, match="k: found 0, expected a whole number, 1 or more"):
        policy.decide("ann", OFFER, k=0)
    with pytest.raises(cohort.BadInput, match="epsilon: found 1.5, expected a share"):
        policy.decide("ann", OFFER, epsilon=1.5)


@pytest.mark.parametrize("name", ["linucb-ind", "lints", "random"])
def test_arms_are_chosen_as_often_as_is_stated(name):
    policy, draws = taught(name), 4000
    chosen, stated = np.zeros(3), np.zeros(3)
    for _ in range(draws):
        choice = policy.decide("ann", OFFER, epsilon=0.3)
        assert np.isclose(choice.probabilities.sum(), 1.0)
        assert choice.probability == choice.probabilities[choice.arm]
        assert choice.ranking[0] == choice.arm
        chosen[choice.arm] += 1
        stated += choice.probabilities
    # Four standard errors of a share; the seed is fixed.
    assert np.abs(chosen - stated).max() / draws < 4 * np.sqrt(0.25 / draws)


def test_choices_go_on_where_a_copy_was_made():
    policy = taught("lints", random_state=5)
    for copied in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        again = copy.deepcopy(policy)
        for _ in range(20):
            one, other = copied.decide("ann", OFFER, epsilon=0.5), again.decide("ann", OFFER, epsilon=0.5)
            assert one.arm == other.arm and (one.probabilities == other.probabilities).all()


@pytest.mark.parametrize("name", ["linucb-ind", "cohort"])
def test_coefficients_are_what_predictions_come_from(name):
    rng, theta = np.random.default_rng(1), np.array([0.5, -1.0, 0.2])
    policy = cohort.Policy(name, dim=3)
    for turn in range(400):
        x = rng.uniform(-1, 1, 3)
        policy.learn(f"u{turn % 4}", x, x @ theta + 0.05 * rng.normal())
    one = policy.coefficients("u2")
    assert np.abs(one.mean - theta).max() < 0.1 and (one.deviation > 0).all()
    everybody = policy.coefficients()
    assert everybody.mean.shape == (4, 3) and (everybody.mean[2] == one.mean).all()
    assert np.isnan(policy.coefficients("nobody").mean).all()
    with pytest.raises(cohort.BadInput, match="policy `random` does not tell its users' vectors"):
        cohort.Policy("random", dim=3, users=2).coefficients()


def test_arguments_of_learn_may_be_named_in_any_mixture():
    one, other = cohort.Policy("linucb-ind", dim=3), cohort.Policy("linucb-ind", dim=3)
    one.learn("ann", OFFER[0], 1.0)
    other.learn("ann", x=OFFER[0], reward=1.0)
    assert (one.coefficients("ann").mean == other.coefficients("ann").mean).all()
    rounds = cohort.Policy("linucb-ind", dim=3, users=2)
    rounds.learn(contexts=OFFER, arms=[0, 1], rewards=[1.0, 0.0])
    rounds.learn(OFFER, arms=[0, 1], rewards=[1.0, 0.0])
    for refused in (
        lambda: one.learn("ann", OFFER[0]),
        lambda: one.learn("ann", OFFER[0], 1.0, 2.0),
        lambda: one.learn(user="ann", x=OFFER[0], rewards=1.0),
        lambda: one.learn("ann", user="ann", x=OFFER[0], reward=1.0),
        lambda: one.learn(),
    ):
        with pytest.raises(cohort.BadInput, match=r"learn: found .*expected learn\(contexts, arms, rewards\)"):
            refused()


def as_scikit_learn_clones(policy):
    """What sklearn.base.clone does."""
    params = {name: copy.deepcopy(value) for name, value in policy.get_params(deep=False).items()}
    clone = type(policy)(**params)
    for name, value in clone.get_params(deep=False).items():
        assert value is params[name], name
    return clone


@pytest.mark.parametrize(
    "policy",
    [
        cohort.Policy("linucb-ind", dim=6, arms=["a", "b"], exploration=0.2, random_state=3),
        cohort.Cohort(dim=3, random_state=np.random.default_rng(4)),
    ],
    ids=["Policy", "Cohort"],
)
def test_parameters_are_had_set_and_cloned(policy):
    clone = as_scikit_learn_clones(policy)
    assert type(clone) is type(policy) and clone.params == policy.params
    policy.learn("ann", np.ones(policy.dim), 1.0)
    unlearned = policy.clone()
    assert unlearned.n_users == 0 and unlearned.seed == policy.seed and policy.n_users == 1
    changed = policy.clone().set_params(dim=4, arms=None)
    assert changed.dim == 4 and changed.get_params()["dim"] == 4


def test_arms_come_and_go():
    rng = np.random.default_rng(0)
    policy = cohort.Policy("linucb-ind", dim=4 * 2, arms=["tea", "milk"], max_arms=4, exploration=0.0)
    contexts = rng.normal(size=(40, 2))
    policy.fit(["tea", "milk"] * 20, contexts[:, 0], contexts)
    policy.add_arm("water")
    asked = np.array([[1.0, 0.0]])
    assert list(policy.predict_expectations(asked)) == ["tea", "milk", "water"]
    assert policy.predict_expectations(asked)["water"] == 0.0, "a new arm knows nothing"
    before = policy.predict_expectations(asked)["milk"]
    policy.remove_arm("milk")
    assert list(policy.predict_expectations(asked)) == ["tea", "water"]
    policy.partial_fit(["water"] * 5, [-1.0] * 5, np.tile(asked, (5, 1)))
    assert policy.predict(asked) == "tea"
    policy.add_arm("milk")
    assert policy.predict_expectations(asked)["milk"] == before, "it knows what it knew"
    policy.add_arm("juice")
    with pytest.raises(cohort.BadInput, match="add_arm: found 4 arms, expected room for it"):
        policy.add_arm("wine")
    with pytest.raises(cohort.BadInput, match="'tea', which is an arm already"):
        policy.add_arm("tea")
    with pytest.raises(cohort.BadInput, match="remove_arm: found 'wine', expected one of"):
        policy.remove_arm("wine")
    # Where arms have features, there is always room.
    offered = cohort.Policy("linucb-ind", dim=3, arms=["a", "b"])
    offered.add_arm("c")
    assert offered.predict(OFFER) in ("a", "b", "c")


def test_one_row_a_reward_is_what_was_played():
    rng = np.random.default_rng(3)
    rows, rewards = rng.uniform(-1, 1, (30, 3)), rng.normal(size=30)
    users = [f"u{k % 3}" for k in range(30)]
    loop = cohort.Policy("linucb-ind", dim=3)
    for user, x, reward in zip(users, rows, rewards):
        loop.learn(user, x, reward)
    for decisions in (None, np.arange(30) % 5):
        fitted = cohort.Policy("linucb-ind", dim=3).partial_fit(decisions, rewards, rows, users)
        assert (fitted.coefficients().mean == loop.coefficients().mean).all()
    # As many rows as named arms could be either, and is refused; the other shapes say what is meant.
    named = cohort.Policy("linucb-ind", dim=3, arms=["a", "b"])
    with pytest.raises(cohort.BadInput, match=r"expected \(1, 2, 3\) for one offer of all arms"):
        named.partial_fit(["a", "b"], [1.0, 0.0], OFFER[:2])
    named.partial_fit(["a", "a"], [1.0, 1.0], OFFER[np.newaxis, :2])
    assert named.coefficients(0).mean[0] > 0.5 and named.coefficients(0).mean[1] == 0.0
    with pytest.raises(cohort.BadInput, match="decisions: found 2, expected 3"):
        named.partial_fit(["a", "b"], [1.0] * 3, OFFER)
    with pytest.raises(cohort.BadInput, match=r"contexts: found shape \(3, 3\), expected \(2, 3\)"):
        named.partial_fit(None, [1.0] * 2, OFFER)


@pytest.mark.parametrize("name", ["linucb-ind", "cohort", "cmlb"])
def test_numbers_have_the_bounds_of_the_service(name, tmp_path):
    policy = cohort.Policy(name, dim=3, users=2, rounds=9)
    refused = [
        (lambda: policy.learn(OFFER, [0, 1], [1e7, 0.0]), r"rewards: found 10000000.0 at 0, .*from -1e6 to 1e6"),
        (lambda: policy.learn(OFFER, [0, 1], [0.0, 1e200]), "rewards: found 1e200 at 1"),
        (lambda: policy.learn(OFFER, [0, 1], [0.0, np.nan]), "rewards: found NaN at 1"),
        (lambda: policy.choose(OFFER * 1e5), r"contexts: found 1e5 at arm 0, coordinate 0, .*from -1e4 to 1e4"),
    ]
    if name != "cmlb":
        refused += [
            (lambda: policy.learn("ann", OFFER[0], 1e7), "rewards: found 10000000.0 at 0"),
            (lambda: policy.learn("ann", OFFER[0] * 1e200, 0.0), "contexts: found 1e200 at arm 0"),
            (lambda: policy.decide("ann", OFFER * 1e5, k=1), "contexts: found 1e5"),
            (lambda: policy.predict(OFFER[np.newaxis] * 1e5, users=["ann"]), "contexts: found 1e5"),
        ]
    for attempt, sentence in refused:
        with pytest.raises(cohort.BadInput, match=sentence):
            attempt()
    # Nothing of it was learned, and what there is can be kept.
    pickle.loads(pickle.dumps(policy)).choose(OFFER)


def test_what_is_not_there_or_not_so_is_said():
    cases = [
        (lambda: cohort.load("/nowhere/learned.snapshot"), "/nowhere/learned.snapshot: there is no such file"),
        (lambda: cohort.load("/"), "found a folder, expected a snapshot"),
        (lambda: cohort.Cohort(dim=2).remove_arm("tea"), "found 'tea', but the policy has no arms"),
        (lambda: cohort.Policy("linucb-ind", dim=-3), "dim: found -3, expected a whole number, 1 or more"),
        (lambda: cohort.Policy("linucb-ind", dim=2.5), "dim: found 2.5"),
        (lambda: cohort.Policy("linucb-ind", dim=3, users=-1), "users: found -1, expected a whole number, 0 or more"),
        (lambda: cohort.Policy("cmlb", dim=3, users=1, rounds=-1), "rounds: found -1"),
        (lambda: cohort.Cohort(dim=3).decide(None, OFFER), "user: found None, .* or a name: any string"),
        (lambda: cohort.Cohort(dim=3).learn(None, OFFER[0], 1.0), "user: found None"),
        (lambda: cohort.Cohort(dim=3).decide(1.5, OFFER), "user: found 1.5"),
        (lambda: cohort.Policy("linucb-ind", dim=3, arms=["a", "a"]), "arms: found a name twice"),
    ]
    for refused, sentence in cases:
        with pytest.raises(cohort.BadInput, match=sentence):
            refused()
