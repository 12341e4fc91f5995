"""A call ends within its timeout, whatever the server does: each of these takes far longer than that if it is let."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import cohort

ITEMS = {"tea": [0.9, 0.1], "coffee": [0.1, 0.9]}
TIMEOUT = 0.5
#: A machine that is busy with other things may be late by this much. The servers take 20 seconds.
ENOUGH = TIMEOUT + 1.5


class Server:
    """A server that does one thing with each connection, on a thread of its own."""

    def __init__(self, what: Callable[[socket.socket], None], backlog: int = 16) -> None:
        self._what = what
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        if backlog:
            threading.Thread(target=self._accept, daemon=True).start()
        else:
            # Nobody accepts, and there is no room to wait: the next connection is not made.
            for _ in range(4):
                waiting = socket.socket()
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", self.port))
                self._open.append(waiting)
            time.sleep(0.1)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._what(connection)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Starts servers; returns their ports."""
    servers: list[Server] = []

    def start(what: Callable[[socket.socket], None], backlog: int = 16) -> int:
        servers.append(Server(what, backlog))
        return servers[-1].port

    yield start
    for server in servers:
        server.close()


def drip(connection: socket.socket, byte: bytes) -> None:
    """A byte now and then, each within any timeout of a socket."""
    for _ in range(200):
        connection.sendall(byte)
        time.sleep(0.1)


def after_the_request(*said: bytes, then: bytes) -> Callable[[socket.socket], None]:
    def what(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        for one in said:
            connection.sendall(one)
        drip(connection, then)

    return what


def silent(connection: socket.socket) -> None:
    time.sleep(20)


def reads_slowly(connection: socket.socket) -> None:
    for _ in range(200):
        connection.recv(1 << 12)
        time.sleep(0.1)


DRIPS = {
    "the status": after_the_request(b"HTTP/1.1 ", then=b" "),
    "a header": after_the_request(b"HTTP/1.1 200 OK\r\nX-Long: ", then=b"x"),
    "headers": after_the_request(b"HTTP/1.1 200 OK\r\n", then=b"X: y\r\n"),
    "that it goes on": after_the_request(then=b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body of known length": after_the_request(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", then=b"{"
    ),
    "a body that ends with its connection": after_the_request(b"HTTP/1.0 200 OK\r\n\r\n", then=b"{"),
    "a body in pieces": after_the_request(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", then=b"1\r\n{\r\n"
    ),
    "the length of a piece": after_the_request(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", then=b"0"
    ),
    "an error": after_the_request(b"HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\n", then=b"{"),
    "nothing": silent,
}


def ends_in_time(call: Callable[[], object]) -> None:
    began = time.monotonic()
    with pytest.raises(cohort.ServiceError):
        call()
    assert time.monotonic() - began < ENOUGH


@pytest.mark.parametrize("what", DRIPS.values(), ids=DRIPS.keys())
def test_a_server_that_drips(what, serve):
    with cohort.Client(f"http://127.0.0.1:{serve(what)}", "shop", timeout=TIMEOUT) as client:
        ends_in_time(lambda: client.decide("ann", ITEMS))
        assert client.decide("ann", ITEMS, timeout=0.2, fallback="tea").fallback
        began = time.monotonic()
        assert not client.ready()
        assert time.monotonic() - began < ENOUGH


@pytest.mark.parametrize("what", [silent, reads_slowly], ids=["not at all", "slowly"])
def test_a_server_that_reads_slowly(what, serve):
    with cohort.Client(f"http://127.0.0.1:{serve(what)}", "shop", timeout=TIMEOUT) as client:
        much = {f"item {n}": {"words": "w" * 1000} for n in range(20_000)}
        ends_in_time(lambda: client.put_items(much))


def test_a_server_that_accepts_nobody(serve):
    port = serve(silent, backlog=0)
    with cohort.Client(f"http://127.0.0.1:{port}", "shop", timeout=TIMEOUT) as client:
        ends_in_time(lambda: client.decide("ann", ITEMS))


@pytest.mark.parametrize(
    "what",
    [silent, lambda connection: (connection.sendall(b"\x16\x03\x03\x40\x00"), drip(connection, b"\0"))],
    ids=["says nothing", "drips"],
)
def test_a_handshake_that_does_not_end(what, serve):
    with cohort.Client(f"https://127.0.0.1:{serve(what)}", "shop", timeout=TIMEOUT) as client:
        ends_in_time(lambda: client.decide("ann", ITEMS))


def test_a_name_that_is_looked_up_slowly(monkeypatch):
    found = socket.getaddrinfo

    def slow(host, *args, flags=0, **settings):
        if not flags & socket.AI_NUMERICHOST:
            time.sleep(5)
        return found(host, *args, flags=flags, **settings)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with cohort.Client("http://localhost:9", "shop", timeout=TIMEOUT) as client:
        ends_in_time(lambda: client.decide("ann", ITEMS))


def test_an_address_that_does_not_answer_leaves_time_for_the_next(serve, monkeypatch):
    def answers(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    ports = [serve(silent, backlog=0), serve(answers)]
    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    with cohort.Client("http://two.example:80", timeout=3.0) as client:
        assert client.ready()


def test_waiting_for_a_thread_counts(serve):
    """One thread is taken for long: another call ends when its own time is over, not when the thread is free."""

    async def ask(url: str) -> None:
        async with cohort.AsyncClient(url, "shop", timeout=TIMEOUT, connections=1) as client:
            long = asyncio.create_task(client.decide("ann", ITEMS, timeout=5.0, fallback="tea"))
            await asyncio.sleep(0.05)
            for call in (client.reward("d", 1.0), client.learn_history([{"user": "ann"}]), client.keys()):
                began = time.monotonic()
                with pytest.raises(cohort.ServiceError):
                    await call
                assert time.monotonic() - began < ENOUGH
            assert (await client.decide("bob", ITEMS, timeout=0.1, fallback="tea")).fallback
            assert not long.done(), "the thread was free"
            long.cancel()

    asyncio.run(ask(f"http://127.0.0.1:{serve(silent)}"))


def test_time_spent_waiting_for_a_thread_is_not_given_again(serve):
    async def ask(url: str) -> float:
        async with cohort.AsyncClient(url, "shop", timeout=1.0, connections=1) as client:
            began = time.monotonic()
            calls = client.decide("ann", ITEMS, timeout=0.7), client.reward("d", 1.0)
            assert all(
                isinstance(said, cohort.ServiceError)
                for said in await asyncio.gather(*calls, return_exceptions=True)
            )
            return time.monotonic() - began

    # The second begins on the thread when 0.7 of its 1.0 seconds have passed; it does not get 1.0 more.
    assert asyncio.run(ask(f"http://127.0.0.1:{serve(silent)}")) < 1.6


def test_a_client_that_was_closed_says_so():
    async def ask() -> None:
        client = cohort.AsyncClient("http://127.0.0.1:9", "shop")
        await client.close()
        with pytest.raises(cohort.BadInput, match="closed"):
            await client.reward("d", 1.0)

    asyncio.run(ask())
