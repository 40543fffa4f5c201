"""A small blocking client of one Kafka 0.7 broker: one socket, one request at a time."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from kclient.compression import DEFAULT_MAX_OUTPUT
from kclient.deadline import Deadline
from kclient.errors import (
    ClientClosedError,
    ConfigError,
    KafkaError,
    KafkaTimeout,
    PartialFailure,
    TransportError,
)
from kclient.kafka07 import codec
from kclient.kafka07.codec import Fetch, Message, MessageSet, Produce

_CHUNK = 1 << 16


class Client:
    """A client of the Kafka 0.7 broker at ``host:port``, connected on the first call.

    ``timeout`` is the time in seconds that any one call may take, connecting included (looking
    up the host's name is up to the system); each call takes its own ``timeout`` as well.
    ``max_decompressed`` bounds, in bytes, what the compressed messages of one fetch unpack to.

    After a failure the socket is dropped and the next call connects anew; nothing is retried.
    Threads may share a client: their calls go one after the other. All calls raise KafkaTimeout,
    TransportError, ProtocolError, Kafka07Error for the broker's error codes, and
    ClientClosedError after ``close()``.
    """

    def __init__(
        self,
        host: str,
        port: int = 9092,
        *,
        timeout: float = 30.0,
        max_decompressed: int = DEFAULT_MAX_OUTPUT,
    ) -> None:
        if not 0 < port < 1 << 16:
            raise ConfigError(f"port is a number from 1 to 65535, not {port!r}")
        Deadline(timeout)  # a bad default is best refused here, not by the first call
        self._host, self._port = host, port
        self._timeout = timeout
        self._max_decompressed = max_decompressed
        self._lock = threading.Lock()  # guards the three below: one call owns the socket
        self._sock: socket.socket | None = None
        self._pid = os.getpid()
        self._unanswered = 0
        self._closed = False

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<kclient.kafka07.Client {self._host}:{self._port}{state}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a call that is under way in another thread fails."""
        self._closed = True
        sock = self._sock
        if sock is not None and self._pid == os.getpid():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits on it
        with self._lock:
            self._drop()

    def produce(
        self,
        topic: str,
        partition: int,
        payloads: Iterable[bytes],
        *,
        compression: str | None = None,
        magic: int = 1,
        timeout: float | None = None,
    ) -> None:
        """Append ``payloads`` to a partition; -1 lets the broker choose one.

        ``compression`` is "gzip", "snappy" or None; ``magic`` 0 is for readers older than 0.7.

        Kafka 0.7 never answers a produce: a return means that the bytes were handed to the
        network. A broker that refuses them (too large, topic's name not allowed) closes the
        connection, and the *next* call raises TransportError. It works through a connection in
        order, so the answer to any later call proves that the messages before it were taken.
        """
        produce = Produce(topic, partition, payloads, compression, magic)
        with self._explained(f"produce to {topic}/{partition}"):
            self._exchange(codec.encode_produce(produce), None, timeout)

    def multiproduce(self, produces: Sequence[Produce], *, timeout: float | None = None) -> None:
        """Append to several partitions in one request; see ``produce`` for what a return means."""
        with self._explained(f"multiproduce to {len(produces)} partitions"):
            self._exchange(codec.encode_multiproduce(produces), None, timeout)

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_size: int = codec.DEFAULT_MAX_SIZE,
        timeout: float | None = None,
    ) -> MessageSet:
        """Messages from byte ``offset`` of a partition's log on, up to ``max_size`` bytes of them.

        At the log's end, and for a topic the broker does not have, the set is empty: 0.7 tells
        neither apart, and answers at once. Raises FetchSizeTooSmall if the first message is
        larger than ``max_size``, Kafka07OffsetOutOfRange, and CorruptRecord.
        """
        fetch = Fetch(topic, partition, offset, max_size)
        with self._explained(_describe(fetch)):
            body = self._exchange(codec.encode_fetch(fetch), 2 + max_size, timeout)
            return codec.decode_fetch_response(body, fetch, max_decompressed=self._max_decompressed)

    def multifetch(
        self, fetches: Sequence[Fetch], *, timeout: float | None = None
    ) -> list[MessageSet]:
        """Several fetches in one request, their message sets in the same order.

        Raises PartialFailure if some failed, with ``.results`` and ``.failures`` by Fetch.
        """
        with self._explained(f"multifetch of {len(fetches)} partitions"):
            limit = 2 + sum(6 + fetch.max_size for fetch in fetches)
            body = self._exchange(codec.encode_multifetch(fetches), limit, timeout)
            answers = codec.decode_multifetch_response(
                body, fetches, max_decompressed=self._max_decompressed
            )
        results: dict[Fetch, MessageSet] = {}
        failures: dict[Fetch, KafkaError] = {}
        for fetch, answer in zip(fetches, answers, strict=True):
            if isinstance(answer, KafkaError):
                failures[fetch] = self._explain(answer, _describe(fetch))
            else:
                results[fetch] = answer
        if failures:
            raise PartialFailure(
                f"{len(failures)} of {len(fetches)} fetches failed, the first with: "
                f"{next(iter(failures.values()))}",
                results,
                failures,
            )
        return [results[fetch] for fetch in fetches]

    def offsets(
        self,
        topic: str,
        partition: int,
        time: int = codec.LATEST,
        max_offsets: int = 1,
        *,
        timeout: float | None = None,
    ) -> list[int]:
        """Up to ``max_offsets`` offsets to fetch from, newest first, valid before ``time``.

        ``time`` is in ms since the epoch, ``LATEST`` (the log's end) or ``EARLIEST`` (its
        start). Brokers know the starts of their log's segments only, so the answer is coarse.
        """
        with self._explained(f"offsets of {topic}/{partition}"):
            request = codec.encode_offsets(topic, partition, time, max_offsets)
            return codec.decode_offsets_response(
                self._exchange(request, 6 + 8 * max_offsets, timeout)
            )

    def consume(
        self,
        topic: str,
        partition: int,
        offset: int | None = None,
        *,
        max_size: int = codec.DEFAULT_MAX_SIZE,
        timeout: float | None = None,
    ) -> Iterator[Message]:
        """Every message from ``offset`` (None: the earliest kept) to the log's end, then stop.

        Each fetch on the way brings up to ``max_size`` bytes within ``timeout`` seconds, and
        raises what ``fetch`` does.
        """
        if offset is None:
            earliest = self.offsets(topic, partition, codec.EARLIEST, timeout=timeout)
            offset = earliest[0] if earliest else 0
        while True:
            found = self.fetch(topic, partition, offset, max_size=max_size, timeout=timeout)
            yield from found
            # A wrapper may hold no message at all: only an offset that stands still is the end.
            if found.next_offset == offset:
                return
            offset = found.next_offset

    def _exchange(self, request: bytes, limit: int | None, timeout: float | None) -> bytearray:
        """Send a request; its response of up to ``limit`` bytes, or nothing for None."""
        deadline = Deadline(self._timeout if timeout is None else timeout)
        unanswered = 0
        try:
            if not self._lock.acquire(timeout=deadline.remaining()):
                raise TimeoutError("other threads' calls took all of the time")
            try:
                return self._exchange_locked(request, limit, deadline)
            except BaseException:
                # Whatever stopped us, an answer may still be under way: never read it as another's.
                unanswered = self._unanswered
                self._drop()
                raise
            finally:
                self._lock.release()
        except (OSError, UnicodeError) as error:
            raise self._failure(error, unanswered, deadline.seconds) from error

    def _failure(self, error: Exception, unanswered: int, seconds: float) -> KafkaError:
        text = str(error) or type(error).__name__
        if unanswered:
            text += (
                f"; {unanswered} produce requests before this call went unanswered, so their "
                "messages may be lost (the broker's log tells which it refused)"
            )
        if self._closed:
            return ClientClosedError(f"the client was closed during the call: {text}")
        if isinstance(error, TimeoutError):
            return KafkaTimeout(
                f"not done within {seconds:g} s, raise timeout?: {text}", cause=error
            )
        return TransportError(text)

    def _exchange_locked(self, request: bytes, limit: int | None, deadline: Deadline) -> bytearray:
        sock = self._connection(deadline)
        sock.settimeout(deadline.remaining())
        sock.sendall(request)
        if limit is None:
            self._unanswered += 1
            return bytearray()
        prefix = self._receive(sock, 4, deadline)
        body = self._receive(sock, codec.response_length(prefix, limit), deadline)
        self._unanswered = 0
        return body

    def _connection(self, deadline: Deadline) -> socket.socket:
        """Return the open socket, or a new one where there is none or the broker hung up."""
        if self._closed:
            raise ClientClosedError("the client is closed")
        if self._pid != os.getpid():
            self._drop()  # a forked child must not talk into its parent's connection
            self._pid = os.getpid()
        if self._sock is not None and not _is_quiet(self._sock):
            if self._unanswered:
                raise ConnectionError("the broker hung up before this call, which was not sent")
            self._drop()
        if self._sock is None:
            self._sock = _connect(self._host, self._port, deadline)
        return self._sock

    def _receive(self, sock: socket.socket, size: int, deadline: Deadline) -> bytearray:
        data = bytearray()
        while len(data) < size:
            sock.settimeout(deadline.remaining())
            # In chunks, so that a length that lies costs no more memory than was really sent.
            chunk = sock.recv(min(size - len(data), _CHUNK))
            if not chunk:
                raise ConnectionError(
                    f"the broker hung up after {len(data)} of {size} bytes of its answer; if it "
                    "is newer than Kafka 0.7, it does not understand this client"
                )
            data += chunk
        return data

    def _drop(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._sock = None
        self._unanswered = 0

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            self._explain(error, what)
            raise

    def _explain(self, error: KafkaError, what: str) -> KafkaError:
        """Make the error say what was tried and where."""
        error.args = (f"{what} at {self._host}:{self._port}: {error}", *error.args[1:])
        return error


def _describe(fetch: Fetch) -> str:
    return f"fetch of {fetch.topic}/{fetch.partition} from offset {fetch.offset}"


def _is_quiet(sock: socket.socket) -> bool:
    """Whether the peer neither hung up nor sent bytes that nobody asked for."""
    sock.setblocking(False)
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _connect(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first address of ``host`` that answers."""
    failure = OSError("its name has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(deadline.remaining())
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            sock.close()
            failure = error
        else:
            return sock
    if isinstance(failure, TimeoutError):
        raise failure
    raise ConnectionError(f"cannot connect: {failure}; does a broker listen there?") from failure
