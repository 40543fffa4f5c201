"""From an address to a connection that is ready: TCP, TLS, versions, login."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

from kclient.config import ClientOptions
from kclient.deadline import Deadline
from kclient.errors import (
    AuthenticationError,
    ClientClosedError,
    KafkaTimeout,
    ProtocolError,
    TransportError,
)
from kclient.net import stream
from kclient.net.authentication import authenticate
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.security import Security
from kclient.net.stream import Stream
from kclient.protocol import APIS, exchange, negotiate
from kclient.protocol.negotiate import Versions
from kclient.protocol.wire import Buffer, Message
from kclient.version import __version__

_APIS_BY_NAME = {api.name: api.key for api in APIS.values()}


def caps_by_key(caps: Mapping[str, int]) -> dict[int, int]:
    """Version caps by API key. Raises ConfigError for a name that no API has."""
    from kclient.config.option import unknown

    for name in caps:
        if name not in _APIS_BY_NAME:
            raise unknown(name, _APIS_BY_NAME, "API in api_version_caps")
    return {_APIS_BY_NAME[name]: version for name, version in caps.items()}


@dataclass
class Opener:
    """Opens connections for one client; remembers which addresses are brokers before 0.10."""

    options: ClientOptions
    security: Security
    caps: dict[int, int] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    """The cluster's finalized features, as the last broker told them."""
    _known: dict[str, Versions | None] = field(default_factory=dict)
    """By address: the versions of a broker that cannot say, None for one that can."""
    _lines: weakref.WeakSet[Stream] = field(default_factory=weakref.WeakSet)
    """Every stream that is open, so that ``close`` reaches those not yet handed out."""
    _is_closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards the three above."""

    def open(self, endpoint: Endpoint, deadline: Deadline) -> Connection:
        """Connect, agree on versions and log in.

        Raises TransportError, KafkaTimeout, AuthenticationError or ProtocolError, each with
        the stage it happened at and what to do.
        """
        connection = self.negotiate(endpoint, deadline)
        try:
            self.log_in(connection, deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def negotiate(self, endpoint: Endpoint, deadline: Deadline) -> Connection:
        """Connect and agree on versions; who we are is still to be said. Raises as ``open``."""
        line, versions = self._negotiated(endpoint, deadline)
        connection = Connection(line, endpoint, client_id=self.options["client_id"], caps=self.caps)
        connection.agree(versions)
        return connection

    def log_in(self, connection: Connection, deadline: Deadline, *, again: bool = False) -> None:
        """Authenticate, for the first time or ``again`` (KIP-368), if the options say so."""
        mechanism = self.security.mechanism(connection.endpoint.host, deadline)
        if mechanism is not None:
            lifetime = authenticate(
                connection, mechanism, connection.versions, deadline, again=again
            )
            connection.keep_session(lifetime)

    def close(self) -> None:
        """Open no more; whoever is at it in another thread gets an error."""
        with self._lock:
            self._is_closed = True
            lines = list(self._lines)
        for line in lines:
            line.abort()

    def forget(self, address: str) -> None:
        """Ask for the versions anew next time: the broker went, and may return as another."""
        with self._lock:
            self._known.pop(address, None)

    def _negotiated(self, endpoint: Endpoint, deadline: Deadline) -> tuple[Stream, Versions]:
        address = endpoint.address
        with self._lock:
            is_known, old = address in self._known, self._known.get(address)
        if old is not None:
            return self._connect(endpoint, deadline), old
        # A plain broker that we do not know may be a 0.9, which would leave us waiting.
        may_be_old = not is_known and not self.security.uses_sasl
        line = self._connect(endpoint, deadline)
        try:
            versions = self._ask_versions(line, 0, may_be_old, deadline)
        except TransportError as error:
            line.close()
            if isinstance(error, _ProbeRefused):
                self._remember(address, None)
                return self._negotiated(endpoint, deadline)
            if not may_be_old or self.security.tls is not None:  # TLS came with 0.9
                raise _hung_up(line.address, error) from error
            line, versions = self._asked_again(endpoint, error, deadline)
        except BaseException:
            line.close()
            raise
        self._remember(address, versions if versions.kafka else None)
        self.features = versions.features or self.features
        return line, versions

    def _remember(self, address: str, versions: Versions | None) -> None:
        with self._lock:
            self._known[address] = versions

    def _connect(self, endpoint: Endpoint, deadline: Deadline) -> Stream:
        setup = deadline.within(self.options["socket_connection_setup_timeout_ms"] / 1000)
        line = stream.connect(
            endpoint.host,
            endpoint.port,
            setup,
            tls=self.security.tls,
            max_frame=self.options["receive_message_max_bytes"],
            buffers=(self.options["send_buffer_bytes"], self.options["receive_buffer_bytes"]),
        )
        with self._lock:
            self._lines.add(line)
            is_closed = self._is_closed
        if is_closed:
            line.close()
            raise ClientClosedError("the client was closed during the call")
        return line

    def _ask_versions(
        self, line: Stream, number: int, may_be_old: bool, deadline: Deadline
    ) -> Versions:
        """What the broker speaks. ``number`` is that of the first request to be sent."""
        asked = min(negotiate.NEWEST, self.caps.get(negotiate.API_VERSIONS, negotiate.NEWEST))
        self._send(line, negotiate.request(__version__), asked, number, deadline)
        if may_be_old:
            probe = number + 1
            self._send(line, negotiate.VERSION_PROBE, 0, probe, deadline)
            frame = _receive(line, deadline, number, probe)
            if exchange.correlation_id(frame) == probe:
                return negotiate.KAFKA_0_9
            answer = negotiate.read_answer(frame, asked)
            self._skip_probe(line, probe, answer, deadline)
            number = probe
        else:
            answer = negotiate.read_answer(_receive(line, deadline, number), asked)
        while isinstance(answer, int):
            number, asked = number + 1, answer
            self._send(line, negotiate.request(__version__), asked, number, deadline)
            answer = negotiate.read_answer(_receive(line, deadline, number), asked)
        return answer

    def _skip_probe(
        self, line: Stream, number: int, told: Versions | int, deadline: Deadline
    ) -> None:
        try:
            _receive(line, deadline, number)
        except TransportError as error:
            if isinstance(told, Versions) and not told.speaks(negotiate.VERSION_PROBE, 0):
                raise _ProbeRefused(str(error)) from error
            raise _ToldAndHungUp(str(error)) from error

    def _asked_again(
        self, endpoint: Endpoint, first: TransportError, deadline: Deadline
    ) -> tuple[Stream, Versions]:
        """A broker that hung up: a 0.8, one that wants a login, one that restarts, no Kafka.

        Asked again in the reverse order, they can be told apart: only a 0.8 answers Metadata
        and then hangs up on ApiVersions.
        """
        line = self._connect(endpoint, deadline)
        try:
            self._answers_probe(line, first, deadline)
            return line, self._ask_versions(line, 1, True, deadline)
        except TransportError as error:
            line.close()
            if isinstance(error, (_HangsUp, _ToldAndHungUp)):
                raise
        except BaseException:
            line.close()
            raise
        return self._connect(endpoint, deadline), negotiate.KAFKA_0_8

    def _answers_probe(self, line: Stream, first: TransportError, deadline: Deadline) -> None:
        try:
            self._send(line, negotiate.VERSION_PROBE, 0, 0, deadline)
            _receive(line, deadline, 0)
        except TransportError as error:
            context = {"address": line.address}
            if isinstance(first, _ToldAndHungUp):
                raise AuthenticationError(
                    f"{line.address}: the broker told its versions and hung up at the next "
                    "request: this listener wants a login (security_protocol SASL_PLAINTEXT, "
                    "sasl_mechanism and so on), or the broker has another port for us",
                    stage="sasl",
                    **context,
                ) from error
            raise _HangsUp(
                f"{line.address}: whoever is there hangs up on every request; is it a Kafka "
                "listener, and does it speak plaintext (else set security_protocol)?",
                stage="kafka",
                **context,
            ) from error

    def _send(
        self, line: Stream, request: Message, version: int, number: int, deadline: Deadline
    ) -> None:
        line.send(
            exchange.request_frame(request, version, number, self.options["client_id"]), deadline
        )


class _ToldAndHungUp(TransportError):
    """The broker told its versions, and then hung up on a request for metadata."""


class _ProbeRefused(TransportError):
    """The broker is so new that it hung up on the old request we probed it with."""


class _HangsUp(TransportError):
    """Whoever is there hangs up on anything."""


def _receive(line: Stream, deadline: Deadline, *numbers: int) -> Buffer:
    """A frame that answers one of these requests. Raises ProtocolError if it does not."""
    try:
        frame = line.receive_frame(deadline)
    except KafkaTimeout as error:
        raise KafkaTimeout(
            f"{line.address}: connected, but no answer within {deadline.seconds:g} s; is it a "
            "Kafka listener, and does it speak plaintext (else set security_protocol)? A broker "
            "that hangs or is overloaded is silent, too",
            stage="kafka",
            address=line.address,
        ) from error
    number = exchange.correlation_id(frame)
    if number not in numbers:
        raise ProtocolError(
            f"{line.address} answered request {number} where {numbers[0]} was next, when asked "
            "for its versions; is this a Kafka broker?",
            stage="kafka",
            address=line.address,
        )
    return frame


def _hung_up(address: str, error: TransportError) -> TransportError:
    return TransportError(
        f"{address}: the other side hung up when asked for its versions ({error}); a broker that "
        "is going down does so, and a port that expects another security_protocol",
        stage="kafka",
        address=address,
    )
