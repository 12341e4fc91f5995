"""What policies tell: choices, judgements, explanations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Choice",
    "Coefficients",
    "CohortReport",
    "Explanation",
    "Judgement",
    "UserReport",
]

_Array = npt.NDArray[np.float64]


class Judgement(NamedTuple):
    """What a policy thinks of every arm for one user."""

    #: The reward it expects of each arm.
    expected: _Array
    #: What is added for being unsure.
    bonus: _Array

    @property
    def score(self) -> _Array:
        """By which arms are ranked: their sum."""
        return self.expected + self.bonus


class Choice(NamedTuple):
    """An arm for one user, with what a log needs to judge other policies by it."""

    #: The arm to play.
    arm: int
    #: With what probability it was chosen.
    probability: float
    #: The best arms: the one to play, then the others by falling score.
    ranking: npt.NDArray[np.int64]
    #: With what probability each arm was to be chosen; they add up to 1.
    probabilities: _Array
    #: The reward that is expected of each arm.
    expected: _Array
    #: What is added for being unsure.
    bonus: _Array


class Coefficients(NamedTuple):
    """What is known of a user's vector: the reward of ``x`` is expected to be ``mean @ x`` above the
    level of rewards."""

    #: The vector.
    mean: _Array
    #: How unsure it is: one standard deviation of each coordinate.
    deviation: _Array


class CohortReport(NamedTuple):
    """One component of the population that the policy ``cohort`` has found."""

    #: Its number; 0 is the population at large: users that are like nobody in particular.
    number: int
    #: The share of users.
    share: float
    #: Where its users' vectors are.
    centre: _Array
    #: How much they differ: the variance of each coordinate.
    spread: float
    #: The users that most probably belong to it.
    members: npt.NDArray[np.int64]


class UserReport(NamedTuple):
    """One user as the policy ``cohort`` sees it."""

    #: Its number.
    user: int
    #: Its name, where it has one.
    name: str | None
    #: How many rewards were seen (fewer where old ones count less).
    rewards: float
    #: The component that it most probably belongs to; ``None`` before anything is known.
    cohort: int | None
    #: How probable that is.
    share: float


class Explanation(NamedTuple):
    """Why an arm is played for a user, in numbers that add up: ``mean = own + cohort +
    population`` and ``score = mean + width``, each an array with one number per arm."""

    #: The arm with the highest score.
    best: int
    #: The second best, if there is one.
    runner_up: int | None
    #: By how much the best score is better than the second.
    margin: float
    #: Where the user may belong: component and probability, most probable first.
    memberships: list[tuple[int, float]]
    #: The predicted reward.
    mean: _Array
    #: The part of it that comes from the user's own rewards.
    own: _Array
    #: The part that comes from its cohort's other users.
    cohort: _Array
    #: The part that comes from the population at large.
    population: _Array
    #: One standard deviation of the prediction.
    deviation: _Array
    #: How much is added for exploration.
    width: _Array
    #: By which arms are compared.
    score: _Array
