"""A TCP proxy in front of one broker that counts the requests of any client, by API."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter

from kclient.protocol import APIS

_HEAD = struct.Struct(">ih")  # a request's length and its API key
_LENGTH = 4
_CHUNK = 1 << 16


class CountingProxy:
    """Listens on a port of its own; ``requests`` counts what went to ``target`` by API name."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.target = ("", 0)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self.target)
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, broker]
            for work, source, sink in (
                (self._count, client, broker),
                (self._copy, broker, client),
            ):
                threading.Thread(target=work, args=(source, sink), daemon=True).start()

    def _count(self, source: socket.socket, sink: socket.socket) -> None:
        """Pass requests on, looking at the head of each."""
        buffer, skip = b"", 0  # bytes of the present request that are still to come
        while data := _receive(source):
            sink.sendall(data)
            buffer += data
            while True:
                cut = min(skip, len(buffer))
                buffer, skip = buffer[cut:], skip - cut
                if skip or len(buffer) < _HEAD.size:
                    break
                length, key = _HEAD.unpack_from(buffer)
                with self._lock:
                    self.requests[APIS[key].name] += 1
                skip = length + _LENGTH
        _end(sink)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        while data := _receive(source):
            sink.sendall(data)
        _end(sink)


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(_CHUNK)
    except OSError:
        return b""


def _end(sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
