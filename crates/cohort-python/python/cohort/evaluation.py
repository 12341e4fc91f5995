"""What would another policy have earned, by a log of decisions?"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from cohort import _engine
from cohort.errors import BadInput
from cohort.policy import Policy

__all__ = ["Estimate", "Evaluation", "PolicyEvaluation", "evaluate"]

#: Who is judged: a name, a policy whose parameters are meant, or probabilities ``(rows, candidates)``.
Judged = Union[str, Policy, npt.ArrayLike]


class Estimate(NamedTuple):
    """What one estimator says of a policy: the mean reward of a decision."""

    #: The estimate; ``None`` where no row tells anything.
    value: float | None
    #: The lower end of the 95 % interval.
    low: float | None
    #: Its upper end.
    high: float | None
    #: How many rows count.
    rows: int


class PolicyEvaluation(NamedTuple):
    """What a log says of one policy."""

    #: The policy.
    policy: str
    #: One estimate for each estimator, by name.
    estimates: dict[str, Estimate]
    #: As many rows with equal weights would tell as much; ``None`` where nothing is weighed.
    effective_rows: float | None
    #: What should make one careful, in sentences.
    warnings: list[str]


class Evaluation:
    """What a log says of some policies: ``evaluation["random"].estimates["snips"].value``."""

    def __init__(self, said: dict[str, Any], labels: Sequence[str]) -> None:
        #: How many decisions with a reward the log has.
        self.rows: int = said["rows"]
        #: How many without were left out.
        self.unrewarded: int = said["unrewarded"]
        #: How many were left out because it is not known among how many items they were made.
        self.unknown_choices: int = said["unknown_choices"]
        #: How many items were ever offered.
        self.items: int = said["items"]
        #: How many users there are.
        self.users: int = said["users"]
        #: One for each policy, in the order in which they were given.
        self.policies = [_of(label, one) for label, one in zip(labels, said["policies"])]

    def __getitem__(self, policy: str) -> PolicyEvaluation:
        for one in self.policies:
            if one.policy == policy:
                return one
        known = ", ".join(repr(one.policy) for one in self.policies)
        raise KeyError(f"{policy!r}; there are: {known}")

    def records(self) -> list[dict[str, Any]]:
        """One dictionary for each policy and estimator."""
        return [
            {
                "policy": one.policy,
                "estimator": name,
                **estimate._asdict(),
                "effective_rows": None if name == "replay" else one.effective_rows,
            }
            for one in self.policies
            for name, estimate in one.estimates.items()
        ]

    def to_pandas(self) -> Any:
        """The same as a pandas table."""
        import pandas

        return pandas.DataFrame(self.records())

    def __repr__(self) -> str:
        lines = [f"{self.rows} decisions with a reward, {self.items} items, {self.users} users"]
        for row in self.records():
            value, low, high = (
                "–" if row[name] is None else f"{row[name]:.5f}" for name in ("value", "low", "high")
            )
            lines.append(f"{row['policy']:<16} {row['estimator']:<7} {value} ({low} to {high})")
        lines += [f"warning: {one.policy}: {why}" for one in self.policies for why in one.warnings]
        return "\n".join(lines)


def evaluate(
    log: Any,
    policies: Judged | Sequence[Judged] | Mapping[str, Judged] = ("logged", "random"),
    *,
    estimators: Iterable[str] = ("replay", "ips", "snips", "dr"),
    seed: int = 0,
) -> Evaluation:
    """Estimates from a log what other policies would have earned, with intervals. What the estimators
    assume is said in ``docs/evaluate.md``; the figures are those of ``cohort evaluate``.

    >>> log = {"item": ["tea", "milk"] * 50, "reward": [1, 0] * 50, "propensity": [0.5] * 100}
    >>> judged = evaluate(log, ["random", "item=tea"], estimators=["snips"])
    >>> judged["random"].estimates["snips"].value, judged["item=tea"].estimates["snips"].value
    (0.5, 1.0)

    :param log: a file (CSV, also packed with gzip, or Parquet: what a service exports), a pandas or
        polars table, or a dictionary of columns. ``item`` and ``reward`` must be there;
        ``propensity``, ``candidates``, ``user``, ``features`` (those of all candidates), ``context``,
        ``position`` and ``decided_ms`` are used where they are.
    :param policies: ``"logged"``, ``"random"``, ``"item=ID"``, the name of a policy that learns, a
        :class:`Policy` (its parameters are meant: it learns this log from the beginning, and is not
        changed), or probabilities of your own, ``(rows, candidates)``; a dictionary gives them labels.
    :param estimators: some of ``replay``, ``ips``, ``snips``, ``dr``.
    :param seed: what ``replay`` draws, it draws from this.
    """
    named = _named(policies)
    wanted: list[tuple[str, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory(prefix="cohort-") as folder:
        for judged in named.values():
            wanted.append(_wanted(judged, Path(folder) / f"{len(wanted)}.npy"))
        if isinstance(log, (str, os.PathLike)):
            path = os.fspath(log)
        else:
            path = str(Path(folder) / "log.csv")
            _write(log, path)
        said = json.loads(_engine.evaluate(path, wanted, list(estimators), seed))
    return Evaluation(said, list(named))


def _of(label: str, said: dict[str, Any]) -> PolicyEvaluation:
    estimates = {
        one["estimator"]: Estimate(one["value"], one["low"], one["high"], one["rows"])
        for one in said["estimates"]
    }
    weights = said["weights"]
    effective = None if weights is None else weights["effective_rows"]
    return PolicyEvaluation(label, estimates, effective, said["warnings"])


def _named(policies: Any) -> dict[str, Judged]:
    if isinstance(policies, Mapping):
        return dict(policies)
    if isinstance(policies, (str, Policy, np.ndarray)):
        policies = [policies]
    named: dict[str, Judged] = {}
    for one in policies:
        label = one if isinstance(one, str) else one.name if isinstance(one, Policy) else "array"
        if label in named:
            raise BadInput(f"policies: found two called {label!r}, expected a dictionary of labels")
        named[label] = one
    return named


def _wanted(judged: Judged, path: Path) -> tuple[str, dict[str, Any]]:
    if isinstance(judged, str):
        return judged, {}
    if isinstance(judged, Policy):
        return judged.name, judged.params
    np.save(path, np.ascontiguousarray(judged, dtype=np.float64))
    return f"file={path}", {}


#: Columns that are lists, written as JSON.
_LISTS = ("candidates", "features", "context")


def _write(log: Any, path: str) -> None:
    """A table as the CSV that a log is."""
    names = [str(name) for name in getattr(log, "columns", log)]
    columns = {name: _cells(name, log[name]) for name in names}
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        raise BadInput(f"log: found columns of {sorted(lengths)} cells, expected as many in each")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))


def _cells(name: str, column: Any) -> list[Any]:
    cells = column.tolist() if hasattr(column, "tolist") else list(column)
    if name in _LISTS:
        return [_as_json(name, cell) for cell in cells]
    # A number that is not one is a cell with nothing in it.
    return ["" if cell is None or cell != cell else cell for cell in cells]


def _as_json(name: str, cell: Any) -> str:
    if cell is None or isinstance(cell, str) or (isinstance(cell, float) and cell != cell):
        return cell if isinstance(cell, str) else ""
    if name == "candidates":
        return json.dumps([str(one) for one in cell])
    return json.dumps(np.asarray(cell, dtype=np.float64).ravel().tolist())
