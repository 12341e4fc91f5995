"""The conventions of MABWiser: ``fit``, ``partial_fit``, ``predict``, ``predict_expectations``,
``add_arm``, ``remove_arm``.

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
    - ``(arms, dim)``: the same offer for all rows (``(1, arms, dim)`` where there are as many rows as
      arms);
    - ``(rows, dim)``, in :meth:`partial_fit` and :meth:`fit`: what was played, one row a reward;
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
    #: Which block of the vector each arm has that was ever named, and how many there are.
    _blocks: dict[Any, int]
    _capacity: int

    if TYPE_CHECKING:

        def _forget(self) -> None: ...

        def _numbers_of(
            self, users: Iterable[User], *, add: bool
        ) -> npt.NDArray[np.int64]: ...

    def _name_arms(self, arms: Sequence[Any] | None, max_arms: int | None) -> None:
        self.arms = None if arms is None else list(arms)
        self._blocks = {arm: block for block, arm in enumerate(self.arms or [])}
        if len(self._blocks) != len(self.arms or []):
            raise BadInput("arms: found a name twice, expected different names")
        self._capacity = len(self._blocks) if max_arms is None else max_arms
        if self._capacity < len(self._blocks):
            expected = f"{len(self._blocks)} or more, as many as arms"
            raise BadInput(f"max_arms: found {max_arms}, expected {expected}")

    def add_arm(self, arm: Any) -> None:
        """One more arm on offer. Where arms have features, that is all; where each has a model of its
        own, it starts without knowledge, or with what it knew when it was removed, and the policy must
        have been made with room for it: ``max_arms``."""
        if self.arms is None:
            raise BadInput("add_arm: found a policy without names, expected Policy(…, arms=[…])")
        if arm in self.arms:
            raise BadInput(f"add_arm: found {arm!r}, which is an arm already")
        if arm not in self._blocks:
            if self._capacity > 1 and len(self._blocks) >= self._capacity and self._in_blocks:
                expected = f"room for it: Policy(…, max_arms=…), dim = max_arms * numbers of a context"
                raise BadInput(f"add_arm: found {self._capacity} arms, expected {expected}")
            self._blocks[arm] = len(self._blocks)
        self.arms.append(arm)

    def remove_arm(self, arm: Any) -> None:
        """Takes an arm off the offer. What was learned of it is kept, in case it comes back."""
        if not self.arms:
            raise BadInput(f"remove_arm: found {arm!r}, but the policy has no arms: Policy(…, arms=[…]) or add_arm names them")
        if arm not in self.arms:
            known = ", ".join(map(repr, self.arms))
            raise BadInput(f"remove_arm: found {arm!r}, expected one of {known}")
        if len(self.arms) == 1:
            raise BadInput("remove_arm: found the only arm, expected one to be left")
        self.arms.remove(arm)

    def fit(
        self,
        decisions: npt.ArrayLike | Sequence[Any] | None,
        rewards: npt.ArrayLike,
        contexts: npt.ArrayLike,
        users: Iterable[User] | None = None,
    ) -> Self:
        """Forgets everything and learns from these rows."""
        self._forget()
        return self.partial_fit(decisions, rewards, contexts, users)

    def partial_fit(
        self,
        decisions: npt.ArrayLike | Sequence[Any] | None,
        rewards: npt.ArrayLike,
        contexts: npt.ArrayLike,
        users: Iterable[User] | None = None,
    ) -> Self:
        """Learns from these rows: the arm that was played, its reward, and what was on offer; or, in
        ``(rows, dim)``, what was played itself, and then ``decisions`` may be ``None``."""
        rewards = np.ascontiguousarray(rewards, dtype=np.float64)
        if rewards.ndim != 1:
            raise BadInput(f"rewards: found shape {rewards.shape}, expected (rows,)")
        rows = len(rewards)
        played = None if decisions is None else self._arm_numbers(decisions)
        if played is not None and len(played) != rows:
            raise BadInput(f"decisions: found {len(played)}, expected {rows}, one for every reward")
        if self._are_played(contexts, played, rows):
            array = np.ascontiguousarray(contexts, dtype=np.float64)
            self._native.learn_one(self._rows(users, rows, add=True), array, rewards)
            return self
        if played is None:
            expected = f"({rows}, {self.dim}), what was played for every reward"
            raise BadInput(f"contexts: found shape {np.shape(contexts)}, expected {expected}")
        offers = self._offers(contexts, rows=rows)
        arms = offers.shape[-2]
        if played.size and not (0 <= played.min() and played.max() < arms):
            raise BadInput(f"decisions: found {played.max()}, expected 0 to {arms - 1}")
        if not self._native.works_one_at_a_time:
            if offers.ndim == 3:
                expected = "the same contexts (arms, dim) for all users"
                raise BadInput(f"policy `{self.name}` works in rounds: expected {expected}")
            self._native.learn(offers, played, rewards)
            return self
        numbers = self._rows(users, rows, add=True)
        chosen = offers[played] if offers.ndim == 2 else offers[np.arange(rows), played]
        self._native.learn_one(numbers, np.ascontiguousarray(chosen), rewards)
        return self

    def _are_played(
        self, contexts: npt.ArrayLike, played: npt.NDArray[np.int64] | None, rows: int
    ) -> bool:
        """Whether these are the contexts that were played, one a reward, and not an offer."""
        if np.shape(contexts) != (rows, self.dim) or not self._native.works_one_at_a_time:
            return False
        if played is not None and self.arms is not None and len(self.arms) == rows > 1:
            either = f"(1, {rows}, {self.dim}) for one offer of all arms, or decisions=None for what "
            either += "was played, one row a reward"
            raise BadInput(f"contexts: found shape {np.shape(contexts)}, expected {either}")
        return True

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
        if array.ndim == 1:
            array = array[np.newaxis]
        if array.ndim == 3 and array.shape[0] == 1 and rows is not None and rows != 1:
            array = array[0]
        if array.ndim == 2 and self._in_blocks and array.shape[1] * self._capacity == self.dim:
            names = self.arms or []
            blocks = np.zeros((array.shape[0], len(names), self._capacity, array.shape[1]))
            taken = [self._blocks[name] for name in names]
            blocks[:, np.arange(len(names)), taken] = array[:, np.newaxis]
            array = blocks.reshape(array.shape[0], len(names), self.dim)
        fits = array.ndim in (2, 3) and array.shape[-1] == self.dim and array.shape[-2] > 0
        if not fits or (array.ndim == 3 and rows is not None and array.shape[0] != rows):
            expected = f"(arms, {self.dim}) or (rows, arms, {self.dim})"
            raise BadInput(f"contexts: found shape {np.shape(contexts)}, expected {expected}")
        return array

    @property
    def _in_blocks(self) -> bool:
        """Whether arms may have models of their own, as MABWiser has them."""
        return self._capacity > 1 and self.dim % self._capacity == 0

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
