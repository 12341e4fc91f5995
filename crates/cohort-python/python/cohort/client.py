"""A client for the service (``cohort serve``), with nothing but the standard library.

Retries are safe: the client chooses the ids of decisions, so that a decide that is sent again gets
the same decision, and a reward that is sent again is learned once. Every call ends within its
timeout, however often it was tried and however slowly the other side sends or reads.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import urllib.parse
import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Union

from cohort.catalogue import CatalogueCalls
from cohort.connection import Connection, left, read
from cohort.errors import BadInput, ServiceError, cause_of

__all__ = ["Client", "Decision"]

#: Features of an item: numbers, or in an app that takes JSON an object (words, numbers, booleans, lists, objects).
Features = Union[Iterable[float], Mapping[str, Any]]

#: Candidates: features by id, or ids alone where the catalogue has their features.
Candidates = Union[Mapping[str, Features], Sequence[str]]

#: The service is at its limit, and says when to come back.
_AT_ITS_LIMIT = (429, 503)


class Decision(NamedTuple):
    """What to show a user."""

    #: By which its reward is sent.
    id: str
    #: The item to show.
    item: str
    #: All candidates, the chosen one first, the others by falling score.
    ranking: list[str]
    #: With what probability the item was chosen.
    probability: float
    #: What the policy thought of each, in the order of the ranking; on request.
    explanation: list[dict[str, Any]] | None = None
    #: Whether the service did not decide in time and the caller's fallback is shown instead. Nothing is
    #: learned from it.
    fallback: bool = False


class Client(CatalogueCalls):
    """A client for one service, and by default for one of its apps.

    >>> client = Client("http://127.0.0.1:7700", app="shop")       # doctest: +SKIP
    >>> client.create_app("shop", dim=2)                           # doctest: +SKIP
    >>> items = {"tea": [0.9, 0.1], "coffee": [0.1, 0.9]}          # doctest: +SKIP
    >>> decision = client.decide("ann", items)                     # doctest: +SKIP
    >>> client.reward(decision, 1.0)                               # doctest: +SKIP

    :param url: where the service is.
    :param app: the app that is meant where a call names none.
    :param key: the app's key or the admin's, where the service has keys.
    :param timeout: seconds that a call may take, all retries and pauses included.
    :param retries: how often a request is sent again when no answer came or the service is at its
        limit, as far as there is time.
    :param tls: for ``https``: what to trust, if not what the system does.

    A client may be used from several threads; each has a connection of its own. It is closed by
    :meth:`close`, or at the end of a ``with`` block.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7700",
        app: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 4,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"url: found {url!r}, expected http://HOST:PORT or https://HOST:PORT")
        self.url = url.rstrip("/")
        self.app = app
        self._parts = parts
        self._key = key
        self._timeout = timeout
        self._retries = retries
        self._tls = tls
        if parts.scheme == "https" and tls is None:
            self._tls = ssl.create_default_context()
        #: What each thread has of its own.
        self._here = threading.local()
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._closed = False

    def close(self) -> None:
        """Closes all connections, those of other threads too. Nothing can be asked any more."""
        self._closed = True
        for connection in list(self._open):
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r}, app={self.app!r})"

    # Deciding and learning.

    def decide(
        self,
        user: str,
        items: Candidates,
        *,
        context: Mapping[str, Any] | None = None,
        user_features: Mapping[str, Any] | None = None,
        decision_id: str | None = None,
        shown: bool = True,
        explain: bool = False,
        app: str | None = None,
        timeout: float | None = None,
        fallback: str | None = None,
    ) -> Decision:
        """What to show a user among ``items``: features by id, or ids alone where the catalogue
        has them. ``shown=False`` for a decision that may never be shown; then :meth:`activate` it
        when it is. In an app that takes JSON ``context`` is the situation (page, device, hour) and
        ``user_features`` what is known of the user. Where there is no answer in time, or none that decides, the item ``fallback`` is
        shown, if one is named; its reward is not sent."""
        chosen = decision_id or uuid.uuid4().hex
        body = {
            "user": user,
            "items": _candidates(items),
            "decision_id": chosen,
            "shown": shown,
            "explain": explain,
            **_known(context=context, user_features=user_features),
        }
        try:
            return _decision(self._ask("POST", f"{self._at(app)}/decide", body, timeout=timeout))
        except ServiceError:
            if fallback is None:
                raise
            others = [item for item in items if item != fallback]
            return Decision(chosen, fallback, [fallback, *others], 1.0, None, True)

    def decide_batch(
        self,
        users: Iterable[str],
        items: Candidates,
        *,
        context: Mapping[str, Any] | None = None,
        shown: bool = True,
        explain: bool = False,
        app: str | None = None,
    ) -> list[Decision | ServiceError]:
        """The same for many users among the same candidates, on what is known now: for each a
        decision, or why there is none."""
        asked = [{"user": user, "decision_id": uuid.uuid4().hex, "shown": shown} for user in users]
        body = {
            "users": asked,
            "items": _candidates(items),
            "explain": explain,
            **_known(context=context),
        }
        said = self._ask("POST", f"{self._at(app)}/decide-batch", body)["decisions"]
        return [_refusal(one) or _decision(one) for one in said]

    def reward(self, decision: Decision | str, reward: float, *, app: str | None = None) -> str:
        """How the user answered. ``learned``, or ``repeated`` if the decision had its reward
        already; the first one counts. ``fallback`` for a decision that is one: nothing is sent."""
        if _is_fallback(decision):
            return "fallback"
        body = {"decision_id": _id(decision), "reward": float(reward)}
        outcome: str = self._ask("POST", f"{self._at(app)}/reward", body)["outcome"]
        return outcome

    def rewards(
        self, rewards: Iterable[tuple[Decision | str, float]], *, app: str | None = None
    ) -> list[str | ServiceError]:
        """Many rewards at once: for each what it did, or why it did nothing; ``fallback`` for those of
        decisions that are fallbacks, which are not sent."""
        given = list(rewards)
        sent = [
            {"decision_id": _id(one), "reward": float(reward)}
            for one, reward in given
            if not _is_fallback(one)
        ]
        if given and not sent:
            return ["fallback"] * len(given)
        said = self._ask("POST", f"{self._at(app)}/rewards", {"rewards": sent})["outcomes"]
        outcomes = iter([_refusal(one) or one["outcome"] for one in said])
        return ["fallback" if _is_fallback(one) else next(outcomes) for one, _ in given]

    def activate(self, decision: Decision | str, *, app: str | None = None) -> None:
        """A decision made with ``shown=False`` was shown: from now on it counts. Nothing is sent for a
        fallback."""
        if _is_fallback(decision):
            return
        self._ask("POST", f"{self._at(app)}/activate", {"decision_id": _id(decision)})

    def decision(self, decision: Decision | str, *, app: str | None = None) -> dict[str, Any]:
        """What became of a decision."""
        return self._answer("GET", f"{self._at(app)}/decisions/{_quoted(_id(decision))}")

    # The catalogue.

    def put_items(
        self,
        items: Mapping[str, Features],
        *,
        attributes: Mapping[str, Mapping[str, Any]] | None = None,
        app: str | None = None,
    ) -> None:
        """Puts items and their features into the catalogue, with attributes by id to filter by."""
        listed = _candidates(items)
        for item in listed:
            if attributes and item["id"] in attributes:
                item["attributes"] = dict(attributes[item["id"]])
        self._ask("PUT", f"{self._at(app)}/items", {"items": listed})

    def items(self, *, app: str | None = None) -> list[str]:
        """The ids of all items in the catalogue."""
        items: list[str] = self._ask("GET", f"{self._at(app)}/items")["items"]
        return items

    def remove_item(self, item: str, *, app: str | None = None) -> None:
        """Takes an item out of the catalogue."""
        self._ask("DELETE", f"{self._at(app)}/items/{_quoted(item)}")

    # Apps; the admin's business where the service has keys.

    def create_app(self, name: str, dim: int | None = None, **settings: Any) -> dict[str, Any]:
        """Creates an app; the answer has its first key, this once. ``dim`` is how many features items
        have; with ``features="json"`` into how many numbers objects are encoded, and need not be said.
        Other ``settings`` are ``policy``, ``params``, ``epsilon``, ``control``, ``window_ms`` and
        ``default_reward``."""
        body = {"name": name, **_known(dim=dim), **settings}
        return self._answer("POST", "/v1/apps", body, repeatable=False)

    def apps(self) -> list[dict[str, Any]]:
        """All apps."""
        apps: list[dict[str, Any]] = self._ask("GET", "/v1/apps")["apps"]
        return apps

    def show_app(self, app: str | None = None) -> dict[str, Any]:
        """One app: its settings, and how often what happened."""
        return self._answer("GET", self._at(app))

    def change_app(self, app: str | None = None, **settings: Any) -> dict[str, Any]:
        """Changes an app; what is not named stays."""
        return self._answer("PATCH", self._at(app), settings)

    def delete_app(self, app: str) -> None:
        """Deletes an app with all it has learned."""
        self._ask("DELETE", self._at(app), repeatable=False)

    # What it knows.

    def insight(self, *, app: str | None = None) -> dict[str, Any]:
        """The app at this moment: rates, averages against the control group, cohorts, a map of users,
        the newest decisions."""
        return self._answer("GET", f"{self._at(app)}/insight")

    def features(
        self, *, user: str | None = None, cohort: int | None = None, app: str | None = None
    ) -> dict[str, Any]:
        """The features of an app that takes JSON: what was seen of each, what shares a coordinate, and what
        one unit of it adds to the expected reward, for everybody, a ``user`` or a ``cohort`` (its number in
        :meth:`insight`)."""
        if user is not None and cohort is not None:
            raise BadInput("features: found a user and a cohort, expected one of them or none")
        of = "" if user is None else f"/users/{_quoted(user)}"
        of = of if cohort is None else f"/cohorts/{cohort}"
        return self._answer("GET", f"{self._at(app)}{of}/features")

    def user(self, user: str, *, app: str | None = None) -> dict[str, Any]:
        """What is known of a user."""
        return self._answer("GET", f"{self._at(app)}/users/{_quoted(user)}")

    def export_user(self, user: str, *, app: str | None = None) -> dict[str, Any]:
        """All that is known of a user: what was learned, and its decisions."""
        return self._answer("GET", f"{self._at(app)}/users/{_quoted(user)}/export")

    def forget_user(self, user: str, *, app: str | None = None) -> None:
        """Forgets a user."""
        self._ask("DELETE", f"{self._at(app)}/users/{_quoted(user)}", repeatable=False)

    def download_log(
        self, to: str | Path, *, app: str | None = None, timeout: float | None = None
    ) -> Path:
        """Writes the decision log to a file whose name ends in ``.csv`` or ``.parquet``. A file that
        is there is replaced once the log has come in full."""
        path = Path(to)
        if path.suffix not in (".csv", ".parquet"):
            raise BadInput(f"to: found {str(to)!r}, expected a name that ends in .csv or .parquet")
        unfinished = path.with_name(path.name + ".unfinished")
        at = f"{self._at(app)}/log{path.suffix}"
        with unfinished.open("wb") as file:
            self._ask("GET", at, timeout=timeout, to=file)
        unfinished.replace(path)
        return path

    # Keys.

    def add_key(
        self,
        scopes: Iterable[str] | None = None,
        *,
        expires_ms: int | None = None,
        app: str | None = None,
    ) -> dict[str, Any]:
        """Adds a key for ``decide``, ``reward``, ``read``, ``items`` or ``admin``; for deciding and
        rewarding if nothing is named. The answer has it, this once."""
        body: dict[str, Any] = {}
        if scopes is not None:
            body["scopes"] = list(scopes)
        if expires_ms is not None:
            body["expires_ms"] = expires_ms
        return self._answer("POST", f"{self._at(app)}/keys", body, repeatable=False)

    def keys(self, *, app: str | None = None) -> list[dict[str, Any]]:
        """All keys: ids, scopes, when they end."""
        keys: list[dict[str, Any]] = self._ask("GET", f"{self._at(app)}/keys")["keys"]
        return keys

    def remove_key(self, id: str, *, app: str | None = None) -> None:
        """Removes a key: whoever has it is refused from now on."""
        self._ask("DELETE", f"{self._at(app)}/keys/{_quoted(id)}", repeatable=False)

    def ready(self) -> bool:
        """Whether the service takes requests."""
        try:
            self._send("GET", "/readyz", None, self._began() + self._timeout, None)
        except (ServiceError, _TryLater, OSError, http.client.HTTPException):
            return False
        return True

    # How it is asked.

    def _at(self, app: str | None) -> str:
        name = app if app is not None else self.app
        if name is None:
            raise BadInput("app: found nothing, expected Client(…, app=NAME) or app=NAME")
        return f"/v1/apps/{_quoted(name)}"

    def _answer(
        self, method: str, path: str, body: Any = None, *, repeatable: bool = True
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask(method, path, body, repeatable=repeatable)
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        repeatable: bool = True,
        timeout: float | None = None,
        to: Any = None,
    ) -> Any:
        """Asks until there is an answer, or no time is left. A request that must not be done twice is
        sent again only where the service has said that it did nothing."""
        text = None if body is None else json.dumps(body, allow_nan=False)
        ends = self._began() + (self._timeout if timeout is None else timeout)
        why = ServiceError(f"{self.url}: there was no time to ask")
        for attempt in range(self._retries + 1):
            pause = 0.05 * 2**attempt
            try:
                return self._send(method, path, text, ends, to)
            except _TryLater as later:
                why, pause = later.refusal, max(pause, later.seconds)
            except (OSError, http.client.HTTPException) as lost:
                what = cause_of(lost)
                why = ServiceError(f"{self.url}: {what}; is the service running there?")
                if not repeatable:
                    break
            # Waiting for an answer that would come too late helps nobody.
            if attempt == self._retries or time.monotonic() + pause >= ends:
                break
            time.sleep(pause)
        raise why

    def _send(self, method: str, path: str, text: str | None, ends: float, to: Any) -> Any:
        left(ends)
        connection = self._connection()
        connection.ends = ends
        headers = {"Content-Type": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request(method, self._parts.path.rstrip("/") + path, text, headers)
            response = connection.getresponse()
            content = read(response, to if response.status < 300 else None)
        except BaseException:
            # Whatever is under way on it is not an answer to the next request.
            self._here.connection = None
            connection.close()
            raise
        if response.status < 300:
            return json.loads(content) if content[:1] in (b"{", b"[") else None
        refusal = _told(content, response.status)
        if response.status in _AT_ITS_LIMIT:
            raise _TryLater(refusal, _seconds(response.getheader("Retry-After")))
        raise refusal

    def _began(self) -> float:
        """When the call began that is made now: earlier than now where it had to wait for this thread."""
        began: float | None = getattr(self._here, "began", None)
        self._here.began = None
        return time.monotonic() if began is None else began

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise BadInput("this client was closed: make another")

    def _connection(self) -> Connection:
        """This thread's connection."""
        self._refuse_if_closed()
        connection: Connection | None = getattr(self._here, "connection", None)
        if connection is None:
            tls = self._tls if self._parts.scheme == "https" else None
            connection = Connection(self._parts.hostname or "", self._parts.port, tls)
            self._here.connection = connection
            self._open.add(connection)
        return connection


class _TryLater(Exception):
    def __init__(self, refusal: ServiceError, seconds: float) -> None:
        self.refusal = refusal
        self.seconds = seconds


def _seconds(retry_after: str | None) -> float:
    try:
        return float(retry_after or 0.0)
    except ValueError:
        return 0.0


def _told(content: bytes, status: int) -> ServiceError:
    try:
        error = json.loads(content)["error"]
        return ServiceError(error["message"], error["code"], status)
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"no reason was given ({status})", None, status)


def _refusal(said: dict[str, Any]) -> ServiceError | None:
    if "error" not in said:
        return None
    return ServiceError(said["error"]["message"], said["error"]["code"])


def _decision(said: dict[str, Any]) -> Decision:
    explanation = said.get("explanation")
    chosen = said["decision_id"], said["item"], said["ranking"], said["probability"]
    return Decision(*chosen, explanation)


def _candidates(items: Candidates) -> list[dict[str, Any]]:
    if isinstance(items, Mapping):
        return [{"id": id, "features": _features(row)} for id, row in items.items()]
    return [{"id": id} for id in items]


def _features(row: Features) -> list[float] | dict[str, Any]:
    return dict(row) if isinstance(row, Mapping) else [float(x) for x in row]


def _known(**values: Any) -> dict[str, Any]:
    """What was said of these."""
    return {name: value for name, value in values.items() if value is not None}


def _is_fallback(decision: Decision | str) -> bool:
    """Whether the service knows nothing of a decision, because the caller's fallback was shown."""
    return isinstance(decision, Decision) and decision.fallback


def _id(decision: Decision | str) -> str:
    return decision if isinstance(decision, str) else decision.id


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")
