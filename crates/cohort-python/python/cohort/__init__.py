"""Decide for many users at once, and learn across them: collaborative linear bandits.

- :func:`simulate` compares policies in an environment, :func:`arena` in all protocols of the field,
  :func:`reproduce` runs the paper's evaluation;
- :func:`evaluate` estimates from a log what other policies would have earned;
- :class:`Policy` and :class:`Cohort` are policies to drive from a loop of your own;
- :func:`maximal_cluster` finds which points hang together;
- :class:`Client` talks to the service, :class:`AsyncClient` does from :mod:`asyncio`.

Everything is computed by the engine in Rust that the command ``cohort`` has, without the interpreter
lock: the same seed gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cohort import _engine
from cohort._engine import __version__
from cohort.aio import AsyncClient
from cohort.client import Client, Decision
from cohort.environment import Environment, World
from cohort.errors import BadInput, CohortError, Failed, ServiceError
from cohort.evaluation import Estimate, Evaluation, PolicyEvaluation, evaluate
from cohort.features import Features
from cohort.guests import EnvironmentLike, PolicyLike, Problem
from cohort.leaderboard import Leaderboard, arena
from cohort.policy import (
    Choice,
    Coefficients,
    Cohort,
    CohortReport,
    Explanation,
    Judgement,
    Policy,
    UserReport,
    load,
)
from cohort.reproduction import Claim, Report, reproduce
from cohort.result import PolicyResult, Result
from cohort.simulation import Contender, simulate

__all__ = [
    "AsyncClient",
    "BadInput",
    "Choice",
    "Claim",
    "Client",
    "Coefficients",
    "Cohort",
    "CohortError",
    "CohortReport",
    "Contender",
    "Decision",
    "Environment",
    "EnvironmentLike",
    "Estimate",
    "Evaluation",
    "Explanation",
    "Failed",
    "Features",
    "Judgement",
    "Leaderboard",
    "Policy",
    "PolicyEvaluation",
    "PolicyLike",
    "PolicyResult",
    "Problem",
    "Report",
    "Result",
    "ServiceError",
    "UserReport",
    "World",
    "__version__",
    "arena",
    "environments",
    "evaluate",
    "load",
    "maximal_cluster",
    "policies",
    "reproduce",
    "simulate",
]


def maximal_cluster(
    points: npt.ArrayLike, gamma: float, min_share: float = 0.0
) -> npt.NDArray[np.int64]:
    """MAXIMAL-CLUSTER, Algorithm 3 of the paper, exactly: the cluster of every point, numbered by
    smallest member.

    >>> maximal_cluster([[0.0], [0.1], [5.0], [0.2], [9.0]], gamma=0.15).tolist()
    [0, 0, 1, 0, 2]

    :param points: ``(points, coordinates)``; float64 in C order is not copied.
    :param gamma: points this close to each other are in one cluster.
    :param min_share: clusters with fewer than this share of all points become one.
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    return _engine.maximal_cluster(points, float(gamma), float(min_share))


def policies() -> list[dict[str, Any]]:
    """All policies: name, summary, reference, and parameters with default, range and meaning."""
    return _engine.policies()


def environments() -> list[dict[str, Any]]:
    """All environments: name, summary, and options with default, range and meaning."""
    return _engine.environments()
