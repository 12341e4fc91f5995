"""Parameters as scikit-learn has them: ``get_params``, ``set_params`` and copies that know nothing yet.

``sklearn.base.clone`` works on a policy, and so does whatever rests on it, such as a search over
parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Parameters"]


class Parameters:
    """What a policy was made with."""

    seed: int
    _given: dict[str, Any]

    if TYPE_CHECKING:

        def __init__(self, **given: Any) -> None: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the policy was made with, by the names of its constructor's arguments."""
        return dict(self._given)

    def set_params(self, **changed: Any) -> Self:
        """Makes it anew with some arguments changed; all that was learned is forgotten."""
        self.__dict__ = vars(type(self)(**{**self._given, **changed}))
        return self

    def clone(self) -> Self:
        """One with the same parameters and the same seed that has learned nothing. What was learned is
        copied by ``copy.deepcopy``."""
        return type(self)(**{**self._given, "random_state": self.seed})
