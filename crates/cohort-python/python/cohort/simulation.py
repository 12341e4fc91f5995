"""Policies in an environment, compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Union

from cohort import _engine
from cohort.environment import Environment
from cohort.errors import BadInput
from cohort.guests import EnvironmentLike, PolicyLike
from cohort.policy import Policy
from cohort.progress import Progress, watcher
from cohort.result import Result

__all__ = ["Contender", "simulate"]


class Contender:
    """A policy that takes part in a simulation, under a label and with parameters of its own:
    ``Contender("linucb-ind", label="narrow", exploration=0.1)``."""

    def __init__(self, name: str, *, label: str | None = None, **params: Any) -> None:
        self.name = name
        self.label = label
        self.params = params

    def __repr__(self) -> str:
        label = "" if self.label is None else f", label={self.label!r}"
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"Contender({self.name!r}{label}{params})"


_Seat = Union[str, Contender, Policy, PolicyLike, type]


def simulate(
    env: str | os.PathLike[str] | Environment | EnvironmentLike | None = None,
    policies: str | _Seat | Iterable[_Seat] | Mapping[str, _Seat] | None = None,
    *,
    rounds: int | None = None,
    reps: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    keep_arms: bool = False,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Result:
    """Runs policies in an environment and compares their regret, as ``cohort simulate`` does, with
    the same bits for the same seed on any number of threads.

    >>> import cohort
    >>> result = cohort.simulate("clustered", ["linucb-ind", "oracle"], users=20, rounds=50, reps=2)
    >>> result.regret.shape
    (2, 2, 50)

    :param env: where they play: the name of an environment (``cohort.environments()`` lists them; by
        default ``clustered``), a :class:`cohort.Environment`, an experiment file (``*.toml``), or an
        environment of your own: an object with ``contexts(t)`` and ``rewards(t, arms)``
        (:class:`cohort.EnvironmentLike`).
    :param policies: who plays: names as on the command line (``"linucb-ind,narrow=linucb-ind"``), or
        a list, or a dictionary by label, of names, of :class:`cohort.Contender`, of
        :class:`cohort.Policy` (of which the name and the parameters count, not what it has learned),
        and of policies of your own: an object with ``choose`` and ``learn``
        (:class:`cohort.PolicyLike`), of which every repetition gets a deep copy, or a class or
        function that makes one when it is called with a :class:`cohort.Problem`.
    :param rounds: how many rounds are played.
    :param reps: how many repetitions, each in a world of its own.
    :param seed: all randomness follows from it.
    :param threads: how many threads; by default all cores, and one where something is written in
        Python.
    :param out: a folder to write all results to, as Parquet, CSV and JSON.
    :param keep_arms: whether to keep the arms that were played.
    :param progress: ``None`` shows progress in a terminal and in a notebook, ``False`` never; or a
        function of what is done, what is planned, and what it is at.
    :param options: options of the environment, such as ``users`` and ``noise``; parameters of
        policies by ``"NAME.PARAM"``, as in ``**{"cmlb.alpha": 0.2}``.
    """
    file, place, options = _place(env, options)
    assigned = {name: options.pop(name) for name in list(options) if "." in name}
    seats, labels = _seats(policies)
    _assign(seats, assigned)
    run = {"rounds": rounds, "reps": reps, "seed": seed, "threads": threads, "out": out}
    tell, clear = watcher(progress)
    try:
        native = _engine.simulate(file, place, options, seats, run, keep_arms, tell)
    finally:
        clear()
    return Result(native, labels)


def _place(env: Any, options: dict[str, Any]) -> tuple[str | None, Any, dict[str, Any]]:
    """An experiment file, the place for the engine, and its options."""
    if env is None:
        return None, None, options
    if isinstance(env, os.PathLike) or (isinstance(env, str) and env.endswith(".toml")):
        return os.fspath(env), None, options
    if isinstance(env, str):
        env = Environment(env)
    if isinstance(env, Environment):
        place, options = Environment(env.name, **{**env.options, **options})._described()
        return None, place, options
    if not isinstance(env, EnvironmentLike):
        expected = "a name, an Environment, or an object with contexts(t) and rewards(t, arms)"
        raise BadInput(f"env: found {type(env).__name__}, expected {expected}")
    users = options.pop("users", getattr(env, "users", None))
    if users is None:
        raise BadInput("env: found no attribute `users`, expected it, or simulate(…, users=N)")
    return None, (env, int(users)), options


def _seats(policies: Any) -> tuple[list[Any], list[str] | None]:
    """Who plays, for the engine, and their labels in the order given."""
    if policies is None:
        return [], None
    if isinstance(policies, str):
        policies = [entry.strip() for entry in policies.split(",")]
    elif isinstance(policies, Mapping):
        policies = [_labelled(label, entry) for label, entry in policies.items()]
    elif isinstance(policies, (Contender, Policy, PolicyLike, type)):
        policies = [policies]
    seats = [_seat(entry) for entry in policies]
    if not seats:
        raise BadInput("policies: found none, expected one or more")
    return seats, [seat[0] if seat[0] is not None else seat[1] for seat in seats]


def _labelled(label: str, entry: Any) -> Any:
    if isinstance(entry, str):
        return Contender(entry, label=label)
    if isinstance(entry, (Contender, Policy)):
        return Contender(entry.name, label=label, **entry.params)
    return _Guest(label, entry)


class _Guest:
    def __init__(self, label: str, policy: Any) -> None:
        self.label = label
        self.policy = policy


def _seat(entry: Any) -> tuple[Any, ...]:
    if isinstance(entry, str):
        label, equals, name = entry.partition("=")
        entry = Contender(name, label=label) if equals else Contender(entry)
    elif isinstance(entry, Policy):
        entry = Contender(entry.name, **entry.params)
    if isinstance(entry, Contender):
        return entry.label, entry.name, dict(entry.params)
    guest = entry if isinstance(entry, _Guest) else _Guest(_name_of(entry), entry)
    if not callable(guest.policy) and not isinstance(guest.policy, PolicyLike):
        expected = "a name, a Contender, a Policy, or an object with `choose` and `learn`"
        raise BadInput(f"policies: found {type(guest.policy).__name__}, expected {expected}")
    return guest.label, guest.policy


def _name_of(policy: Any) -> str:
    name = getattr(policy, "name", None) or getattr(policy, "__name__", None)
    return name if isinstance(name, str) else type(policy).__name__


def _assign(seats: list[Any], assigned: dict[str, Any]) -> None:
    """Parameters by "NAME.PARAM"; NAME is a label, or a name and then meant for all of that name."""
    for key, value in assigned.items():
        policy, _, param = key.rpartition(".")
        registered = [seat for seat in seats if len(seat) == 3]
        meant = [seat for seat in registered if seat[0] == policy]
        meant = meant or [seat for seat in registered if seat[1] == policy]
        if not meant:
            playing = ", ".join(seat[0] or seat[1] for seat in registered)
            expected = f"one of the policies that play: {playing}"
            raise BadInput(f"{key}: found {policy}, expected {expected}")
        for seat in meant:
            seat[2][param] = value
