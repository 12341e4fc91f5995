"""Every policy as an object to drive from a loop of your own."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Union, overload

import numpy as np
import numpy.typing as npt

from cohort import _engine
from cohort.errors import BadInput
from cohort.mabwiser import Conventions
from cohort.parameters import Parameters
from cohort.reports import Choice, Coefficients, CohortReport, Explanation, Judgement, UserReport

__all__ = [
    "Choice",
    "Coefficients",
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


class Policy(Conventions, Parameters):
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
    >>> policy.learn(user="ann", x=contexts[arm], reward=1.0)

    With ``k`` or ``epsilon``, :meth:`decide` says more: how likely the arm was, and the best ones.

    >>> choice = policy.decide("ann", contexts, k=2, epsilon=0.1)
    >>> choice.arm in choice.ranking, round(float(choice.probabilities.sum()), 9)
    (True, 1.0)

    And in the manner of MABWiser: :meth:`fit`, :meth:`partial_fit`, :meth:`predict`,
    :meth:`predict_expectations`.

    :param name: one of ``cohort.policies()``.
    :param dim: how many numbers a context has.
    :param users: how many users there are; where users come one at a time, more may come.
    :param rounds: how many rounds will be played; some policies need it.
    :param random_state: from which policies that draw random numbers draw them: a number or a
        numpy generator.
    :param arms: names of the arms, for the methods in the manner of MABWiser.
    :param max_arms: how many arms there may ever be where each has a model of its own, so that
        :meth:`add_arm` has room; as many as ``arms`` unless told.
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
        max_arms: int | None = None,
        thetas: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
        **params: Any,
    ) -> None:
        self._given = {
            "name": name,
            "dim": dim,
            "users": users,
            "rounds": rounds,
            "random_state": random_state,
            "arms": arms,
            "max_arms": max_arms,
            "thetas": thetas,
            "clusters": clusters,
            **params,
        }
        self.name = name
        self.dim = _count("dim", dim, 1)
        self.params = {key: value for key, value in params.items() if value is not None}
        self.rounds = None if rounds is None else _count("rounds", rounds, 1)
        self.seed = _seed(random_state)
        self._name_arms(arms, max_arms)
        self._users_told = _count("users", users, 0)
        self._thetas = None if thetas is None else _numbers(thetas)
        self._clusters = None if clusters is None else np.asarray(clusters).tolist()
        self._forget()

    def _forget(self) -> None:
        """As it was when it was made."""
        self._names: dict[str, int] = {}
        self._next_number = 0
        self._naming = threading.Lock()
        self._draws = np.random.default_rng(self.seed)
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

    @overload
    def learn(self, user: User, x: npt.ArrayLike, reward: float) -> None: ...

    @overload
    def learn(
        self, contexts: npt.ArrayLike, arms: npt.ArrayLike, rewards: npt.ArrayLike
    ) -> None: ...

    def learn(self, *what: Any, **named: Any) -> None:
        """What came of it. ``learn(contexts, arms, rewards)`` for a round: ``rewards[i]`` is user
        ``i``'s answer to ``arms[i]``. ``learn(user, x, reward)`` for one user: one reward for the
        context ``x`` that was played. Arguments may be named."""
        turn, round_ = ("user", "x", "reward"), ("contexts", "arms", "rewards")
        if named:
            names = turn if any(name in turn for name in named) else round_
        else:
            names = turn if what and (isinstance(what[0], str) or np.ndim(what[0]) == 0) else round_
        given = dict(zip(names, what))
        if len(what) > 3 or given.keys() & named.keys() or {*given, *named} != set(names):
            found = f"{len(what)} arguments" + "".join(f", {name}=" for name in named)
            expected = "learn(contexts, arms, rewards) or learn(user, x, reward)"
            raise BadInput(f"learn: found {found}, expected {expected}")
        first, second, third = ({**given, **named}[name] for name in names)
        if names is turn:
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

    @overload
    def decide(self, user: User, contexts: npt.ArrayLike) -> int: ...

    @overload
    def decide(
        self, user: User, contexts: npt.ArrayLike, *, k: int, epsilon: float = 0.0
    ) -> Choice: ...

    @overload
    def decide(
        self, user: User, contexts: npt.ArrayLike, *, k: int | None = None, epsilon: float
    ) -> Choice: ...

    def decide(
        self,
        user: User,
        contexts: npt.ArrayLike,
        *,
        k: int | None = None,
        epsilon: float | None = None,
    ) -> int | Choice:
        """An arm for one user among ``contexts``, ``(arms, dim)``.

        :param k: how many of the best arms are told; then a :class:`Choice` comes back, which has the
            probability with which the arm was chosen.
        :param epsilon: the share of decisions that are drawn from all arms alike, so that a log of
            them can judge other policies (:func:`cohort.evaluate`); this gives a :class:`Choice` too.
        """
        users = self._numbers_of([user], add=True)
        offer = _numbers(contexts)
        if k is None and epsilon is None:
            return int(self._native.decide(users, offer)[0])
        return self._choice(int(users[0]), offer, k, 0.0 if epsilon is None else float(epsilon))

    def _choice(self, user: int, offer: _Array, k: int | None, epsilon: float) -> Choice:
        if not 0.0 <= epsilon <= 1.0:
            raise BadInput(f"epsilon: found {epsilon}, expected a share from 0 to 1")
        with self._naming:
            seed, drawn = int(self._draws.integers(2**63)), float(self._draws.random())
        expected, bonus, chances = self._native.appraise(user, offer, seed)
        score = expected + bonus
        if chances is None:
            # As the service does: those that are equally good are equally likely.
            best = score == score.max()
            chances = best / best.sum()
        probabilities = epsilon / len(score) + (1.0 - epsilon) * chances
        probabilities /= probabilities.sum()
        arm = int(np.searchsorted(probabilities.cumsum(), drawn, side="right"))
        if arm >= len(score) or probabilities[arm] == 0.0:
            # The sum of all of them was rounded to less than was drawn.
            arm = int(probabilities.argmax())
        others = np.argsort(-score, kind="stable")
        ranking = np.concatenate(([arm], others[others != arm])).astype(np.int64)
        shown = len(score) if k is None else _count("k", k, 1)
        return Choice(arm, float(probabilities[arm]), ranking[:shown], probabilities, expected, bonus)

    def judge(self, user: User, contexts: npt.ArrayLike) -> Judgement:
        """What the policy thinks of every arm for one user. Nothing that was learned changes."""
        expected, bonus = self._native.judge(self._numbers_of([user], add=False), _numbers(contexts))
        return Judgement(expected[0], bonus[0])

    def coefficients(self, user: User | None = None) -> Coefficients:
        """What is known of a user's vector: a mean and a standard deviation for each feature, NaN for
        somebody of whom nothing is known. Without ``user`` those of all users, ``(users, dim)``.
        Policies that learn one vector a user have them (``linucb-ind``, ``cohort``)."""
        users = np.arange(self.n_users) if user is None else self._numbers_of([user], add=False)
        found = self._native.coefficients(users)
        if found is None:
            expected = "one that tells, such as `linucb-ind` or `cohort`"
            raise BadInput(f"policy `{self.name}` does not tell its users' vectors, expected {expected}")
        mean, deviation = found
        return Coefficients(mean, deviation) if user is None else Coefficients(mean[0], deviation[0])

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
                    numbers.append(_user_number(user))
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
        # Of one that an earlier version pickled.
        if "_given" not in state:
            self._given = {"name": self.name, "dim": self.dim, "users": self._users_told}
            self._given |= {"arms": self.arms, "random_state": self.seed, **self.params}
            self._draws = np.random.default_rng(self.seed)
            self._name_arms(self.arms, None)
        self._naming = threading.Lock()
        self._native = self._fresh()
        self._native.load(learned, users)


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
        max_arms: int | None = None,
        **params: Any,
    ) -> None:
        super().__init__(
            "cohort",
            dim=dim,
            users=users,
            random_state=random_state,
            arms=arms,
            max_arms=max_arms,
            **params,
        )
        # What this class takes, and no more.
        for name in ("name", "rounds", "thetas", "clusters"):
            self._given.pop(name)

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
    if not os.path.exists(path):
        raise BadInput(f"{os.fspath(path)}: there is no such file")
    if os.path.isdir(path):
        raise BadInput(f"{os.fspath(path)}: found a folder, expected a snapshot (in a service's data: snapshots/…)")
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
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as why:
        hint = "cohort.Features makes them of words, categories, tables and dictionaries"
        raise BadInput(f"found what is no number ({why}), expected numbers: {hint}") from None


def _whole(what: str, array: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Int64 in C order; what is not whole is refused."""
    numbers = np.asarray(array)
    if numbers.dtype.kind not in "iu":
        raise BadInput(f"{what}: found {numbers.dtype}, expected whole numbers")
    return np.ascontiguousarray(numbers, dtype=np.int64).reshape(numbers.shape)


def _count(what: str, number: Any, least: int) -> int:
    """A whole number that is large enough."""
    try:
        count = operator.index(number)
    except TypeError:
        count = None
    if count is None or count < least or count >= 2**31:
        raise BadInput(f"{what}: found {number!r}, expected a whole number, {least} or more")
    return count


def _user_number(user: Any) -> int:
    try:
        return operator.index(user)
    except TypeError:
        expected = "a number from 0 on, or a name: any string"
        raise BadInput(f"user: found {user!r}, expected {expected}") from None


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)
