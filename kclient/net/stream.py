"""A connected socket that sends pieces and receives frames, always against a deadline.

Every failure is told by its stage (DNS, TCP, TLS), the address it happened at, and what to do.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Sequence
from struct import Struct

from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout, ProtocolError, TransportError
from kclient.protocol.wire import Buffer

DEFAULT_MAX_FRAME = 512 * 1024 * 1024
"""Longest frame, in bytes, accepted from a broker."""

_LENGTH = Struct(">i")
_BUFFER = 64 * 1024
_MAX_PIECES = 512  # the system takes 1024 at most
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
# The first bytes of answers that tell who is there instead of Kafka, as a frame's length.
_HTTP, _TLS_ALERT, _SSH = b"HTTP", b"\x15\x03", b"SSH-"


class Stream:
    """One connection. Not for several threads at once."""

    def __init__(self, sock: socket.socket, address: str, max_frame: int) -> None:
        self.address = address
        self._sock = sock
        self._max_frame = max_frame
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # what was received and not yet read

    def send(self, parts: Sequence[Buffer], deadline: Deadline) -> None:
        """Send all pieces. Raises TransportError, or KafkaTimeout; then the stream is broken."""
        try:
            if isinstance(self._sock, ssl.SSLSocket):
                self._sock.settimeout(deadline.remaining())
                self._sock.sendall(b"".join(parts))
            else:
                self._send_pieces(parts, deadline)
        except OSError as error:
            raise self._broken(error, "sending") from error

    def _send_pieces(self, parts: Sequence[Buffer], deadline: Deadline) -> None:
        waiting = [memoryview(part).cast("B") for part in parts if len(part)]
        while waiting:
            self._sock.settimeout(deadline.remaining())
            sent = self._sock.sendmsg(waiting[:_MAX_PIECES])
            done = 0
            while done < len(waiting) and sent >= len(waiting[done]):
                sent -= len(waiting[done])
                done += 1
            del waiting[:done]
            if sent:
                waiting[0] = waiting[0][sent:]

    def receive_frame(self, deadline: Deadline) -> Buffer:
        """Read the next frame, without its length.

        Raises TransportError if the connection ends, KafkaTimeout, or ProtocolError for a
        length that no Kafka would send. The stream is broken then.
        """
        try:
            self._fill(_LENGTH.size, deadline)
            (size,) = _LENGTH.unpack_from(self._buffer, self._start)
            if not 0 <= size <= self._max_frame:
                raise self._not_kafka(size)
            self._start += _LENGTH.size
            if size <= _BUFFER:
                self._fill(size, deadline)
                frame = bytes(self._view[self._start : self._start + size])
                self._start += size
                return frame
            return self._receive_large(size, deadline)
        except OSError as error:
            raise self._broken(error, "waiting for an answer") from error

    def _receive_large(self, size: int, deadline: Deadline) -> bytearray:
        """A frame that outgrows the buffer goes straight to its own memory."""
        frame = bytearray(size)
        view = memoryview(frame)
        have = self._end - self._start
        view[:have] = self._view[self._start : self._end]
        self._start = self._end = 0
        while have < size:
            have += self._receive_into(view[have:], deadline)
        return frame

    def _fill(self, size: int, deadline: Deadline) -> None:
        """Have ``size`` unread bytes in the buffer, in one piece."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start + size > _BUFFER:
            kept = self._end - self._start
            self._buffer[:kept] = self._buffer[self._start : self._end]
            self._start, self._end = 0, kept
        while self._end - self._start < size:
            self._end += self._receive_into(self._view[self._end :], deadline)

    def _receive_into(self, view: memoryview, deadline: Deadline) -> int:
        self._sock.settimeout(deadline.remaining())
        count = self._sock.recv_into(view)
        if not count:
            raise ConnectionResetError("the broker closed the connection")
        return count

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits to be read: neither an answer nobody asked for, nor the end."""
        if self._start != self._end:
            return False
        readable, _, _ = select.select([self._sock], [], [], 0)
        return not readable

    def close(self) -> None:
        """Close the socket. Does nothing if it is closed."""
        with contextlib.suppress(OSError):
            self._sock.close()

    def _broken(self, error: OSError, doing: str) -> KafkaError:
        text = f"{self.address}: {error} while {doing}"
        if isinstance(error, TimeoutError):
            return KafkaTimeout(text, cause=error, address=self.address)
        return TransportError(text, address=self.address)

    def _not_kafka(self, size: int) -> ProtocolError:
        seen = bytes(self._view[self._start : self._end])
        known = (
            (_HTTP, "it speaks HTTP: is this the port of a web server or proxy?"),
            (_SSH, "it speaks SSH: is the port right?"),
            (_TLS_ALERT, "it speaks TLS: set security_protocol to SSL or SASL_SSL"),
        )
        for start, why in known:
            if seen.startswith(start):
                return ProtocolError(
                    f"{self.address} is not a Kafka port that speaks plaintext; {why}"
                )
        return ProtocolError(
            f"{self.address}: a frame of {size} bytes, where 0 to {self._max_frame} are allowed; "
            "is this a Kafka broker?"
        )


def connect(
    host: str,
    port: int,
    deadline: Deadline,
    *,
    tls: ssl.SSLContext | None = None,
    max_frame: int = DEFAULT_MAX_FRAME,
) -> Stream:
    """Connect to the first address of ``host`` that answers, trying each in turn.

    The name is resolved anew each time. With ``tls`` the handshake is done too, and the
    certificate checked against ``host``. Raises TransportError or KafkaTimeout.
    """
    address = f"{host}:{port}"
    sock = _connect_any(_resolve(host, port), address, deadline)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if tls is not None:
            sock = _wrap(sock, host, address, tls, deadline)
    except BaseException:
        sock.close()
        raise
    return Stream(sock, address, max_frame)


_Address = tuple[socket.AddressFamily, tuple[object, ...]]


def _resolve(host: str, port: int) -> list[_Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TransportError(
            f"{host}:{port}: the name {host!r} cannot be resolved here ({error}); "
            "check its spelling, DNS, and what the brokers advertise",
            stage="dns",
            address=f"{host}:{port}",
        ) from error
    return [(family, where) for family, _, _, _, where in found]


def _connect_any(targets: list[_Address], address: str, deadline: Deadline) -> socket.socket:
    failures: list[str] = []
    last: OSError | None = None
    for count, (family, where) in enumerate(targets):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # The time left is shared among the addresses left, so that none can use it all.
            sock.settimeout(deadline.remaining() / (len(targets) - count))
            sock.connect(where)
        except OSError as error:
            sock.close()
            failures.append(f"{where[0]}: {error.strerror or error}")
            last = error
        else:
            return sock
    text = f"{address}: no TCP connection ({'; '.join(failures)}); "
    if isinstance(last, TimeoutError):
        text += "is a firewall in between, or the host down?"
        raise KafkaTimeout(text, cause=last, stage="tcp", address=address) from last
    text += "is the broker up, and is this its port?"
    raise TransportError(text, stage="tcp", address=address) from last


def _wrap(
    sock: socket.socket, host: str, address: str, tls: ssl.SSLContext, deadline: Deadline
) -> ssl.SSLSocket:
    sock.settimeout(deadline.remaining())
    try:
        return tls.wrap_socket(sock, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise TransportError(
            f"{address}: the broker's certificate is refused: {error.verify_message}; "
            f"{_certificate_advice(error.verify_code)}",
            stage="tls",
            address=address,
        ) from error
    except TimeoutError as error:
        text = f"{address}: no answer to the TLS handshake; is it a plaintext port?"
        raise KafkaTimeout(text, cause=error, stage="tls", address=address) from error
    except OSError as error:
        raise TransportError(
            f"{address}: the TLS handshake failed ({error}); does this port speak TLS, and does "
            "the broker want a client certificate (ssl_certfile)?",
            stage="tls",
            address=address,
        ) from error


_EXPIRED, _WRONG_HOST, _WRONG_ADDRESS = 10, 62, 64


def _certificate_advice(code: int) -> str:
    if code == _EXPIRED:
        return "it has expired: renew it, or set this machine's clock"
    if code in (_WRONG_HOST, _WRONG_ADDRESS):
        return "connect by a name that it holds, or give it this one"
    return "give the CA that signed it as ssl_cafile"
