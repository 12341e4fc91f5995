"""What came of a simulation."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cohort import _engine

__all__ = ["PolicyResult", "Result"]

_Array = npt.NDArray[np.float64]


class PolicyResult:
    """What came of one policy."""

    def __init__(self, summary: dict[str, Any], arrays: dict[str, Any], checkpoints: Any) -> None:
        self.name: str = summary["name"]
        #: Regret over all rounds, mean over users and repetitions.
        self.regret_mean: float = _number(summary["regret_mean"])
        #: Half the width of its 95 % interval; ``None`` for a single repetition.
        self.regret_ci95: float | None = summary["regret_ci95"]
        #: Learning time, summed over repetitions.
        self.seconds: float = summary["seconds"]
        #: Decisions learned from in a second of learning time.
        self.user_rounds_per_second: float = summary["user_rounds_per_second"]
        #: Regret over all rounds, for every repetition.
        self.regret_per_rep: _Array = np.array(
            [_number(regret) for regret in summary["regret_per_rep"]]
        )
        #: The regret of every round, mean over users: ``(repetitions, rounds)``.
        self.regret: _Array = arrays["regret"]
        #: The reward of every round, mean over users: ``(repetitions, rounds)``.
        self.reward: _Array = arrays["reward"]
        #: The arms played, ``(repetitions, rounds, users)``, with ``keep_arms=True``.
        self.arms: npt.NDArray[np.int64] | None = arrays["arms"]
        #: After how many rounds :attr:`clusters` and :attr:`adjusted_rand` were looked at.
        self.checkpoints: npt.NDArray[np.int64] = checkpoints
        #: How many clusters the policy had found then; NaN where it has none.
        self.clusters: _Array = arrays["clusters"]
        #: How well they agree with the true ones; NaN where nobody knows.
        self.adjusted_rand: _Array = arrays["adjusted_rand"]

    @property
    def cumulative_regret(self) -> _Array:
        """Regret up to every round, ``(repetitions, rounds)``."""
        return np.cumsum(self.regret, axis=-1)

    def __repr__(self) -> str:
        interval = "" if self.regret_ci95 is None else f" ± {self.regret_ci95:.2f}"
        return f"<{self.name}: regret {self.regret_mean:.2f}{interval}>"


class Result(Mapping[str, PolicyResult]):
    """What came of a simulation: a mapping from a policy's label to what came of it, and all of
    them as arrays. A notebook shows it as a figure and a table."""

    def __init__(self, native: dict[str, Any], order: list[str] | None = None) -> None:
        summary = json.loads(native["summary"])
        by_name = {policy["name"]: policy for policy in summary["policies"]}
        labels = order if order is not None else native["labels"]
        at = [native["labels"].index(label) for label in labels]

        def ordered(array: Any) -> Any:
            return array if array is None or at == list(range(len(at))) else array[at]

        #: The labels of the policies, in the order in which they were given.
        self.policies: list[str] = list(labels)
        #: The regret of every round, mean over users: ``(policies, repetitions, rounds)``. It is
        #: the expected regret of what was played, never that of the noisy reward.
        self.regret: _Array = ordered(native["regret"])
        #: The reward of every round, mean over users: ``(policies, repetitions, rounds)``.
        self.reward: _Array = ordered(native["reward"])
        #: The arms played, ``(policies, repetitions, rounds, users)``, with ``keep_arms=True``.
        self.arms: npt.NDArray[np.int64] | None = ordered(native["arms"])
        #: The environment, its options written out.
        self.env: dict[str, Any] = summary["env"]
        self.rounds: int = summary["rounds"]
        self.users: int = summary["users"]
        self.reps: int = summary["reps"]
        self.seed: int = summary["seed"]
        #: The experiment as a TOML file that ``simulate`` and the command line take; policies and
        #: environments that are written in Python are not in it.
        self.experiment: str = native["experiment"]
        #: The figure that notebooks show, as SVG.
        self.svg: str = native["svg"]
        summary["policies"] = [by_name[label] for label in labels]
        #: What ``cohort simulate --json`` prints.
        self.summary: dict[str, Any] = summary

        clusters, adjusted_rand = ordered(native["clusters"]), ordered(native["adjusted_rand"])
        self._results = {
            label: PolicyResult(
                by_name[label],
                {
                    "regret": self.regret[k],
                    "reward": self.reward[k],
                    "arms": None if self.arms is None else self.arms[k],
                    "clusters": clusters[k],
                    "adjusted_rand": adjusted_rand[k],
                },
                native["checkpoints"],
            )
            for k, label in enumerate(labels)
        }

    def __getitem__(self, policy: str) -> PolicyResult:
        return self._results[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    @property
    def cumulative_regret(self) -> _Array:
        """Regret up to every round, ``(policies, repetitions, rounds)``."""
        return np.cumsum(self.regret, axis=-1)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """One row for every policy, repetition and round (both from 1), as columns."""
        policies, reps, rounds = self.regret.shape
        shape = self.regret.shape
        names = np.array(self.policies, dtype=object)

        def spread(values: Any, axis: int) -> npt.NDArray[Any]:
            form = [1, 1, 1]
            form[axis] = -1
            return np.broadcast_to(np.asarray(values).reshape(form), shape).ravel()

        return {
            "policy": spread(names, 0),
            "repetition": spread(np.arange(1, reps + 1), 1),
            "round": spread(np.arange(1, rounds + 1), 2),
            "regret": self.regret.ravel(),
            "cumulative_regret": self.cumulative_regret.ravel(),
            "reward": self.reward.ravel(),
        }

    def to_pandas(self) -> Any:
        """:meth:`columns` as a pandas data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> Any:
        """:meth:`columns` as a polars data frame (needs polars)."""
        import polars

        columns = self.columns()
        columns["policy"] = columns["policy"].tolist()
        return polars.DataFrame(columns)

    def plot(self, ax: Any = None, *, reward: bool = False) -> Any:
        """Cumulative regret (or reward) against rounds, mean over repetitions with 95 % bands, on
        matplotlib axes, which are returned (needs matplotlib)."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots()
        curves = np.cumsum(self.reward, axis=-1) if reward else self.cumulative_regret
        rounds = np.arange(1, self.rounds + 1)
        for label, curve in zip(self.policies, curves):
            mean = curve.mean(axis=0)
            (line,) = ax.plot(rounds, mean, label=label)
            if self.reps > 1:
                margin = _engine.half_widths(np.ascontiguousarray(curve))
                ax.fill_between(
                    rounds, mean - margin, mean + margin, color=line.get_color(), alpha=0.2, lw=0
                )
        ax.set_xlabel("rounds")
        ax.set_ylabel("reward per user" if reward else "regret per user (reward)")
        ax.legend()
        return ax

    def __repr__(self) -> str:
        lines = [self._title()]
        lines += [f"  {result!r}" for result in self._results.values()]
        return "\n".join(lines)

    def _title(self) -> str:
        reps = "1 repetition" if self.reps == 1 else f"{self.reps} repetitions"
        return (
            f"{self.env['name']}: {self.users} users, {self.rounds} rounds, {self.env['arms']} arms"
            f" in R^{self.env['dim']}, {reps}, seed {self.seed}"
        )

    def _repr_html_(self) -> str:
        heads = ["policy", "mean regret", "95 % interval", "mean reward", "clusters", "adj. Rand"]
        rows = []
        for label, result in self._results.items():
            interval = "–" if result.regret_ci95 is None else f"± {result.regret_ci95:.2f}"
            cells = [
                html.escape(label),
                f"{result.regret_mean:.2f}",
                interval,
                f"{result.reward.mean():.4f}",
                _mean(result.clusters[:, -1:], ".1f"),
                _mean(result.adjusted_rand[:, -1:], ".2f"),
            ]
            rows.append("".join(f"<td>{cell}</td>" for cell in cells))
        head = "".join(f"<th>{cell}</th>" for cell in heads)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        figure = "" if np.isnan(self.regret).any() else self.svg
        return f"<p>{html.escape(self._title())}</p>{figure}{table}"


def _number(value: float | None) -> float:
    """A number of the summary: JSON has no NaN."""
    return float("nan") if value is None else value


def _mean(values: _Array, form: str) -> str:
    known = values[~np.isnan(values)]
    return format(known.mean(), form) if known.size else "–"

