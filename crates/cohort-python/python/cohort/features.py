"""Objects, tables and categories as features, encoded as the service does it."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cohort import _engine
from cohort.errors import BadInput

__all__ = ["Features"]


class Features:
    """Makes rows of ``dim`` numbers of whatever items, a context and a user are: words are categories, numbers are
    standardised by what was seen, booleans, lists of words are sets, lists of numbers embeddings, dictionaries
    namespaces, None a value. It is what an app with ``"features": "json"`` does, and every row begins with a constant.

    >>> features = Features(dim=16)
    >>> films = [{"genres": ["drama", "war"], "year": 1957}, {"genres": ["comedy"], "year": 1959}]
    >>> features(films).shape
    (2, 16)
    >>> [one["name"] for one in features.seen()]
    ['item.genres=drama', 'item.genres=war', 'item.year', 'item.genres=comedy']

    A table of pandas or polars is one item a row, a category a word, and a missing value None. Rows go where a policy takes
    contexts: ``policy.decide("ann", features(films))``.

    :param dim: how many numbers a row has; features share coordinates where there are more of them.
    :param seed: of the hashes by which features find their coordinates.
    :param interactions: pairs of ``"item"``, ``"context"``, ``"user"`` or namespaces whose features are multiplied by
        each other; item with context and item with user if absent.
    """

    def __init__(
        self, dim: int = 32, *, seed: int = 0, interactions: Iterable[tuple[str, str]] | None = None
    ) -> None:
        for name, value in (("dim", dim), ("seed", seed)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise BadInput(f"{name}: found {value!r}, expected a whole number")
        if not 0 <= seed < 2**64:
            raise BadInput(f"seed: found {seed}, expected a whole number from 0 to 2^64 - 1")
        self.dim = int(dim)
        self.seed = int(seed)
        self.interactions = None if interactions is None else [(str(a), str(b)) for a, b in interactions]
        self._encoder = _engine.FeatureEncoder(self.dim, self.seed, self.interactions)

    def __call__(
        self,
        items: Any,
        *,
        context: Mapping[str, Any] | None = None,
        user: Mapping[str, Any] | None = None,
        learning: bool = True,
    ) -> npt.NDArray[np.float64]:
        """One row an item.

        :param items: dictionaries, one an item; one dictionary; or a table of pandas or polars.
        :param context: the situation, the same for all items.
        :param user: what is known of the user.
        :param learning: whether names and sizes that are new are learned first. Without, nothing changes.
        """
        return self._encoder.encode(
            [_text(f"item {at}", item) for at, item in enumerate(_items(items))],
            None if context is None else _text("context", context),
            None if user is None else _text("user", user),
            learning,
        )

    def seen(self) -> list[dict[str, Any]]:
        """Every feature that was seen: its ``name`` and ``kind``, its ``coordinate`` and ``sign``, and how many features
        have that coordinate (``shared``)."""
        return self._encoder.seen()

    def weights(self, coefficients: npt.ArrayLike) -> dict[str, float]:
        """What one unit of every feature adds to a prediction with these coefficients, by name:
        ``features.weights(policy.coefficients("ann").mean)``."""
        row = np.asarray(coefficients, dtype=np.float64).ravel()
        return dict(self._encoder.weights(row.tolist()))

    def __getstate__(self) -> dict[str, Any]:
        settings = {"dim": self.dim, "seed": self.seed, "interactions": self.interactions}
        return {"settings": settings, "state": self._encoder.state()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        Features.__init__(self, **kept["settings"])
        self._encoder.restore(kept["state"])

    def __repr__(self) -> str:
        return f"Features(dim={self.dim}, seen={len(self.seen())})"


def _items(items: Any) -> Sequence[Any]:
    if isinstance(items, Mapping):
        return [items]
    if hasattr(items, "to_dicts"):  # polars
        rows: list[Any] = items.to_dicts()
        return rows
    if hasattr(items, "to_dict") and hasattr(items, "columns"):  # pandas
        if len(set(items.columns)) != len(items.columns):
            raise BadInput(f"items: found columns {list(items.columns)}, expected each name once")
        records: list[Any] = items.to_dict(orient="records")
        return [{str(name): value for name, value in record.items()} for record in records]
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise BadInput(
            f"items: found {type(items).__name__}, expected dictionaries, or a table of pandas or polars"
        )
    return list(items)


def _text(what: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise BadInput(f"{what}: found {type(value).__name__}, expected a dictionary of features")
    try:
        return json.dumps(_plain(value), allow_nan=False)
    except RecursionError:
        raise BadInput(f"{what}: found objects in objects without end, expected 8 levels at most") from None
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what}: {error}") from None


def _plain(value: Any) -> Any:
    """As JSON has it: what is missing in a table is None."""
    if isinstance(value, Mapping):
        names = {str(name): _plain(one) for name, one in value.items()}
        if len(names) != len(value):
            raise ValueError(f"found names {list(value)}, expected each once")
        return names
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(one) for one in value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        # pandas' NaT is one of them, and like nothing else.
        return None if value != value else value.isoformat()
    if type(value).__name__ == "NAType":
        return None
    return value
