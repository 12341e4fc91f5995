"""The arena: every policy, and your own, in the protocols by which collaborative bandits are compared."""

from __future__ import annotations

import html
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from cohort import _engine
from cohort.errors import BadInput
from cohort.progress import Progress, watcher
from cohort.simulation import _seats

__all__ = ["Leaderboard", "arena"]

#: What one run may take where nobody says, as on the command line.
_SECONDS = {True: 5.0, False: 600.0}


class Leaderboard:
    """What came of it: standings, and a page, tables and figures in a folder."""

    def __init__(self, native: dict[str, Any]) -> None:
        #: ``leaderboard.json`` as it is: ``mode``, ``reps``, ``standings``, ``protocols`` and more.
        self.numbers: dict[str, Any] = json.loads(native["leaderboard"])
        #: The page, ``index.html``.
        self.page = pathlib.Path(native["page"])
        #: The folder of the page, the figures and the numbers.
        self.folder = pathlib.Path(native["folder"])

    @property
    def published(self) -> list[dict[str, Any]]:
        """The standings at published parameters, best first."""
        return list(self.numbers["standings"]["published"])

    @property
    def tuned(self) -> list[dict[str, Any]]:
        """The standings at the best of a common tuning budget, best first."""
        return list(self.numbers["standings"]["tuned"])

    def rank(self, policy: str) -> float:
        """The mean rank of a policy at published parameters; 1 is best."""
        for standing in self.published:
            if standing["policy"] == policy:
                return float(standing["mean_rank"])
        played = ", ".join(standing["policy"] for standing in self.published)
        raise BadInput(f"policy: found `{policy}`, expected one that was ranked: {played}")

    def __repr__(self) -> str:
        lines = [
            f"{standing['mean_rank']:5.1f}  {standing['policy']:<18} beats {standing['win_rate']:4.0%},"
            f" {standing['relative_regret']:.2f} × the best, in {standing['protocols']} protocols"
            for standing in self.published
        ]
        lines += [f"{left['protocol']} was not played: {left['why']}" for left in self.numbers["left_out"]]
        return "\n".join(["mean rank at published parameters", *lines, f"page: {self.page}"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{standing['mean_rank']:.1f}</td><td>{html.escape(standing['policy'])}</td>"
            f"<td>{standing['win_rate']:.0%}</td><td>{standing['relative_regret']:.2f}</td></tr>"
            for standing in self.published
        )
        head = "<tr><th>mean rank</th><th>policy</th><th>wins</th><th>relative regret</th></tr>"
        return f"<table>{head}{rows}</table><p>{html.escape(str(self.page))}</p>"


def arena(
    policies: Any = None,
    *,
    quick: bool = True,
    only: str | Iterable[str] = (),
    out: str | os.PathLike[str] = "arena",
    data: str | os.PathLike[str] | None = None,
    reps: int | None = None,
    threads: int | None = None,
    seconds: float | None = None,
    tune: int | None = None,
    progress: bool | Progress | None = None,
) -> Leaderboard:
    """Plays policies in the protocols of the arena, in the same worlds, and writes the leaderboard, as
    ``cohort arena`` does. ``cohort.arena(MyPolicy)`` plays yours beside all that the registry has.

    :param policies: policies of your own (a class, a function or an object, as for
        :func:`cohort.simulate`), names of the registry, or both; all of the registry play unless some
        are named. A policy in Python plays in protocols where all users see the same arms.
    :param quick: fewer rounds, users and repetitions.
    :param only: only protocols whose names begin so: ``clusters``, ``fclub``, ….
    :param out: the folder of the page. Runs of the registry's policies are kept there: the next call
        plays only what is new.
    :param data: the folder of data sets, for protocols that need one.
    :param reps: another number of repetitions than the protocols'.
    :param threads: how many threads; by default all cores, and one where a policy is written in Python.
    :param seconds: what one run of one policy may take of a processor; 5 by default, 600 where not quick.
    :param tune: how many values besides the published one policies are tuned among.
    :param progress: as for :func:`cohort.simulate`.
    """
    seats = [] if policies is None else _seats(policies)[0]
    if any(len(seat) == 3 and (seat[0] is not None or seat[2]) for seat in seats):
        expected = "names alone: experiments/arena/policies.toml has their parameters"
        raise BadInput(f"policies: found a label or parameters of the registry's, expected {expected}")
    names = [seat[1] for seat in seats if len(seat) == 3]
    guests = [seat for seat in seats if len(seat) == 2]
    protocols = [only] if isinstance(only, str) else list(only)
    folder = None if data is None else os.fspath(data)
    limit = _SECONDS[quick] if seconds is None else float(seconds)
    tell, clear = watcher(progress)
    try:
        native = _engine.arena(
            quick, protocols, names, guests, os.fspath(out), folder, reps, threads, limit, tune, tell
        )
    finally:
        clear()
    return Leaderboard(native)
