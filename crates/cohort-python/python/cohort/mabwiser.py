"""The conventions of MABWiser: ``fit``, ``partial_fit``, ``predict``, ``predict_expectations``.

Existing code that calls these on a contextual ``MAB`` can call them on a :class:`cohort.Policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cohort.errors import BadInput

if TYPE_CHECKING:
    from typing_extensions import Self

    from cohort import _engine
    from cohort.policy import User

__all__ = ["Conventions"]


class Conventions:
    """What arms look like follows from the shape of ``contexts``:

    - ``(rows, arms, dim)``: an offer for every row;
    - ``(arms, dim)``: the same offer for all rows;
    - ``(rows, n)`` with ``dim == len(arms) * n``: one context a row and a model for each arm, as
      MABWiser has it. Arm k's vector is the row's context in the k-th block and zero elsewhere, so
      a policy for MABWiser's code is ``Policy(name, dim=len(arms) * n, arms=[…])``.

    ``users`` says which user each row is about. Without it every row is about the same user where
    the policy was made for one user or for none, and row i about user i where there are as many
    rows as users.
    """

    name: str
    dim: int
    arms: list[Any] | None
    _users_told: int
    _native: _engine.Learner

    if TYPE_CHECKING:

        def _forget(self) -> None: ...

        def _numbers_of(
            self, users: Iterable[User], *, add: bool
        ) -> npt.NDArray[np.int64]: ...

    def fit(
        self,
        decisions: npt.ArrayLike | Sequence[Any],
        rewards: npt.ArrayLike,
        contexts: npt.ArrayLike,
        users: Iterable[User] | None = None,
    ) -> Self:
        """Forgets everything and learns from these rows."""
        self._forget()
        return self.partial_fit(decisions, rewards, contexts, users)

    def partial_fit(
        self,
        decisions: npt.ArrayLike | Sequence[Any],
        rewards: npt.ArrayLike,
        contexts: npt.ArrayLike,
        users: Iterable[User] | None = None,
    ) -> Self:
        """Learns from these rows: the arm that was played, its reward, and what was on offer."""
        played = self._arm_numbers(decisions)
        rewards = np.ascontiguousarray(rewards, dtype=np.float64)
        offers = self._offers(contexts, rows=len(played))
        arms = offers.shape[-2]
        if played.size and not (0 <= played.min() and played.max() < arms):
            raise BadInput(f"decisions: found {played.max()}, expected 0 to {arms - 1}")
        if not self._native.works_one_at_a_time:
            if offers.ndim == 3:
                expected = "the same contexts (arms, dim) for all users"
                raise BadInput(f"policy `{self.name}` works in rounds: expected {expected}")
            self._native.learn(offers, played, rewards)
            return self
        numbers = self._rows(users, len(played), add=True)
        rows = offers[played] if offers.ndim == 2 else offers[np.arange(len(played)), played]
        self._native.learn_one(numbers, np.ascontiguousarray(rows), rewards)
        return self

    def predict(self, contexts: npt.ArrayLike, users: Iterable[User] | None = None) -> Any:
        """The arm of every row, or of the only one."""
        if not self._native.works_one_at_a_time:
            offers = self._offers(contexts, rows=self._native.users)
            return self._named(self._native.choose(offers))
        offers = self._offers(contexts)
        users = None if users is None else list(users)
        numbers = self._rows(users, self._row_count(offers, users), add=True)
        return self._named(self._native.decide(numbers, offers))

    def predict_expectations(
        self, contexts: npt.ArrayLike, users: Iterable[User] | None = None
    ) -> Any:
        """For every row, or for the only one, what each arm is played by: the expected reward and
        the bonus for being unsure. :meth:`predict` plays the arm with the most."""
        offers = self._offers(contexts)
        users = None if users is None else list(users)
        numbers = self._rows(users, self._row_count(offers, users), add=False)
        expected, bonus = self._native.judge(numbers, offers)
        names = self.arms if self.arms is not None else range(offers.shape[-2])
        rows = [dict(zip(names, row)) for row in (expected + bonus).tolist()]
        return rows[0] if len(rows) == 1 else rows

    def _offers(self, contexts: npt.ArrayLike, rows: int | None = None) -> npt.NDArray[np.float64]:
        """Offers as the engine takes them: (arms, dim) or (rows, arms, dim)."""
        array = np.ascontiguousarray(contexts, dtype=np.float64)
        arms = None if self.arms is None else len(self.arms)
        if array.ndim == 1:
            array = array[np.newaxis]
        if array.ndim == 2 and arms is not None and array.shape[1] * arms == self.dim and arms > 1:
            blocks = np.zeros((array.shape[0], arms, arms, array.shape[1]))
            blocks[:, np.arange(arms), np.arange(arms)] = array[:, np.newaxis]
            array = blocks.reshape(array.shape[0], arms, self.dim)
        fits = array.ndim in (2, 3) and array.shape[-1] == self.dim and array.shape[-2] > 0
        if not fits or (array.ndim == 3 and rows is not None and array.shape[0] != rows):
            expected = f"(arms, {self.dim}) or (rows, arms, {self.dim})"
            raise BadInput(f"contexts: found shape {np.shape(contexts)}, expected {expected}")
        return array

    def _row_count(self, offers: npt.NDArray[np.float64], users: list[User] | None) -> int:
        if offers.ndim == 3:
            return int(offers.shape[0])
        return max(self._users_told, 1) if users is None else len(users)

    def _rows(
        self, users: Iterable[User] | None, rows: int, *, add: bool
    ) -> npt.NDArray[np.int64]:
        """The user of every row."""
        if users is not None:
            numbers = self._numbers_of(users, add=add)
            if len(numbers) != rows:
                raise BadInput(f"users: found {len(numbers)}, expected {rows}, one for every row")
            return numbers
        if self._users_told <= 1:
            return np.zeros(rows, dtype=np.int64)
        if rows == self._users_told:
            return np.arange(rows)
        expected = f"users= to say whom each of {rows} rows is about"
        raise BadInput(f"users: found nothing, expected {expected}")

    def _arm_numbers(self, decisions: npt.ArrayLike | Sequence[Any]) -> npt.NDArray[np.int64]:
        if self.arms is None:
            return np.ascontiguousarray(decisions, dtype=np.int64)
        number = {arm: number for number, arm in enumerate(self.arms)}
        try:
            return np.array([number[arm] for arm in np.asarray(decisions).tolist()], dtype=np.int64)
        except KeyError as unknown:
            known = ", ".join(map(repr, self.arms))
            raise BadInput(f"decisions: found {unknown}, expected one of {known}") from None

    def _named(self, numbers: npt.NDArray[np.int64]) -> Any:
        names = self.arms
        arms = [number if names is None else names[number] for number in numbers.tolist()]
        return arms[0] if len(arms) == 1 else arms
