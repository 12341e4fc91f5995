"""What environments and policies written in Python look like to the lab."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = ["EnvironmentLike", "PolicyLike", "Problem"]


class Problem(NamedTuple):
    """What a policy is told when it is made."""

    #: N, how many users there are.
    users: int
    #: d, the dimension of the contexts.
    dim: int
    #: T, how many rounds will be played, where that is known.
    rounds: int | None
    #: The scale of the noise on rewards.
    sigma: float
    #: From which policies that draw random numbers draw them.
    seed: int


@runtime_checkable
class EnvironmentLike(Protocol):
    """An environment of your own: any object with these two methods.

    How many users there are it says in an attribute ``users`` (or ``simulate(…, users=N)`` does).
    It may have more:

    - ``expected(t)``: the expected reward of every arm, ``(users, arms)`` or ``(arms,)``. Without it
      nobody knows the best arm: regret is NaN, and rewards are what there is to compare.
    - ``sigma``: the scale of the noise, which policies are told (1 if it is not there).
    - ``rounds``: how many rounds there are at most.
    - ``thetas`` ``(users, dim)`` and ``clusters`` ``(users,)``: the truth, which oracles are told and
      clusters found are compared with.
    - ``repetition(number)``: the world of a repetition, an object like this one. Without it every
      repetition and every policy meets this very object, from round 0 on.
    """

    def contexts(self, t: int, /) -> npt.ArrayLike:
        """The arms of round ``t`` (from 0): ``(arms, dim)``, or ``(users, arms, dim)`` where every
        user has an offer of its own."""

    def rewards(self, t: int, arms: npt.NDArray[np.int64], /) -> npt.ArrayLike:
        """The reward of every user, ``arms[i]`` being what user ``i`` plays.

        Policies that serve one user at a time need rewards before all arms are known: for them it
        is asked for one arm after the other, as if all users played it. So the answer for a user
        must depend on nothing but ``t`` and that user's arm.
        """


@runtime_checkable
class PolicyLike(Protocol):
    """A policy of your own: any object with these two methods. It may have a third,
    ``clusters()``, the cluster of every user."""

    def choose(self, contexts: npt.NDArray[np.float64], /) -> npt.ArrayLike:
        """One arm for every user; ``contexts`` is ``(arms, dim)``."""

    def learn(
        self,
        contexts: npt.NDArray[np.float64],
        arms: npt.NDArray[np.int64],
        rewards: npt.NDArray[np.float64],
        /,
    ) -> Any:
        """What came of it: ``rewards[i]`` is user ``i``'s answer to ``arms[i]``."""
