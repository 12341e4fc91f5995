"""The client for programs that use :mod:`asyncio`: the same calls, awaited.

>>> async with AsyncClient("http://127.0.0.1:7700", app="shop") as client:  # doctest: +SKIP
...     decision = await client.decide("ann", {"tea": [0.9, 0.1], "coffee": [0.1, 0.9]})
...     await client.reward(decision, 1.0)

Calls run on threads, each with a connection of its own; as many at once as ``connections`` says, the
others wait for their turn, and their time passes meanwhile: a call whose turn does not come within its
timeout ends then. A task that is cancelled ends at once; what it had asked for may still be done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cohort.client import Client, Decision

__all__ = ["AsyncClient"]


class AsyncClient:
    """:class:`cohort.Client` for :mod:`asyncio`: takes the same arguments and has the same calls, each
    of which is awaited.

    :param connections: how many calls may be under way at once.
    """

    def __init__(self, *args: Any, connections: int = 16, **settings: Any) -> None:
        self._client = Client(*args, **settings)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="cohort")

    def __repr__(self) -> str:
        return f"Async{self._client!r}"

    async def decide(self, user: str, items: Any, **settings: Any) -> Decision:
        """As :meth:`cohort.Client.decide`."""
        decision: Decision = await self._run("decide", user, items, **settings)
        return decision

    if TYPE_CHECKING:
        # The other calls, which are made below.
        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...

    async def _run(self, name: str, *args: Any, **settings: Any) -> Any:
        """Makes a call on a thread. The time for which it waits for one is part of its time."""
        self._client._refuse_if_closed()
        began = time.monotonic()
        timeout = settings.get("timeout")
        call = getattr(self._client, name)

        def run() -> Any:
            self._client._here.began = began
            try:
                return call(*args, **settings)
            finally:
                self._client._here.began = None

        running = self._threads.submit(run)
        answer = asyncio.wrap_future(running)
        try:
            await asyncio.wait({answer}, timeout=self._client._timeout if timeout is None else timeout)
        except asyncio.CancelledError:
            running.cancel()
            raise
        if running.cancel():
            # No thread took it (or the client was closed). Without time it asks nothing, and ends as any
            # call whose time is over: with its fallback, or an error.
            return run()
        return await answer

    async def close(self) -> None:
        """Closes all connections. Nothing can be asked any more."""
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self.close()


def _awaited(name: str) -> Callable[..., Any]:
    async def call(self: AsyncClient, *args: Any, **settings: Any) -> Any:
        return await self._run(name, *args, **settings)

    call.__name__ = name
    call.__doc__ = f"As :meth:`cohort.Client.{name}`."
    return call


# Every call of the client, so that none can be missing here.
for _name in dir(Client):
    if not _name.startswith("_") and not hasattr(AsyncClient, _name):
        setattr(AsyncClient, _name, _awaited(_name))
