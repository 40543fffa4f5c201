"""A Kafka 0.7 broker in memory, and a server that misbehaves to order, both on 127.0.0.1.

Written from the wire format document with struct, and on purpose without kclient's codec:
a mistake there must not be answered by the same mistake here.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from zlib import crc32

_AnyServer = TypeVar("_AnyServer", bound="_Server")


class _Server:
    """Accepts connections on a free port and serves each in a thread of its own."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.ended = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self: _AnyServer) -> _AnyServer:
        self._threads[0].start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(5)

    def hang_up(self) -> None:
        """Close every connection there is."""
        for conn in self._open:
            with suppress(OSError):
                conn.shutdown(socket.SHUT_RDWR)

    def serve(self, conn: socket.socket) -> None:
        raise NotImplementedError

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(conn)
            thread = threading.Thread(target=self._serve, args=(conn,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, conn: socket.socket) -> None:
        with conn, suppress(OSError):
            self.serve(conn)
        self.ended += 1


def wait_until(happened: Callable[[], bool]) -> None:
    """Give the server's threads up to 10 s for something that they will do."""
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def read_frame(conn: socket.socket) -> bytes:
    """One request without its length; OSError when the other side is gone."""
    (length,) = struct.unpack(">i", _read(conn, 4))
    return _read(conn, length)


def _read(conn: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = conn.recv(size - len(data))
        if not chunk:
            raise OSError("the client is gone")
        data += chunk
    return data


class FaultyServer(_Server):
    """Reads one request on each connection, sends ``answer``, and holds on or hangs up."""

    def __init__(self, answer: bytes = b"", *, hold: bool = False) -> None:
        super().__init__()
        self.answer = answer
        self.hold = hold

    def serve(self, conn: socket.socket) -> None:
        read_frame(conn)
        conn.sendall(self.answer)
        while self.hold and conn.recv(1024):
            pass


class _Refused(OSError):
    """A 0.7 broker answers a request it cannot take by closing the connection."""


class _Log:
    def __init__(self) -> None:
        self.start = 0
        self.data = b""
        self.segments = [(0, 0)]  # first offset, time of the last change in ms

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class MemoryBroker(_Server):
    """Answers the five requests of Kafka 0.7 from logs in memory."""

    def __init__(self, *, partitions: int = 4, max_message_size: int = 1_000_000) -> None:
        super().__init__()
        self.logs: dict[tuple[str, int], _Log] = {}
        self.requests: list[bytes] = []
        self._partitions = partitions
        self._max_message_size = max_message_size
        self._handlers: tuple[Callable[[bytes], bytes], ...] = (
            self._produce,
            self._fetch,
            self._multifetch,
            self._multiproduce,
            self._offsets,
        )

    def append(self, topic: str, partition: int, data: bytes) -> int:
        """Put bytes at the end of a log, unchecked; the offset they start at."""
        log = self.logs.setdefault((topic, partition), _Log())
        log.data += data
        return log.end - len(data)

    def expire(self, topic: str, partition: int, offset: int) -> None:
        """Forget what is before ``offset``, as retention does."""
        log = self.logs[topic, partition]
        log.data = log.data[offset - log.start :]
        log.start = offset
        log.segments = [(offset, 0)]

    def roll(self, topic: str, partition: int, time_ms: int) -> None:
        """Begin a new segment at the log's end, as of ``time_ms``."""
        log = self.logs[topic, partition]
        log.segments.append((log.end, time_ms))

    def serve(self, conn: socket.socket) -> None:
        while True:
            request = read_frame(conn)
            self.requests.append(request)
            (kind,) = struct.unpack_from(">h", request)
            conn.sendall(self._handlers[kind](request[2:]))

    def _produce(self, body: bytes) -> bytes:
        if self._append_one(body):
            raise _Refused("bytes after the messages")
        return b""

    def _multiproduce(self, body: bytes) -> bytes:
        (count,) = struct.unpack_from(">h", body)
        body = body[2:]
        for _ in range(count):
            body = self._append_one(body)
        return b""

    def _append_one(self, body: bytes) -> bytes:
        topic, partition, body = _topic_partition(body)
        (length,) = struct.unpack_from(">i", body)
        messages, rest = body[4 : 4 + length], body[4 + length :]
        self._validate(messages)
        self.append(topic, max(partition, 0), messages)
        return rest

    def _validate(self, messages: bytes) -> None:
        while messages:
            length, magic = struct.unpack_from(">ib", messages)
            header = 9 if magic == 0 else 10
            (checksum,) = struct.unpack_from(">I", messages, header - 4)
            payload = messages[header : 4 + length]
            if crc32(payload) != checksum or len(payload) > self._max_message_size:
                raise _Refused("bad message")
            messages = messages[4 + length :]

    def _fetch(self, body: bytes) -> bytes:
        return self._fetch_one(body)[0]

    def _multifetch(self, body: bytes) -> bytes:
        (count,) = struct.unpack_from(">h", body)
        body = body[2:]
        answers = b""
        for _ in range(count):
            answer, body = self._fetch_one(body)
            answers += answer
        return struct.pack(">ih", 2 + len(answers), 0) + answers

    def _fetch_one(self, body: bytes) -> tuple[bytes, bytes]:
        topic, partition, body = _topic_partition(body)
        offset, max_size = struct.unpack_from(">qi", body)
        code, data = self._read_log(topic, partition, offset, max_size)
        return struct.pack(">ih", 2 + len(data), code) + data, body[12:]

    def _read_log(
        self, topic: str, partition: int, offset: int, max_size: int
    ) -> tuple[int, bytes]:
        if not 0 <= partition < self._partitions:
            return 3, b""
        log = self.logs.get((topic, partition))
        if log is None:
            return 0, b""
        if not log.start <= offset <= log.end:
            return 1, b""
        return 0, log.data[offset - log.start :][:max_size]

    def _offsets(self, body: bytes) -> bytes:
        topic, partition, body = _topic_partition(body)
        time_ms, max_offsets = struct.unpack_from(">qi", body)
        log = self.logs.get((topic, partition), _Log())
        if time_ms == -1:
            found = [log.end] + [first for first, _ in reversed(log.segments)]
        elif time_ms == -2:
            found = [log.start]
        else:
            found = [first for first, changed in reversed(log.segments) if changed < time_ms]
        found = found[:max_offsets]
        body = struct.pack(f">i{len(found)}q", len(found), *found)
        return struct.pack(">ih", 2 + len(body), 0) + body


def _topic_partition(body: bytes) -> tuple[str, int, bytes]:
    (length,) = struct.unpack_from(">h", body)
    (partition,) = struct.unpack_from(">i", body, 2 + length)
    return body[2 : 2 + length].decode(), partition, body[6 + length :]
