"""A connected socket that sends pieces and receives frames, always against a deadline.

Every failure is told by its stage (DNS, TCP, TLS), the address it happened at, and what to do.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from itertools import islice
from struct import Struct

from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout, ProtocolError, TransportError
from kclient.net.dialing import dial, resolve
from kclient.net.endpoint import Endpoint
from kclient.net.handshake import shake_hands, tls_failure
from kclient.protocol.wire import Buffer

DEFAULT_MAX_FRAME = 512 * 1024 * 1024
"""Longest frame, in bytes, accepted from a broker."""

_LENGTH = Struct(">i")
_BUFFER = 64 * 1024
_MAX_PIECES = 512  # the system takes 1024 at most
_LONGEST_WAIT_MS = 3_600_000  # the system counts milliseconds in 31 bits
_SHOWN = 24  # bytes of a foreign answer that an error quotes
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
_TLS_ALERT = b"\x15\x03"
_TLS_ALERT_START = int.from_bytes(_TLS_ALERT, "big")
# Who is there instead of Kafka, by the first bytes of what it says.
_FOREIGN = (
    (b"HTTP", "it speaks HTTP: is this the port of a web server or proxy?"),
    (b"SSH-", "it speaks SSH: is the port right?"),
    (_TLS_ALERT, "it speaks TLS: set security_protocol to SSL or SASL_SSL"),
)
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stream:
    """One connection that never blocks by itself. Not for several threads at once.

    ``queue`` and ``poll_frame`` do what is possible now, for an owner that watches several
    streams by their ``fileno``; ``send`` and ``receive_frame`` wait, up to a deadline. After
    an error, or an interrupt in the middle, the stream is broken: close it.
    """

    def __init__(self, sock: socket.socket, address: str, max_frame: int) -> None:
        sock.setblocking(False)
        self.address = address
        self._sock = sock
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self._max_frame = max_frame
        self._unsent: deque[memoryview] = deque()
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # what was received and not yet read
        self._frame: bytearray | None = None  # one that outgrows the buffer, in the making
        self._have = 0
        self._is_kafka = False  # once a first frame has come
        self._poller = select.poll()
        self._poller.register(sock, select.POLLIN)
        self._polled = select.POLLIN

    def fileno(self) -> int:
        """The socket's number, for a selector; -1 when it is closed."""
        return self._sock.fileno()

    # --- sending ---

    def send(self, parts: Sequence[Buffer], deadline: Deadline) -> None:
        """Send all pieces. Raises TransportError, or KafkaTimeout."""
        self.queue(parts)
        while self._unsent:
            self._wait(select.POLLOUT, deadline, "sending")
            self.push()

    def queue(self, parts: Sequence[Buffer]) -> None:
        """Send what the system takes now; ``push`` sends the rest. Raises TransportError.

        The pieces must not change before ``has_unsent`` is False.
        """
        self._unsent.extend(memoryview(part).cast("B") for part in parts if len(part))
        self.push()

    @property
    def has_unsent(self) -> bool:
        """Whether the system has not taken everything yet."""
        return bool(self._unsent)

    def push(self) -> None:
        """Send more of what is queued, as far as the system takes it. Raises TransportError."""
        try:
            while self._unsent:
                self._push_once()
        except _NOT_NOW:
            return
        except OSError as error:
            raise self._broken(self._alert() or error, "sending") from error

    def _push_once(self) -> None:
        waiting = self._unsent
        if self._is_tls or len(waiting) == 1:
            sent = self._sock.send(waiting[0])
        else:
            sent = self._sock.sendmsg(list(islice(waiting, _MAX_PIECES)))
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.popleft())
        if sent:
            waiting[0] = waiting[0][sent:]

    # --- receiving ---

    def receive_frame(self, deadline: Deadline) -> Buffer:
        """Wait for the next frame and return it, without its length.

        Raises TransportError if the connection ends, KafkaTimeout, or ProtocolError for a
        length that no Kafka would send.
        """
        # An answer is seldom there already: asking the system first would be in vain.
        while self._start == self._end and not self._has_decrypted:
            self._wait(select.POLLIN, deadline, "waiting for an answer")
            if (frame := self.poll_frame()) is not None:
                return frame
        while (frame := self.poll_frame()) is None:
            self._wait(select.POLLIN, deadline, "waiting for an answer")
        return frame

    def poll_frame(self) -> Buffer | None:
        """Return the next frame if it is here, without waiting. Raises as ``receive_frame``."""
        try:
            while (frame := self._take_frame()) is None:
                self._receive_some()
        except _NOT_NOW:
            return None
        except OSError as error:
            raise self._broken(error, "waiting for an answer") from error
        return frame

    @property
    def _has_decrypted(self) -> bool:
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def _take_frame(self) -> Buffer | None:
        """A whole frame from what was received; one too large for the buffer is begun."""
        if self._frame is not None:
            if self._have < len(self._frame):
                return None
            frame, self._frame = self._frame, None
            return frame
        have = self._end - self._start
        if have < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self._max_frame:
            raise self._not_kafka(size)
        if not self._is_kafka:
            # An alert of TLS would be a length of 352 MB: no first answer has that.
            if size >> 16 == _TLS_ALERT_START:
                raise self._not_kafka(size)
            self._is_kafka = True
        begin = self._start + _LENGTH.size
        if have - _LENGTH.size >= size:
            self._start = begin + size
            return bytes(self._view[begin : self._start])
        if size > _BUFFER - _LENGTH.size:
            # It goes straight to its own memory, which is received into without a copy.
            self._frame = bytearray(size)
            self._have = self._end - begin
            self._frame[: self._have] = self._view[begin : self._end]
            self._start = self._end = 0
        return None

    def _receive_some(self) -> None:
        if self._frame is not None:
            self._have += self._receive_into(memoryview(self._frame)[self._have :])
            return
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == _BUFFER:
            kept = self._end - self._start
            self._buffer[:kept] = self._buffer[self._start : self._end]
            self._start, self._end = 0, kept
        self._end += self._receive_into(self._view[self._end :])

    def _receive_into(self, view: memoryview) -> int:
        count = self._sock.recv_into(view)
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        return count

    # --- the rest ---

    def _wait(self, events: int, deadline: Deadline, doing: str) -> None:
        """Wait until the socket is ready, sending meanwhile what is still queued."""
        if self._unsent:
            events |= select.POLLOUT
        if events != self._polled:
            self._poller.modify(self._sock, events)
            self._polled = events
        try:
            left = deadline.remaining()
        except TimeoutError as error:
            raise self._broken(error, doing) from error
        ready = self._poller.poll(min(left * 1000 + 1, _LONGEST_WAIT_MS))
        if ready and self._unsent and ready[0][1] & select.POLLOUT:
            self.push()

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the connection ends: ``abort`` cuts it short."""
        self._poller.modify(self._sock, 0)  # the end is told even to those who ask for nothing
        self._polled = 0
        self._poller.poll(min(seconds * 1000, _LONGEST_WAIT_MS))

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be read: neither an answer nobody asked for, nor the end."""
        if self._start != self._end or self._frame is not None:
            return False
        self._poller.modify(self._sock, select.POLLIN)
        self._polled = select.POLLIN
        if not self._has_decrypted and not self._poller.poll(0):
            return True
        if not self._is_tls:
            return False
        try:  # TLS talks to itself, too: tickets, new keys
            self._receive_some()
        except _NOT_NOW:
            return True
        except OSError:
            return False
        return False

    def abort(self) -> None:
        """End the connection, from any thread: whoever waits on it gets an error at once."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket. Does nothing if it is closed."""
        with contextlib.suppress(OSError):
            self._sock.close()

    def _alert(self) -> ssl.SSLError | None:
        """Why the broker hung up, if it said so by TLS: the alert waits to be read."""
        if self._is_tls:
            try:
                self._sock.recv(1)
            except ssl.SSLError as alert:
                return None if isinstance(alert, _NOT_NOW) or not alert.reason else alert
            except OSError:
                pass
        return None

    def _broken(self, error: OSError, doing: str) -> KafkaError:
        if isinstance(error, ssl.SSLError):
            return tls_failure(error, self.address)
        text = f"{self.address}: {error} while {doing}"
        if isinstance(error, TimeoutError):
            return KafkaTimeout(text, address=self.address)
        return TransportError(text, address=self.address)

    def _not_kafka(self, size: int) -> ProtocolError:
        seen = bytes(self._view[self._start : self._end])
        for start, why in _FOREIGN:
            if seen.startswith(start):
                text = f"{self.address} is not a Kafka port that speaks plaintext; {why}"
                break
        else:
            text = (
                f"{self.address}: a frame of {size} bytes, where 0 to {self._max_frame} are "
                f"allowed; it begins with {seen[:_SHOWN]!r}: is this a Kafka broker?"
            )
        return ProtocolError(text, stage="kafka", address=self.address)


def connect(
    host: str,
    port: int,
    deadline: Deadline,
    *,
    tls: ssl.SSLContext | None = None,
    max_frame: int = DEFAULT_MAX_FRAME,
    buffers: tuple[int, int] = (-1, -1),
) -> Stream:
    """Connect to the first address of ``host`` that answers, trying each in turn.

    The name is resolved anew each time. With ``tls`` the handshake is done too, and the
    certificate checked against ``host``. ``buffers`` are the system's, for sending and
    receiving, in bytes; -1 leaves them. Raises TransportError, KafkaTimeout, or
    AuthenticationError for a certificate.
    """
    address = Endpoint(-1, host, port).address
    sock = dial(resolve(host, port, deadline), address, deadline)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        for option, size in zip((socket.SO_SNDBUF, socket.SO_RCVBUF), buffers, strict=True):
            if size >= 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        if tls is not None:
            sock = shake_hands(sock, host, address, tls, deadline)
    except BaseException:
        sock.close()
        raise
    return Stream(sock, address, max_frame)
