"""The client for programs that use :mod:`asyncio`: the same calls, awaited.

>>> async with AsyncClient("http://127.0.0.1:7700", app="shop") as client:  # doctest: +SKIP
...     decision = await client.decide("ann", {"tea": [0.9, 0.1], "coffee": [0.1, 0.9]})
...     await client.reward(decision, 1.0)

Calls run on threads, each with a connection of its own; as many at once as ``connections`` says, the
others wait for their turn, and their time passes meanwhile. A task that is cancelled ends at once; what
it had asked for may still be done.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cohort.client import Client, Decision

__all__ = ["AsyncClient"]

#: Every call of :class:`cohort.Client` that asks the service.
_CALLS = (
    "activate add_key apps change_app create_app decide_batch decision delete_app "
    "export_user forget_user insight items keys put_items ready remove_item remove_key "
    "reward rewards show_app user"
).split()


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
        """As :meth:`cohort.Client.decide`. The time spent waiting for a connection counts."""
        timeout = settings.pop("timeout", None)
        ends = time.monotonic() + (self._client._timeout if timeout is None else timeout)

        def decide() -> Decision:
            return self._client.decide(user, items, timeout=ends - time.monotonic(), **settings)

        decision: Decision = await self._run(decide)
        return decision

    async def download_log(self, to: Any, **settings: Any) -> Any:
        """As :meth:`cohort.Client.download_log`."""
        return await self._run(functools.partial(self._client.download_log, to, **settings))

    if TYPE_CHECKING:
        # The other calls, which are made below.
        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...

    async def _run(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

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
        return await self._run(functools.partial(getattr(self._client, name), *args, **settings))

    call.__name__ = name
    call.__doc__ = f"As :meth:`cohort.Client.{name}`."
    return call


for _name in _CALLS:
    setattr(AsyncClient, _name, _awaited(_name))
