"""A connection to one broker that has agreed on versions, and on who we are.

Requests may be pipelined: answers come in the order of the requests, and each is checked
against the number of the one it must answer. A connection has one owner at a time.
"""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple, TypeVar, cast

from kclient.deadline import Deadline
from kclient.errors import KafkaTimeout, ProtocolError, TransportError
from kclient.net.endpoint import Endpoint
from kclient.net.stream import Stream
from kclient.protocol import exchange
from kclient.protocol.negotiate import API_VERSIONS, Versions
from kclient.protocol.wire import Buffer, Message

M = TypeVar("M", bound=Message)
_CORRELATION_LIMIT = 1 << 31
_REST = 5  # how often a session is renewed early: at 4/5 of its life


class InFlight(NamedTuple):
    """A request that was sent and not answered. ``sent_at`` is of time.monotonic()."""

    correlation_id: int
    request: type[Message]
    version: int
    sent_at: float


class Answer(NamedTuple):
    """A frame and the request it answers; decoded when somebody has the time."""

    to: InFlight
    frame: Buffer

    def decode(self) -> Message:
        """The response. Raises ProtocolError if the frame holds anything else."""
        return exchange.decode_response(self.to.request, self.to.version, self.frame)


class Connection:
    """A stream with versions; see the module.

    ``ask`` is one round trip. ``send`` and ``receive`` pipeline; ``post`` and ``poll`` do so
    without waiting, for an owner that watches several connections by their ``fileno``.
    After an error the connection is closed: ``is_open`` tells.
    """

    def __init__(
        self,
        stream: Stream,
        endpoint: Endpoint,
        *,
        client_id: str,
        caps: dict[int, int] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.address = endpoint.address
        self.versions = Versions({})
        self.is_open = True
        self.last_used = time.monotonic()
        self.throttled_until = 0.0
        self.login_due = 0.0
        """When to log in again, by time.monotonic(); 0 for never (KIP-368)."""
        self._stream = stream
        self._client_id = client_id
        self._caps = caps or {}
        self._next_id = 0
        self._in_flight: deque[InFlight] = deque()
        self._chosen: dict[type[Message], int] = {}
        self._honours_throttle = False

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Connection to {self.endpoint}, {state}, {len(self._in_flight)} in flight>"

    def fileno(self) -> int:
        """The socket's number, for a selector."""
        return self._stream.fileno()

    def agree(self, versions: Versions) -> None:
        """Use these versions from now on."""
        self.versions = versions
        self._chosen.clear()
        # Since 2.0, which has ApiVersions v2, brokers answer at once and leave the waiting
        # to the client (KIP-219); older ones have waited already.
        self._honours_throttle = versions.ranges.get(API_VERSIONS, (0, 0))[1] >= 2

    def version_of(self, request: type[Message]) -> int:
        """The version to speak of an API. Raises UnsupportedVersion, naming both ranges."""
        version = self._chosen.get(request)
        if version is None:
            cap = self._caps.get(cast(int, request.API_KEY))
            version = self._chosen[request] = self.versions.choose(request, at_most=cap)
        return version

    # --- pipelining ---

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._in_flight)

    @property
    def oldest(self) -> InFlight | None:
        """The request whose answer comes next."""
        return self._in_flight[0] if self._in_flight else None

    @property
    def has_unsent(self) -> bool:
        """Whether part of a posted request still waits for the system to take it."""
        return self._stream.has_unsent

    def ready_at(self, now: float) -> float:
        """When the next request may leave: ``now``, or later if the broker throttles us."""
        return max(now, self.throttled_until)

    def send(
        self,
        request: Message,
        deadline: Deadline,
        *,
        version: int | None = None,
        answered: bool = True,
    ) -> InFlight:
        """Send a request, waiting as long as the broker throttles us.

        Not ``answered`` is a Produce with acks=0. Raises what ``post`` raises, KafkaTimeout.
        """
        self._await_throttle(deadline)
        sent = self.post(request, version=version, answered=answered)
        with _Closing(self):
            if self._stream.has_unsent:
                self._stream.send((), deadline)
        return sent

    def post(
        self, request: Message, *, version: int | None = None, answered: bool = True
    ) -> InFlight:
        """Queue a request, and send as much of it as goes at once.

        Raises TransportError if the connection is or gets broken; UnsupportedVersion and
        ProtocolError if the request cannot be encoded, and the connection stays open then.
        """
        if not self.is_open:
            raise TransportError(f"the connection to {self.endpoint} is closed")
        kind = type(request)
        chosen = self.version_of(kind) if version is None else version
        number = self._next_id
        frame = exchange.request_frame(request, chosen, number, self._client_id)
        self._next_id = (number + 1) % _CORRELATION_LIMIT
        self.last_used = time.monotonic()
        sent = InFlight(number, kind, chosen, self.last_used)
        if answered:
            self._in_flight.append(sent)
        with _Closing(self):
            self._stream.queue(frame)
        return sent

    def push(self) -> None:
        """Send more of what was posted. Raises TransportError."""
        with _Closing(self):
            self._stream.push()

    def receive(self, deadline: Deadline) -> Answer:
        """Wait for the answer to the oldest request.

        Raises TransportError, KafkaTimeout, or ProtocolError for an answer to anything else;
        the connection is closed then, for what comes next would be taken for another's.
        """
        with _Closing(self):
            return self._matched(self._stream.receive_frame(deadline))

    def poll(self) -> Answer | None:
        """Return the answer to the oldest request if it is here. Raises as ``receive``."""
        with _Closing(self):
            frame = self._stream.poll_frame()
            return None if frame is None else self._matched(frame)

    def _matched(self, frame: Buffer) -> Answer:
        number = exchange.correlation_id(frame)
        if not self._in_flight:
            raise ProtocolError(
                f"{self.endpoint} sent an answer (number {number}) that nobody asked for; "
                "the connection is closed"
            )
        oldest = self._in_flight[0]
        if number != oldest.correlation_id:
            raise ProtocolError(
                f"{self.endpoint} answered request {number} where {oldest.correlation_id} was "
                f"next; the connection is closed"
            )
        self._in_flight.popleft()
        self.last_used = time.monotonic()
        return Answer(oldest, frame)

    # --- round trips ---

    def ask(self, request: Message, version: int, deadline: Deadline) -> Message:
        """One round trip. Raises what ``send`` and ``receive`` raise."""
        self.send(request, deadline, version=version)
        return self.decode(self.receive(deadline))

    def decode(self, answer: Answer) -> Message:
        """The response of an answer, whose throttle time is kept for the next ``send``.

        A response that is not what its version says closes the connection: ProtocolError.
        """
        with _Closing(self):
            response = answer.decode()
        if self._honours_throttle:
            throttle: int = getattr(response, "throttle_time_ms", 0)
            if throttle > 0:
                self.throttled_until = time.monotonic() + throttle / 1000
        return response

    def ask_raw(self, token: bytes, deadline: Deadline) -> bytes:
        """A bare frame each way, as SASL had them before it had an API."""
        with _Closing(self):
            self._stream.send([exchange.LENGTH.pack(len(token)), token], deadline)
            return bytes(self._stream.receive_frame(deadline))

    def _await_throttle(self, deadline: Deadline) -> None:
        wait = self.throttled_until - time.monotonic()
        if wait <= 0:
            return
        if wait >= deadline.left():
            raise KafkaTimeout(
                f"{self.endpoint} throttles this client for {wait:.3g} s more, which is longer "
                f"than the {deadline.seconds:g} s of this call; see the cluster's quotas"
            )
        self._stream.pause(wait)

    # --- the end ---

    def keep_session(self, seconds: float) -> None:
        """Note how long the login lasts, 0 for ever: it is renewed before that."""
        self.login_due = time.monotonic() + seconds * (1 - 1 / _REST) if seconds else 0.0

    @property
    def is_stale(self) -> bool:
        """Whether the broker hung up, or said something unasked, while nothing was in flight."""
        return not self.is_open or (not self._in_flight and not self._stream.is_quiet)

    def abort(self) -> None:
        """End the connection under its owner, who is in another thread and gets an error."""
        self._stream.abort()

    def close(self) -> None:
        """Close the socket; requests in flight are lost. May be called again."""
        self.is_open = False
        self._stream.close()


class _Closing:
    """Closes the connection when the block fails, for whatever reason: an interrupt too."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            self._connection.close()
