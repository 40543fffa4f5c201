"""From an address to a connection that is ready: TCP, TLS, versions, login."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from kclient.config import ClientOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, TransportError
from kclient.net import stream
from kclient.net.authentication import authenticate
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.security import Security
from kclient.net.stream import Stream
from kclient.protocol import APIS, exchange, negotiate
from kclient.protocol.negotiate import Versions
from kclient.protocol.wire import Message
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
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards ``_known``."""

    def open(self, endpoint: Endpoint, deadline: Deadline) -> Connection:
        """Connect, agree on versions and log in.

        Raises TransportError, KafkaTimeout, AuthenticationError or ProtocolError, each with
        the stage it happened at and what to do.
        """
        line, versions = self._negotiated(endpoint, deadline)
        connection = Connection(line, endpoint, client_id=self.options["client_id"], caps=self.caps)
        connection.agree(versions)
        try:
            self.log_in(connection, deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def log_in(self, connection: Connection, deadline: Deadline, *, again: bool = False) -> None:
        """Authenticate, for the first time or ``again`` (KIP-368), if the options say so."""
        mechanism = self.security.mechanism(connection.endpoint.host, deadline)
        if mechanism is not None:
            lifetime = authenticate(
                connection, mechanism, connection.versions, deadline, again=again
            )
            connection.keep_session(lifetime)

    def _negotiated(self, endpoint: Endpoint, deadline: Deadline) -> tuple[Stream, Versions]:
        address = endpoint.address
        is_known = address in self._known
        if is_known and (old := self._known[address]) is not None:
            return self._connect(endpoint, deadline), old
        # A plain broker that we do not know may be a 0.9, which would leave us waiting.
        may_be_old = not is_known and not self.security.uses_sasl
        line = self._connect(endpoint, deadline)
        try:
            versions = self._ask_versions(line, may_be_old, deadline)
        except TransportError as error:
            line.close()
            if not may_be_old or self.security.tls is not None:  # TLS came with 0.9
                raise
            return self._as_0_8(endpoint, error, deadline)
        except BaseException:
            line.close()
            raise
        self._remember(address, versions if versions.kafka else None)
        self.features = versions.features or self.features
        return line, versions

    def _connect(self, endpoint: Endpoint, deadline: Deadline) -> Stream:
        setup = deadline.within(self.options["socket_connection_setup_timeout_ms"] / 1000)
        return stream.connect(
            endpoint.host,
            endpoint.port,
            setup,
            tls=self.security.tls,
            max_frame=self.options["receive_message_max_bytes"],
            buffers=(self.options["send_buffer_bytes"], self.options["receive_buffer_bytes"]),
        )

    def _ask_versions(self, line: Stream, may_be_old: bool, deadline: Deadline) -> Versions:
        number, asked = 0, min(negotiate.NEWEST, self.caps.get(negotiate.API_VERSIONS, 99))
        self._send(line, negotiate.request(__version__), asked, number, deadline)
        if may_be_old:
            self._send(line, negotiate.VERSION_PROBE, 0, 1, deadline)
            number = 1
        frame = line.receive_frame(deadline)
        if may_be_old and exchange.correlation_id(frame) == 1:
            return negotiate.KAFKA_0_9
        answer = negotiate.read_answer(frame, asked)
        if may_be_old:
            self._skip_probe(line, deadline)
        while isinstance(answer, int):
            number, asked = number + 1, answer
            self._send(line, negotiate.request(__version__), asked, number, deadline)
            answer = negotiate.read_answer(line.receive_frame(deadline), asked)
        return answer

    def _skip_probe(self, line: Stream, deadline: Deadline) -> None:
        try:
            line.receive_frame(deadline)
        except TransportError as error:
            raise _Refused(
                f"{line.address}: the broker told its versions and hung up at the next request; "
                "does this listener want a login (security_protocol SASL_PLAINTEXT or SASL_SSL)?",
                stage="sasl",
                address=line.address,
            ) from error

    def _as_0_8(
        self, endpoint: Endpoint, first: KafkaError, deadline: Deadline
    ) -> tuple[Stream, Versions]:
        """A broker that hung up when asked for its versions: a 0.8, or no Kafka for us."""
        if isinstance(first, _Refused):
            raise first
        line = self._connect(endpoint, deadline)
        try:
            self._send(line, negotiate.VERSION_PROBE, 0, 0, deadline)
            line.receive_frame(deadline)
        except TransportError as error:
            line.close()
            raise TransportError(
                f"{line.address}: whoever is there hangs up on every request; is it a Kafka "
                "listener, and does it speak plaintext (else set security_protocol)?",
                stage="kafka",
                address=line.address,
            ) from error
        except BaseException:
            line.close()
            raise
        self._remember(endpoint.address, negotiate.KAFKA_0_8)
        return line, negotiate.KAFKA_0_8

    def _remember(self, address: str, versions: Versions | None) -> None:
        with self._lock:
            self._known[address] = versions

    def _send(
        self, line: Stream, request: Message, version: int, number: int, deadline: Deadline
    ) -> None:
        line.send(
            exchange.request_frame(request, version, number, self.options["client_id"]), deadline
        )


class _Refused(TransportError):
    """The broker is new, and does not let us in: asking in old ways would not help."""
