"""The engine's linucb-ind against the plain one, arm by arm."""

from __future__ import annotations

import numpy as np
import pytest
from plain_linucb import PlainLinUcb

import cohort


@pytest.mark.parametrize("exploration", [1.0, 0.1])
def test_the_lab_plays_the_same_arms(exploration):
    env = cohort.Environment("clustered", users=25, clusters=4, dim=6, arms=9, noise=0.2)
    rounds = 200
    lab = cohort.simulate(
        env, cohort.Contender("linucb-ind", exploration=exploration), rounds=rounds, reps=1, keep_arms=True
    )
    world = env.world()
    plain = PlainLinUcb(world.users, world.dim, sigma=world.sigma, exploration=exploration)
    for t in range(rounds):
        contexts = world.contexts(t)
        arms = lab.arms[0, 0, t]
        scores = plain.scores(contexts)
        # The same arm, or one whose score is the same but for rounding.
        best = scores.max(axis=1)
        assert (best - scores[np.arange(world.users), arms] < 1e-9).all()
        assert (arms == scores.argmax(axis=1)).mean() == 1.0
        plain.learn(contexts, arms, world.rewards(t, arms))


def test_one_user_at_a_time_plays_the_same_arms():
    rng = np.random.default_rng(1)
    policy, plain = cohort.Policy("linucb-ind", dim=4, sigma=0.3), PlainLinUcb(3, 4, sigma=0.3)
    for turn in range(150):
        user, contexts = turn % 3, rng.uniform(-1, 1, (5, 4))
        scores = plain.scores(contexts)[user]
        judged = policy.judge(user, contexts)
        assert np.allclose(judged.score, scores, rtol=0, atol=1e-9)
        arm = policy.decide(user, contexts)
        assert arm == scores.argmax()
        reward = rng.normal()
        policy.learn(user, contexts[arm], reward)
        everybody, answers = np.zeros((3, 4)), np.zeros(3)
        everybody[user], answers[user] = contexts[arm], reward
        plain.learn(everybody, np.arange(3), answers)
