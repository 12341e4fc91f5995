"""Environments and policies written in Python, in the lab beside the built-in ones."""

from __future__ import annotations

import numpy as np
import pytest
from plain_linucb import PlainLinUcb

import cohort

ALL = [policy["name"] for policy in cohort.policies()]


class Copy:
    """A world of the lab as an environment of one's own: nothing but the two methods."""

    def __init__(self, options, repetition=0):
        self.options = options
        self.world = cohort.Environment("clustered", **options).world(seed=7, repetition=repetition)
        self.users = self.world.users

    def contexts(self, t):
        return self.world.contexts(t)

    def rewards(self, t, arms):
        return self.world.rewards(t, arms)


class Told(Copy):
    """The same with all that the lab would know."""

    def __init__(self, options, repetition=0):
        super().__init__(options, repetition)
        self.sigma, self.thetas = self.world.sigma, self.world.thetas
        self.clusters = self.world.clusters

    def expected(self, t):
        return self.thetas @ self.world.contexts(t).T

    def repetition(self, number):
        return Told(self.options, number)


OPTIONS = {"users": 12, "clusters": 3, "dim": 4, "arms": 6, "noise": 0.1}


def test_every_policy_plays_in_it_as_in_the_original():
    run = {"rounds": 40, "reps": 2, "seed": 7, "keep_arms": True}
    theirs = cohort.simulate("clustered", ALL, **run, **OPTIONS)
    ours = cohort.simulate(Told(OPTIONS), ALL, **run)
    for name in ALL:
        assert (ours[name].arms == theirs[name].arms).all(), name
        assert np.allclose(ours[name].regret, theirs[name].regret, rtol=0, atol=1e-12), name
        assert np.array_equal(ours[name].adjusted_rand, theirs[name].adjusted_rand, equal_nan=True)
    assert ours.env == {"name": "python", "users": 12, "dim": 4, "arms": 6}


def test_two_methods_are_enough():
    # Nothing is known of the best arm: rewards are what there is.
    result = cohort.simulate(Copy(OPTIONS), ["linucb-ind", "club", "cohort"], rounds=60, reps=1)
    assert np.isnan(result.regret).all() and np.isfinite(result.reward).all()
    assert np.isnan(result["club"].regret_mean)
    assert result["cohort"].reward[0, 30:].mean() > result["cohort"].reward[0, :10].mean()
    assert "cohort" in result._repr_html_()


class OwnOffers:
    users, sigma = 5, 0.1

    def contexts(self, t):
        return np.random.default_rng(t).uniform(-1, 1, (5, 4, 3))

    def expected(self, t):
        return self.contexts(t).sum(axis=2)

    def rewards(self, t, arms):
        return self.expected(t)[np.arange(5), arms]


def test_every_user_may_have_an_offer_of_its_own():
    result = cohort.simulate(OwnOffers(), "linucb-ind,random", rounds=60, reps=1)
    assert result["linucb-ind"].regret_mean < result["random"].regret_mean / 2
    with pytest.raises(cohort.BadInput, match="policy `cmlb` needs one offer for all users"):
        cohort.simulate(OwnOffers(), "cmlb", rounds=10)


def test_a_policy_of_ones_own_is_in_the_same_report(tmp_path):
    def plain(problem: cohort.Problem) -> PlainLinUcb:
        assert problem.rounds == 80
        return PlainLinUcb(problem.users, problem.dim, sigma=problem.sigma)

    result = cohort.simulate(
        "clustered",
        {"plain": plain, "engine": "linucb-ind", "random": "random"},
        rounds=80,
        reps=2,
        keep_arms=True,
        out=tmp_path,
        **OPTIONS,
    )
    assert result.policies == ["plain", "engine", "random"]
    assert (result["plain"].arms == result["engine"].arms).all()
    assert (result["plain"].regret == result["engine"].regret).all()
    assert (result.regret[0] == result["plain"].regret).all()
    assert "plain" in (tmp_path / "regret.csv").read_text()
    assert [policy["name"] for policy in result.summary["policies"]] == result.policies


def test_an_instance_is_copied_for_every_repetition():
    class Counts:
        def __init__(self):
            self.rounds = 0

        def choose(self, contexts):
            assert contexts.shape == (6, 4)
            return [self.rounds % 6] * 12

        def learn(self, contexts, arms, rewards):
            self.rounds += 1

        def clusters(self):
            return [k % 2 for k in range(12)]

    mine = Counts()
    result = cohort.simulate("clustered", [mine], rounds=9, reps=3, keep_arms=True, **OPTIONS)
    assert mine.rounds == 0 and result.policies == ["Counts"]
    assert (result["Counts"].arms[:, :, 0] == np.arange(9) % 6).all()
    assert (result["Counts"].clusters == 2).all()


class Broken(Copy):
    def __init__(self, **broken):
        super().__init__(OPTIONS)
        self.broken = broken

    def contexts(self, t):
        return self.broken["contexts"](t) if t == 5 and "contexts" in self.broken else super().contexts(t)

    def rewards(self, t, arms):
        return self.broken["rewards"](t) if t == 5 and "rewards" in self.broken else super().rewards(t, arms)


def fails(t):
    raise LookupError(f"nothing in round {t}")


@pytest.mark.parametrize("policy", ["linucb-ind", "club"])
@pytest.mark.parametrize(
    ("broken", "error", "sentence"),
    [
        ({"contexts": fails}, LookupError, "nothing in round 5"),
        ({"rewards": fails}, LookupError, "nothing in round 5"),
        ({"contexts": lambda t: np.ones((3, 9))}, cohort.BadInput, r"contexts: found shape \(3, 9\)"),
        ({"contexts": lambda t: np.full((3, 4), np.nan)}, cohort.BadInput, "contexts: found NaN at 0"),
        ({"rewards": lambda t: [1.0]}, cohort.BadInput, r"rewards: found shape \(1\), expected \(12\)"),
        ({"rewards": lambda t: ["a"] * 12}, ValueError, "could not convert"),
    ],
)
def test_what_an_environment_raises_comes_out(policy, broken, error, sentence):
    with pytest.raises(error, match=sentence):
        cohort.simulate(Broken(**broken), policy, rounds=20)


def test_what_a_policy_raises_comes_out():
    class Bad:
        def __init__(self, arms):
            self.arms = arms

        def choose(self, contexts):
            return self.arms

        def learn(self, contexts, arms, rewards):
            raise LookupError("cannot learn")

    def run(policy):
        cohort.simulate("clustered", [policy], rounds=5, **OPTIONS)

    with pytest.raises(LookupError, match="cannot learn"):
        run(Bad(np.zeros(12, dtype=int)))
    with pytest.raises(cohort.BadInput, match="arms: found 6 at 0, expected 0 to 5"):
        run(Bad(np.full(12, 6)))
    with pytest.raises(cohort.BadInput, match=r"arms: found shape \(2\), expected \(12\)"):
        run(Bad([0, 0]))
    with pytest.raises(cohort.BadInput, match="expected an object with `choose` and `learn`"):
        run(lambda problem: 5)
    with pytest.raises(cohort.BadInput, match="`linucb-ind` twice"):
        cohort.simulate("clustered", ["linucb-ind", "linucb-ind"])
    with pytest.raises(cohort.BadInput, match="found int, expected a name"):
        cohort.simulate("clustered", [5])


def test_how_many_users_there_are_must_be_said():
    class Bare:
        def contexts(self, t):
            return np.eye(2)

        def rewards(self, t, arms):
            return np.asarray(arms, dtype=float)

    with pytest.raises(cohort.BadInput, match=r"simulate\(…, users=N\)"):
        cohort.simulate(Bare(), "linucb-ind")
    assert cohort.simulate(Bare(), "linucb-ind", users=3, rounds=5).users == 3
