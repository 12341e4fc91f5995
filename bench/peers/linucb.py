#!/usr/bin/env python3
"""Peers of linucb-ind: LinUCB-style learning per user, each in a process of its own.

    linucb.py PEER [--users 200] [--dim 15] [--arms 25] [--seconds 3] [--seed 1]

Prints one line of JSON: {"peer", "user_rounds_per_second", "user_rounds", "how", "version"}. A
user-round is: for one user, score K arms, pick one, learn from its reward. Every library is used in
the fastest way found to give each user a linear model of its own over the arms' contexts, which
are the same for all users in a round; rewards are drawn beforehand, and only the library's calls
and the choice between its scores are timed. One thread.
"""

import argparse
import importlib.metadata
import json
import os
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np


class Numpy:
    """V⁻¹ of every user by Sherman–Morrison, all arms of one user in one product."""

    package = "numpy"

    def __init__(self, users, dim, arms):
        self.inverse = np.stack([np.eye(dim)] * users)
        self.moment = np.zeros((users, dim))

    def round(self, contexts, rewards):
        for user, reward in enumerate(rewards):
            inverse = self.inverse[user]
            projected = contexts @ inverse
            width = np.sqrt(np.einsum("kd,kd->k", projected, contexts))
            arm = np.argmax(projected @ self.moment[user] + width)
            gain = projected[arm]
            inverse -= np.outer(gain, gain) / (1.0 + gain @ contexts[arm])
            self.moment[user] += reward * contexts[arm]


class Mabwiser:
    """One LinUCB whose arms are the users: its expectations are the users' upper bounds."""

    package = "mabwiser"

    def __init__(self, users, dim, arms):
        from mabwiser.mab import MAB, LearningPolicy

        self.users = list(range(users))
        self.mab = MAB(self.users, LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0))
        self.mab.fit(self.users, [0.0] * users, np.zeros((users, dim)))

    def round(self, contexts, rewards):
        scores = self.mab.predict_expectations(contexts)
        chosen = [max(range(len(scores)), key=lambda k: scores[k][user]) for user in self.users]
        self.mab.partial_fit(self.users, rewards, contexts[chosen])


class Contextualbandits:
    """One LinUCB whose choices are the users: its decision function is the users' upper bounds."""

    package = "contextualbandits"

    def __init__(self, users, dim, arms):
        from contextualbandits.online import LinUCB

        self.users = np.arange(users)
        self.policy = LinUCB(
            nchoices=users, alpha=1.0, lambda_=1.0, fit_intercept=False, use_float=False, njobs=1, random_state=1
        )

    def round(self, contexts, rewards):
        chosen = np.argmax(self.policy.decision_function(contexts), axis=0)
        self.policy.partial_fit(contexts[chosen], self.users, rewards)


class River:
    """One Bayesian linear regression per user, as its own LinUCBDisjoint keeps one per arm."""

    package = "river"

    def __init__(self, users, dim, arms):
        from river import linear_model

        self.models = [linear_model.BayesianLinearRegression(alpha=1.0, beta=1.0) for _ in range(users)]

    def round(self, contexts, rewards):
        contexts = [dict(enumerate(map(float, context))) for context in contexts]
        for model, reward in zip(self.models, rewards):
            beliefs = [model.predict_one(context, with_dist=True) for context in contexts]
            arm = max(range(len(beliefs)), key=lambda k: beliefs[k].mu + beliefs[k].sigma)
            model.learn_one(contexts[arm], float(reward))


class Vowpalwabbit:
    """cb_explore_adf with RegCB's optimistic choice, the user's name crossed with the arms' features."""

    package = "vowpalwabbit"

    def __init__(self, users, dim, arms):
        import vowpalwabbit

        self.vw = vowpalwabbit.Workspace(
            "--cb_explore_adf --regcbopt --cb_type mtr --ignore_linear A -q UA --quiet --random_seed 1"
        )

    def round(self, contexts, rewards):
        lines = ["|A " + " ".join(f"{k}:{v:.6f}" for k, v in enumerate(context)) for context in contexts]
        for user, reward in enumerate(rewards):
            request = [f"shared |U u{user}", *lines]
            probabilities = self.vw.predict(request)
            arm = int(np.argmax(probabilities))
            request[1 + arm] = f"0:{-reward:.6f}:{probabilities[arm]:.6f} {request[1 + arm]}"
            self.vw.learn(request)


PEERS = {peer.package: peer for peer in (Mabwiser, Contextualbandits, Vowpalwabbit, River, Numpy)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--dim", type=int, default=15)
    parser.add_argument("--arms", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    peer = PEERS[args.peer]
    learner = peer(args.users, args.dim, args.arms)

    # The first round warms up; then the fastest round counts, as it does for all others.
    fastest, rounds, until = float("inf"), 0, time.perf_counter() + args.seconds
    while rounds < 2 or time.perf_counter() < until:
        contexts = rng.uniform(-1, 1, (args.arms, args.dim)) / args.dim**0.5
        rewards = rng.uniform(-1, 1, args.users)
        start = time.perf_counter()
        learner.round(contexts, rewards)
        elapsed = time.perf_counter() - start
        fastest = min(fastest, elapsed) if rounds else fastest
        rounds += 1
    result = {
        "peer": args.peer,
        "user_rounds_per_second": args.users / fastest,
        "user_rounds": rounds * args.users,
        "how": " ".join(peer.__doc__.split()),
        "version": importlib.metadata.version(peer.package),
    }
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
