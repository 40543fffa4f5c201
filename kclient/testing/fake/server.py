"""A fake broker's socket: a thread accepts, a thread serves each connection."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout, ProtocolError
from kclient.protocol import (
    APIS,
    REQUESTS,
    Message,
    request_header_version,
    response_header_version,
)
from kclient.protocol.exchange import LENGTH
from kclient.protocol.messages.headers import RequestHeader, ResponseHeader
from kclient.testing.fake.authentication import Authentication
from kclient.testing.fake.call import Call, HangUp, Silence
from kclient.testing.fake.codes import Refusal
from kclient.testing.fake.faults import Fault
from kclient.testing.fake.handlers import API_VERSIONS, handle, newest_answer
from kclient.testing.fake.journal import SeenRequest
from kclient.testing.fake.state import ClusterState, Node

_MAX_FRAME = 100 * 1024 * 1024  # socket.request.max.bytes of a broker
_FAREWELL_SECONDS = 10.0


class _Malformed(ProtocolError):
    """A client sent what is no request; distinct from errors of the fake itself."""


class Broker:
    """The listening socket of one node, and the connections that it accepted."""

    def __init__(self, state: ClusterState, node: Node, number: Callable[[], int]) -> None:
        self._state = state
        self._node = node
        self._number = number
        self._listener: socket.socket | None = None
        self._threads: list[Thread] = []
        self._connections: set[Connection] = set()
        self.failures: list[BaseException] = []

    @property
    def connections(self) -> int:
        """How many are open."""
        with self._state.changed:
            return len(self._connections)

    def start(self) -> None:
        """Listen on the node's port. Raises KafkaError if it listens already."""
        if self._listener is not None:
            raise KafkaError(f"the fake broker {self._node.id} is running")
        # Bound here rather than in the thread: once this returns, clients can connect.
        self._listener = socket.create_server((self._node.host, self._node.port), backlog=128)
        self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """Close the port and every connection; returns when all threads have ended."""
        with self._state.changed:  # from here on, whoever is accepted is turned away
            listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            listener.close()
        self.hang_up()
        deadline = Deadline(_FAREWELL_SECONDS)
        for thread in list(self._threads):
            if not deadline.is_over:
                thread.join(deadline.remaining())
        stuck = [thread for thread in self._threads if thread.is_alive()]
        self._threads.clear()
        if stuck:
            raise KafkaTimeout(
                f"{len(stuck)} threads of the fake broker {self._node.id} did not end within "
                f"{_FAREWELL_SECONDS} s: does an answer() or alter() of the test block?"
            )

    def hang_up(self) -> None:
        """Close every connection there is."""
        with self._state.changed:
            for connection in self._connections:
                connection.close()
            self._state.changed.notify_all()

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        name = f"fake broker {self._node.id}"
        thread = Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            connection = Connection(self._state, self._node, sock, self._number())
            with self._state.changed:
                if self._listener is not listener:
                    sock.close()
                    return
                self._connections.add(connection)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                self._spawn(self._serve, connection)

    def _serve(self, connection: Connection) -> None:
        try:
            connection.run()
        except BaseException as error:  # told to the test when the cluster closes
            self.failures.append(error)
        finally:
            with self._state.changed:
                self._connections.discard(connection)


class Connection:
    """One accepted socket: frames in, frames out, one request after the other."""

    def __init__(self, state: ClusterState, node: Node, sock: socket.socket, number: int) -> None:
        sasl = state.settings.sasl
        self._state = state
        self._node = node
        self._sock = sock
        self._number = number
        self._is_open = True
        self._authentication = Authentication(
            required=sasl is not False,
            users=None if isinstance(sasl, bool) else sasl,
            lifetime_ms=state.settings.session_lifetime_ms,
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """End the connection from another thread; the serving one closes the socket."""
        self._is_open = False
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        """Serve until either side hangs up."""
        with self._sock:
            try:
                while (frame := self._read_frame()) is not None:
                    self._answer(frame)
            except HangUp as farewell:
                with suppress(OSError):
                    self._sock.sendall(farewell.last_words)
            except _Malformed as error:
                self._state.malformed.append(error)
            except OSError:
                pass  # the client is gone, or the test closed the connection
            finally:
                self._is_open = False

    def _read_frame(self) -> bytes | None:
        head = self._read(LENGTH.size)
        if head is None:
            return None
        (size,) = LENGTH.unpack(head)
        if not 0 <= size <= _MAX_FRAME:
            raise _Malformed(f"the length of a request says {size} bytes")
        return self._read(size)

    def _read(self, size: int) -> bytes | None:
        pieces = bytearray()
        while len(pieces) < size:
            piece = self._sock.recv(min(size - len(pieces), 1 << 20))
            if not piece:
                return None
            pieces += piece
        return bytes(pieces)

    def _answer(self, frame: bytes) -> None:
        if self._authentication.takes_raw_tokens:
            self._answer_raw_token(frame)
            return
        self._await_resume()
        seen = self._parse(frame)
        if seen is None:
            return
        reply = self._reply(seen)
        if reply:
            self._send(reply)  # without the lock: a client may be slow to read

    def _reply(self, seen: SeenRequest) -> bytes:
        """The bytes to answer with, none for no answer."""
        with self._state.changed, suppress(Silence):
            self._state.journal.add(seen)
            faults = self._state.script.take(seen)
            call = Call(self._state, self._node, seen, self._authentication, lambda: self._is_open)
            answer = self._carry_out(call, faults)
            if answer is None:
                return b""
            reply = encoded(seen, answer)
            for fault in faults:
                reply = fault.transmit(call, reply)
            self._await_resume()
            return reply
        return b""

    def _carry_out(self, call: Call, faults: Sequence[Fault]) -> Message | None:
        for fault in faults:
            fault.arrive(call)
        answer = call.replacement(call.seen) if call.replacement else handle(call)
        if answer is not None:
            for fault in faults:
                answer = fault.answer(call, answer)
        return answer

    def _send(self, reply: bytes) -> None:
        self._sock.sendall(reply)

    def _await_resume(self) -> None:
        """Wait while the broker is paused, as a stopped process would."""
        with self._state.changed:
            self._state.changed.wait_for(lambda: not (self._node.is_paused and self._is_open))
            if not self._is_open:
                raise HangUp

    def _parse(self, frame: bytes) -> SeenRequest | None:
        """The request in a frame; None if this broker ignores it, HangUp if it would."""
        if len(frame) < 8:
            raise _Malformed(f"a request of {len(frame)} bytes has no header")
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        low, high = self._node.versions.get(key, (0, -1))
        if not low <= version <= high:
            self._refuse_version(key, correlation_id)
            return None
        try:
            header, pos = RequestHeader.decode_at(frame, 0, request_header_version(key, version))
            message = REQUESTS[key].decode(memoryview(frame)[pos:], version)
        except ProtocolError as error:
            raise _Malformed(str(error)) from error
        api = APIS[key].name
        if not self._authentication.admits(api):
            raise HangUp
        return SeenRequest(
            self._node.id, api, version, header.client_id, correlation_id, message, self._number
        )

    def _refuse_version(self, key: int, correlation_id: int) -> None:
        """As brokers do: ApiVersions is answered in v0, anything else ends the connection."""
        if key == API_VERSIONS and key in self._node.versions:
            body = newest_answer(self._node).encode(0)
            head = LENGTH.pack(LENGTH.size + len(body)) + LENGTH.pack(correlation_id)
            self._send(head + body)
        elif not self._node.is_silent_on_unknown:
            raise HangUp

    def _answer_raw_token(self, frame: bytes) -> None:
        """A token behind SaslHandshake v0 has no header; a wrong one ends the connection."""
        try:
            self._authentication.step(frame)
        except Refusal:
            raise HangUp from None
        self._send(LENGTH.pack(0))


def encoded(seen: SeenRequest, answer: Message) -> bytes:
    """An answer as a frame, in the version that was asked in."""
    key = answer.API_KEY
    assert key is not None
    header = ResponseHeader(correlation_id=seen.correlation_id)
    start = header.encode(response_header_version(key, seen.version))
    body = answer.encode(seen.version)
    return LENGTH.pack(len(start) + len(body)) + start + body
