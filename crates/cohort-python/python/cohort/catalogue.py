"""What a client asks where candidates are not listed one by one: the best of the catalogue, slates, logs of the past."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cohort.errors import BadInput, ServiceError

if TYPE_CHECKING:
    from cohort.client import Decision

__all__ = ["CatalogueCalls"]

#: Decisions of the past that are sent at once.
_AT_ONCE = 500


class CatalogueCalls:
    """The part of :class:`cohort.Client` for catalogues, slates and logs."""

    #: Both are the client's.
    _ask: Callable[..., Any]
    _at: Callable[[str | None], str]

    def _made(self, said: dict[str, Any]) -> Decision:
        from cohort.client import _decision

        return _decision(said)

    def _fallen_back(self, id: str, item: str) -> Decision:
        from cohort.client import Decision

        return Decision(id, item, [item], 1.0, None, True)

    def best(
        self,
        user: str,
        k: int = 10,
        *,
        filter: Mapping[str, Any] | None = None,
        exclude: Iterable[str] = (),
        context: Mapping[str, Any] | None = None,
        user_features: Mapping[str, Any] | None = None,
        decision_id: str | None = None,
        shown: bool = True,
        explain: bool = False,
        app: str | None = None,
        timeout: float | None = None,
        fallback: str | None = None,
    ) -> Decision:
        """What to show a user among all items of the catalogue, or those that match ``filter`` and are not in ``exclude``; the
        ranking has the best ``k``. Where there is no answer in time, or none that decides, the item ``fallback`` is shown, if
        one is named; its reward is not sent.

        >>> client.best("ann", 5, filter={"price": {"below": 5}})   # doctest: +SKIP
        """
        chosen = decision_id or uuid.uuid4().hex
        body = {
            "user": user,
            "k": k,
            "exclude": list(exclude),
            "decision_id": chosen,
            "shown": shown,
            "explain": explain,
            **_given(filter=filter, context=context, user_features=user_features),
        }
        try:
            return self._made(self._ask("POST", f"{self._at(app)}/decide", body, timeout=timeout))
        except ServiceError:
            if fallback is None:
                raise
            return self._fallen_back(chosen, fallback)

    def slate(
        self,
        user: str,
        slots: Sequence[str | Mapping[str, Any]],
        *,
        items: Mapping[str, Any] | Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,
        exclude: Iterable[str] = (),
        context: Mapping[str, Any] | None = None,
        user_features: Mapping[str, Any] | None = None,
        slate_id: str | None = None,
        shown: bool = True,
        app: str | None = None,
        timeout: float | None = None,
        fallback: Mapping[str, str] | None = None,
    ) -> dict[str, Decision]:
        """What to show a user in several places, no item twice, by the names of the places. A slot is a name, or
        ``{"id": name, "exclude": [...], "filter": {...}, "features": {...}}``. Every place has a decision of its own, which takes a
        reward of its own. ``fallback`` has an item for every place, by its name: they are shown where there is no answer in time, or
        none that decides; their rewards are not sent."""
        places = [{"id": slot} if isinstance(slot, str) else dict(slot) for slot in slots]
        if fallback is not None and {place.get("id") for place in places} != set(fallback):
            raise BadInput(f"fallback: found {sorted(fallback)}, expected an item for every slot")
        chosen = slate_id or uuid.uuid4().hex
        body: dict[str, Any] = {
            "user": user,
            "slots": places,
            "exclude": list(exclude),
            "slate_id": chosen,
            "shown": shown,
            **_given(filter=filter, context=context, user_features=user_features),
        }
        if isinstance(items, Mapping):
            body["items"] = [{"id": id, "features": _plain(row)} for id, row in items.items()]
        elif items is not None:
            body["items"] = [{"id": id} for id in items]
        try:
            said = self._ask("POST", f"{self._at(app)}/slate", body, timeout=timeout)
        except ServiceError:
            if fallback is None:
                raise
            names = [place["id"] for place in places]
            return {name: self._fallen_back(f"{chosen}/{name}", fallback[name]) for name in names}
        return {slot["slot"]: self._made(slot) for slot in said["slots"]}

    def learn_history(
        self, decisions: Iterable[Mapping[str, Any]], *, app: str | None = None
    ) -> dict[str, Any]:
        """Learns from decisions that were made elsewhere: each has ``user``, ``item`` and ``reward``, and where they are known
        ``features``, ``context``, ``user_features``, ``probability``, ``candidates`` (the ids of all that could have been shown) or ``among`` (how many),
        and ``decision_id``, under which it is learned once. Returns how many were
        learned, and why others were not. They are sent 500 at once, and each of these requests may take the client's
        ``timeout``."""
        learned, first = 0, 0
        others: list[dict[str, Any]] = []
        waiting: list[dict[str, Any]] = []

        def send() -> None:
            nonlocal learned, first
            if waiting:
                said = self._ask("POST", f"{self._at(app)}/history", {"decisions": waiting})
                learned += said["learned"]
                others.extend({**other, "at": first + other["at"]} for other in said["others"])
                first += len(waiting)
                waiting.clear()

        for decision in decisions:
            past = dict(decision)
            if "features" in past:
                past["features"] = _plain(past["features"])
            waiting.append(past)
            if len(waiting) == _AT_ONCE:
                send()
        send()
        return {"learned": learned, "others": others}


def _given(**values: Any) -> dict[str, Any]:
    return {name: dict(value) for name, value in values.items() if value is not None}


def _plain(row: Any) -> Any:
    return dict(row) if isinstance(row, Mapping) else [float(value) for value in row]
