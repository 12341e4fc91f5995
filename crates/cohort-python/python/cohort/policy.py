"""Every policy as an object to drive from a loop of your own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from cohort import _engine
from cohort.errors import BadInput
from cohort.mabwiser import Conventions

__all__ = [
    "Cohort",
    "CohortReport",
    "Explanation",
    "Judgement",
    "Policy",
    "User",
    "UserReport",
    "load",
]

#: A user: a number from 0 on, or a name, which gets the next number when it is first seen.
User = Union[int, str]
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


class Policy(Conventions):
    """A policy that you drive yourself.

    In rounds, where all users see the same arms:

    >>> import numpy as np
    >>> policy = Policy("linucb-ind", users=2, dim=3)
    >>> contexts = np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]])
    >>> for _ in range(50):
    ...     arms = policy.choose(contexts)
    ...     # The first user likes arm 0, the second arm 1.
    ...     policy.learn(contexts, arms, (arms == [0, 1]).astype(float))
    >>> policy.choose(contexts).tolist()
    [0, 1]

    Or one user at a time, each with arms of its own and rewards that come later:

    >>> arm = policy.decide("ann", contexts)
    >>> policy.learn("ann", contexts[arm], 1.0)

    And in the manner of MABWiser: :meth:`fit`, :meth:`partial_fit`, :meth:`predict`,
    :meth:`predict_expectations`.

    :param name: one of ``cohort.policies()``.
    :param dim: how many numbers a context has.
    :param users: how many users there are; where users come one at a time, more may come.
    :param rounds: how many rounds will be played; some policies need it.
    :param random_state: from which policies that draw random numbers draw them: a number or a
        numpy generator.
    :param arms: names of the arms, for the methods in the manner of MABWiser.
    :param thetas: the users' true vectors, for oracles.
    :param clusters: the users' true clusters, for oracles.
    :param params: the policy's parameters, such as ``exploration`` and ``sigma``.

    A policy can be pickled and copied (``copy.deepcopy``), goes on bit by bit where it was, and may
    be used from several threads.
    """

    def __init__(
        self,
        name: str,
        *,
        dim: int,
        users: int = 0,
        rounds: int | None = None,
        random_state: Any = 0,
        arms: Sequence[Any] | None = None,
        thetas: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
        **params: Any,
    ) -> None:
        self.name = name
        self.dim = dim
        self.params = {key: value for key, value in params.items() if value is not None}
        self.rounds = rounds
        self.seed = _seed(random_state)
        self.arms = None if arms is None else list(arms)
        self._users_told = users
        self._thetas = None if thetas is None else _numbers(thetas)
        self._clusters = None if clusters is None else np.asarray(clusters).tolist()
        self._forget()

    def _forget(self) -> None:
        """As it was when it was made."""
        self._names: dict[str, int] = {}
        self._next_number = 0
        self._naming = threading.Lock()
        self._native = self._fresh()

    def _fresh(self) -> _engine.Learner:
        return _engine.Learner(
            self.name,
            self._users_told,
            self.dim,
            self.rounds,
            self.seed,
            self.params,
            self._thetas,
            self._clusters,
        )

    def __repr__(self) -> str:
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"{type(self).__name__}({self.name!r}, users={self.n_users}, dim={self.dim}{params})"

    @property
    def n_users(self) -> int:
        """How many users are known."""
        return self._native.users

    # In rounds.

    def choose(self, contexts: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """One arm for every user, on what was known before this round; ``contexts`` is ``(arms,
        dim)``, the same for all users."""
        return self._native.choose(_numbers(contexts))

    def learn(self, *what: Any) -> None:
        """What came of it. ``learn(contexts, arms, rewards)`` for a round: ``rewards[i]`` is user
        ``i``'s answer to ``arms[i]``. ``learn(user, x, reward)`` for one user: one reward for the
        context ``x`` that was played."""
        if len(what) != 3:
            expected = "learn(contexts, arms, rewards) or learn(user, x, reward)"
            raise BadInput(f"learn: found {len(what)} arguments, expected {expected}")
        first, second, third = what
        if isinstance(first, str) or np.ndim(first) == 0:
            played = _numbers(second)
            if played.ndim != 1:
                raise BadInput(f"x: found shape {played.shape}, expected ({self.dim},)")
            self._native.learn_one(
                self._numbers_of([first], add=True), played[np.newaxis], _numbers([third])
            )
        else:
            self._native.learn(_numbers(first), _whole("arms", second), _numbers(third))

    def clusters(self) -> npt.NDArray[np.int64] | None:
        """The cluster of every user, numbered by smallest member; ``None`` where the policy has no
        clusters (yet)."""
        return self._native.clusters()

    # One user at a time.

    def decide(self, user: User, contexts: npt.ArrayLike) -> int:
        """An arm for one user among ``contexts``, ``(arms, dim)``."""
        users = self._numbers_of([user], add=True)
        return int(self._native.decide(users, _numbers(contexts))[0])

    def judge(self, user: User, contexts: npt.ArrayLike) -> Judgement:
        """What the policy thinks of every arm for one user. Nothing that was learned changes."""
        expected, bonus = self._native.judge(self._numbers_of([user], add=False), _numbers(contexts))
        return Judgement(expected[0], bonus[0])

    def _numbers_of(self, users: Iterable[User], *, add: bool) -> npt.NDArray[np.int64]:
        """The numbers of users; names that are new get the next ones."""
        numbers = []
        with self._naming:
            for user in users:
                if isinstance(user, str):
                    number = self._names.get(user)
                    if number is None:
                        number = max(self.n_users, self._next_number)
                        if add:
                            self._names[user] = number
                            self._next_number = number + 1
                    numbers.append(number)
                else:
                    numbers.append(_whole("user", user).item())
        return np.array(numbers, dtype=np.int64)

    # Keeping what was learned.

    def save(self, path: str | os.PathLike[str], *, app: str = "python") -> None:
        """Writes what was learned to a file in the service's snapshot format: a service with one
        app of that name. :func:`cohort.load` reads it again, and a service whose data folder is
        empty starts from it (``snapshots/00000000000000000000.snapshot``).

        Policies that work in rounds only are refused: the service has none. Pickle keeps them.
        """
        if not self._native.works_one_at_a_time:
            expected = "one that works one user at a time, as the service's do; pickle keeps all"
            raise BadInput(f"policy `{self.name}`: found one that works in rounds, expected {expected}")
        names = [str(number) for number in range(self.n_users)]
        for name, number in self._names.items():
            # Somebody who was named and never decided for is not known.
            if number < len(names):
                names[number] = name
        _engine.write_snapshot(os.fspath(path), app, self._native, self.params, names)

    def __getstate__(self) -> dict[str, Any]:
        learned, users = self._native.save()
        made_again = ("_native", "_naming")
        state = {name: value for name, value in vars(self).items() if name not in made_again}
        return {**state, "_learned": learned, "_n_users": users}

    def __setstate__(self, state: dict[str, Any]) -> None:
        learned, users = state.pop("_learned"), state.pop("_n_users")
        self.__dict__.update(state)
        self._naming = threading.Lock()
        self._native = self._fresh()
        self._native.load(learned, users)


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


class Cohort(Policy):
    """The policy ``cohort``: learns cohorts, spreads and noise, and every user within them; told
    nothing. It can be asked what it has found and why it plays what it plays.

    >>> import numpy as np
    >>> policy = Cohort(dim=2)
    >>> tea, coffee = np.eye(2)
    >>> for user in ["ann", "bob", "cem"] * 9:
    ...     arm = policy.decide(user, [tea, coffee])
    ...     policy.learn(user, [tea, coffee][arm], float(arm == 0))
    >>> policy.decide("dee", [tea, coffee])  # somebody new
    0
    """

    def __init__(
        self,
        *,
        dim: int,
        users: int = 0,
        random_state: Any = 0,
        arms: Sequence[Any] | None = None,
        **params: Any,
    ) -> None:
        super().__init__(
            "cohort", dim=dim, users=users, random_state=random_state, arms=arms, **params
        )

    def explain(self, user: User, contexts: npt.ArrayLike) -> Explanation | None:
        """Why an arm is played for a user; ``None`` while nothing is known, or for somebody new."""
        number = int(self._numbers_of([user], add=False)[0])
        why = self._native.explain(number, _numbers(contexts)) if number >= 0 else None
        return None if why is None else Explanation(**why)

    def cohorts(self) -> list[CohortReport]:
        """What users have in common as of now: the population at large, then the cohorts."""
        found = self._native.cohorts()
        components = self._native.members()[1] if found else np.empty(0, dtype=np.int64)
        return [
            CohortReport(number, members=np.flatnonzero(components == number), **component)
            for number, component in enumerate(found)
        ]

    def users(self) -> list[UserReport]:
        """Every user: how much was seen of it, and where it belongs."""
        names = {number: name for name, number in self._names.items()}
        return [
            UserReport(user, names.get(user), rewards, None if cohort < 0 else cohort, share)
            for user, (rewards, cohort, share) in enumerate(
                zip(*(column.tolist() for column in self._native.members()))
            )
        ]

    def noise(self) -> tuple[float, float] | None:
        """The scale of the noise and the level of rewards as learned; ``None`` before that."""
        return self._native.noise()


def load(path: str | os.PathLike[str], app: str | None = None) -> Policy:
    """A policy from a snapshot that :meth:`Policy.save` or a service wrote. Users have their names.

    :param app: which app of the service; needed where there are several.
    """
    apps = {entry["app"]: entry for entry in _engine.read_snapshot(os.fspath(path))}
    if app is None:
        if len(apps) != 1:
            listed = ", ".join(apps) or "none"
            raise BadInput(f"{os.fspath(path)}: found the apps {listed}, expected app= to say which")
        (app,) = apps
    if app not in apps:
        raise BadInput(f"{os.fspath(path)}: there is no app `{app}`; there are: {', '.join(apps)}")
    found = apps[app]
    if found["learned"] is None:
        raise BadInput(f"{os.fspath(path)}: what policy `{found['policy']}` learns cannot be kept")
    policy: Policy
    if found["policy"] == "cohort":
        policy = Cohort(dim=found["dim"], **found["params"])
    else:
        policy = Policy(found["policy"], dim=found["dim"], **found["params"])
    policy._native.load(found["learned"], len(found["users"]))
    # Users that were forgotten have left their numbers, without a name.
    policy._names = {name: number for number, name in enumerate(found["users"]) if name}
    policy._next_number = len(found["users"])
    return policy


def _numbers(array: npt.ArrayLike) -> _Array:
    """Float64 in C order; what already is so is not copied."""
    return np.ascontiguousarray(array, dtype=np.float64)


def _whole(what: str, array: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Int64 in C order; what is not whole is refused."""
    numbers = np.asarray(array)
    if numbers.dtype.kind not in "iu":
        raise BadInput(f"{what}: found {numbers.dtype}, expected whole numbers")
    return np.ascontiguousarray(numbers, dtype=np.int64).reshape(numbers.shape)


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)
