"""The environments of the lab, to simulate in or to ask from a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cohort import _engine
from cohort.errors import BadInput

__all__ = ["Environment", "World"]

_TABLES = ("contexts", "thetas", "noise_table", "clusters_table")


class Environment:
    """An environment of the lab and its options, as on the command line.

    >>> from cohort import Environment
    >>> world = Environment("clustered", users=6, clusters=2, dim=3, arms=4, noise=0.1).world(seed=7)
    >>> world.contexts(0).shape, world.clusters.tolist()
    ((4, 3), [0, 0, 0, 1, 1, 1])

    The environment ``table`` takes arrays as well as names of ``.npy`` files:
    ``Environment("table", contexts=X, thetas=TH, noise_table=E)`` with ``X`` ``(rounds, arms, dim)``,
    ``TH`` ``(users, dim)`` and ``E`` ``(rounds, users)``; user i's reward for arm j in round t is
    ``X[t, j] @ TH[i] + E[t, i]``.

    ``cohort.environments()`` lists all environments and their options.
    """

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.options = options

    def __repr__(self) -> str:
        options = "".join(f", {name}={_short(value)}" for name, value in self.options.items())
        return f"Environment({self.name!r}{options})"

    def world(self, seed: int = 7, repetition: int = 0) -> World:
        """The world that repetition ``repetition`` of ``simulate(…, seed=seed)`` plays in."""
        place, options = self._described()
        return World(_engine.World(place, options, seed, repetition))

    def _described(self) -> tuple[Any, dict[str, Any]]:
        """The environment for the engine: a name or tables, and the other options."""
        options = dict(self.options)
        if self.name != "table" or not any(_is_array(options.get(name)) for name in _TABLES):
            return self.name, options
        tables: dict[str, Any] = {}
        for name in _TABLES:
            value = options.pop(name, None)
            kind = np.int64 if name == "clusters_table" else np.float64
            if value is not None and not _is_array(value):
                value = np.load(value)
            tables[name] = None if value is None else np.ascontiguousarray(value, dtype=kind)
            if value is None and name != "clusters_table":
                raise BadInput(f"environment `table`: {name}: found nothing, expected an array")
        return tables, options


class World:
    """One world: users, what they are offered, and what they answer."""

    def __init__(self, native: _engine.World) -> None:
        self._native = native

    @property
    def users(self) -> int:
        """N, how many users."""
        return self._native.users

    @property
    def dim(self) -> int:
        """d, the dimension of contexts."""
        return self._native.dim

    @property
    def arms(self) -> int:
        """K, how many arms a round has."""
        return self._native.arms

    @property
    def rounds(self) -> int | None:
        """How many rounds there are, where that is limited."""
        return self._native.rounds

    @property
    def sigma(self) -> float:
        """The scale of the noise."""
        return self._native.sigma

    @property
    def thetas(self) -> npt.NDArray[np.float64] | None:
        """The users' true vectors, ``(users, dim)``, where there are any."""
        return self._native.thetas

    @property
    def clusters(self) -> npt.NDArray[np.int64] | None:
        """The true cluster of every user."""
        return self._native.clusters

    def contexts(self, t: int) -> npt.NDArray[np.float64]:
        """The arms of round ``t``, from 0: ``(arms, dim)``."""
        return self._native.contexts(t)

    def rewards(self, t: int, arms: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """What all users answer, with noise; ``arms[i]`` is what user ``i`` plays."""
        return self._native.rewards(t, np.ascontiguousarray(arms, dtype=np.int64))

    def regrets(self, t: int, arms: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """How much less than its best arm each user's arm is worth, without noise."""
        return self._native.regrets(t, np.ascontiguousarray(arms, dtype=np.int64))


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or isinstance(value, list)


def _short(value: Any) -> str:
    return f"array{np.shape(value)}" if _is_array(value) else repr(value)
