"""A connection on which a whole request ends at a stated moment, whatever the other side does.

The timeout of a socket is that of one operation: a server that sends a byte a second outlasts it. Here every
operation (name, connection, TLS handshake, each piece that is sent or received) is given the time that is left of
the request, and no more.
"""

from __future__ import annotations

import http.client
import io
import math
import queue
import socket
import ssl
import threading
import time
from typing import Any, cast

__all__ = ["Connection", "left", "read"]


def left(ends: float) -> float:
    """Seconds until a moment of :func:`time.monotonic`; an error where it has passed."""
    seconds = ends - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("no answer in time")
    return seconds


class Connection(http.client.HTTPConnection):
    """One to a host, with TLS where there is a context for it."""

    def __init__(self, host: str, port: int | None, tls: ssl.SSLContext | None) -> None:
        self.default_port = 80 if tls is None else 443
        super().__init__(host, port)
        self._tls = tls
        #: When whatever is under way must be over, by :func:`time.monotonic`.
        self.ends = math.inf

    def connect(self) -> None:
        """Finds the host, connects, and makes TLS of it where that is wanted."""
        plain = _connected(self.host, self.port, self.ends)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                # The time of a handshake is that of all of it.
                plain.settimeout(left(self.ends))
                plain = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        self.sock = cast(Any, _Punctual(plain, self))


class _Punctual:
    """What :mod:`http.client` needs of a socket."""

    def __init__(self, sock: socket.socket, of: Connection) -> None:
        self._sock = sock
        self._of = of

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._sock.settimeout(left(self._of.ends))
            rest = rest[self._sock.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        # It keeps the socket open until it is closed itself: that is how answers that end with their connection are read.
        unbuffered = self._sock.makefile("rb", buffering=0)
        return io.BufferedReader(_Received(self._sock, unbuffered, self._of))

    def close(self) -> None:
        self._sock.close()


class _Received(io.RawIOBase):
    def __init__(self, sock: socket.socket, unbuffered: Any, of: Connection) -> None:
        self._sock = sock
        self._unbuffered = unbuffered
        self._of = of

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(left(self._of.ends))
        count: int | None = self._unbuffered.readinto(buffer)
        return count

    def close(self) -> None:
        self._unbuffered.close()
        super().close()


def read(response: http.client.HTTPResponse, to: Any = None) -> bytes:
    """Reads an answer to its end; into a file where there is one."""
    content = []
    if to is not None:
        to.seek(0)
        to.truncate()
    while piece := response.read1(1 << 16):
        if to is not None:
            to.write(piece)
        else:
            content.append(piece)
    # A length that was promised and did not come is an error of `read`.
    content.append(response.read())
    return b"".join(content)


def _connected(host: str, port: int, ends: float) -> socket.socket:
    """Connects to the first address of a host that answers; each gets its share of the time."""
    addresses = _addresses(host, port, ends)
    why = OSError(f"{host} has no address")
    for place, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left(ends) / (len(addresses) - place))
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            why = error
        except BaseException:
            sock.close()
            raise
    raise why


def _addresses(host: str, port: int, ends: float) -> list[Any]:
    how: dict[str, Any] = {"type": socket.SOCK_STREAM}
    try:
        return socket.getaddrinfo(host, port, **how, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    # Looking a name up takes as long as the system likes: it is done on a thread that nobody has to wait for.
    found: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(list(socket.getaddrinfo(host, port, **how)))
        except Exception as why:
            found.put(why)

    threading.Thread(target=look_up, daemon=True, name="cohort-address").start()
    try:
        addresses = found.get(timeout=left(ends))
    except queue.Empty:
        raise TimeoutError(f"the address of {host} was not found in time") from None
    if isinstance(addresses, Exception):
        raise addresses
    return addresses
