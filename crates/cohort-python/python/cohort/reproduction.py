"""The paper's whole evaluation, and a verdict on every claim."""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from cohort import _engine
from cohort.progress import Progress, watcher

__all__ = ["Claim", "Report", "reproduce"]


class Claim(NamedTuple):
    """Something the paper says, and whether it held."""

    id: str
    #: The study that decides it.
    study: str
    #: In the paper's words.
    statement: str
    #: Where it is said.
    place: str
    #: How it is decided.
    rule: str
    #: ``reproduced``, ``partly``, ``not``, ``not reached``, ``undecided`` or ``not run``.
    verdict: str
    #: Why, in one sentence.
    why: str
    #: The numbers behind it.
    numbers: list[str]


class Report:
    """What came of it: claims, figures and tables in a folder, and a page that opens offline."""

    def __init__(self, native: dict[str, Any], studies: list[str]) -> None:
        claims = (Claim(**claim) for claim in native["claims"])
        #: Every claim that the studies asked for decide.
        self.claims = [
            claim
            for claim in claims
            if not studies or any(claim.study.startswith(study) for study in studies)
        ]
        #: The page, ``index.html``.
        self.page = pathlib.Path(native["page"])
        #: The folder of figures, tables and the page.
        self.folder = pathlib.Path(native["folder"])
        #: Studies that could not be run: name, title and why.
        self.left_out: list[tuple[str, str, str]] = native["left_out"]

    def figures(self) -> list[pathlib.Path]:
        """All figures as SVG files."""
        return sorted((self.folder / "figures").glob("*.svg"))

    def tables(self) -> dict[str, pathlib.Path]:
        """The numbers behind the figures: CSV files by name, such as ``fig1-curves``."""
        return {path.stem: path for path in sorted((self.folder / "data").glob("*.csv"))}

    def __repr__(self) -> str:
        lines = [f"{claim.verdict:<12} {claim.statement} ({claim.place})" for claim in self.claims]
        lines += [f"{name} was not run: {why}" for name, _, why in self.left_out]
        return "\n".join([*lines, f"report: {self.page}"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{claim.verdict}</td><td style='text-align:left'>“{html.escape(claim.statement)}”"
            f" ({html.escape(claim.place)})<br>{html.escape(claim.why)}</td></tr>"
            for claim in self.claims
        )
        return f"<table>{rows}</table><p>{html.escape(str(self.page))}</p>"


def reproduce(
    only: str | Iterable[str] = (),
    *,
    quick: bool = True,
    out: str | os.PathLike[str] = "report",
    data: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    reps: int | None = None,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Report:
    """Runs the paper's evaluation, or goes on where it was interrupted, and writes the report, as
    ``cohort reproduce`` does.

    :param only: only studies whose names begin so: ``fig1``, ``fig2``, ``fig3``, ``scaling``,
        ``runtime``.
    :param quick: fewer repetitions and a smaller grid, about a minute; ``False`` runs all that the
        paper has, for hours.
    :param out: the folder of the report.
    :param data: the folder of data sets, for ``fig3``.
    :param seed: another seed than the experiments'.
    :param reps: another number of repetitions than the experiments'.
    :param threads: how many threads; by default all cores.
    :param progress: as for :func:`cohort.simulate`.
    """
    studies = [only] if isinstance(only, str) else list(only)
    folder = None if data is None else os.fspath(data)
    tell, clear = watcher(progress)
    try:
        native = _engine.reproduce(
            quick, studies, os.fspath(out), folder, seed, reps, threads, tell
        )
    finally:
        clear()
    return Report(native, studies)
