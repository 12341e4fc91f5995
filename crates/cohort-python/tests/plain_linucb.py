"""linucb-ind as plainly as possible: one ridge regression and one confidence set per user.

θ̂ = V⁻¹ Σxy, V = λI + Σxxᵀ, and the arm argmax ⟨x, θ̂⟩ + β·√(xᵀV⁻¹x) with Abbasi-Yadkori's
β = σ·√(2 ln(1/δ) + ln det V − d ln λ) + √λ·S. Nothing is carried along: every round solves afresh.
"""

from __future__ import annotations

import numpy as np


class PlainLinUcb:
    def __init__(self, users, dim, sigma=1.0, delta=0.4, lambda_=1.0, norm_bound=1.0, exploration=1.0):
        self.precision = np.tile(lambda_ * np.eye(dim), (users, 1, 1))
        self.moment = np.zeros((users, dim))
        self.sigma, self.delta, self.norm_bound = sigma, delta, norm_bound
        self.exploration, self.lambda_ = exploration, lambda_

    def scores(self, contexts):
        """The score of every arm for every user, (users, arms)."""
        dim = contexts.shape[1]
        estimates = np.linalg.solve(self.precision, self.moment[:, :, np.newaxis])[:, :, 0]
        squares = np.einsum("kd,nde,ke->nk", contexts, np.linalg.inv(self.precision), contexts)
        log_det = np.linalg.slogdet(self.precision)[1] - dim * np.log(self.lambda_)
        radius = self.sigma * np.sqrt(2 * np.log(1 / self.delta) + log_det)
        radius = self.exploration * (radius + np.sqrt(self.lambda_) * self.norm_bound)
        return estimates @ contexts.T + radius[:, np.newaxis] * np.sqrt(squares)

    def choose(self, contexts):
        return np.argmax(self.scores(contexts), axis=1)

    def learn(self, contexts, arms, rewards):
        played = contexts[arms]
        self.precision += np.einsum("nd,ne->nde", played, played)
        self.moment += played * rewards[:, np.newaxis]
