"""What works and what does not between here and a cluster, step by step.

DNS, TCP, TLS, ApiVersions, SASL for each bootstrap address; then, by the first one that works,
the metadata, every listener that the brokers advertise, and a group's coordinator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from kclient.cluster.metadata import Metadata, metadata_request
from kclient.cluster.retry import Backoff, retry
from kclient.cluster.router import Router
from kclient.cluster.target import Coordinator, CoordinatorKind
from kclient.config import AdminOptions, ClientOptions, parse_servers, resolve
from kclient.deadline import Deadline
from kclient.errors import KafkaError
from kclient.net import stream
from kclient.net.connection import Connection
from kclient.net.dialing import dial
from kclient.net.dialing import resolve as resolve_name
from kclient.net.endpoint import Endpoint
from kclient.net.opening import Opener, caps_by_key
from kclient.net.pool import Pool
from kclient.net.security import Security
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kclient.config import AdminKeywords

DEFAULT_SECONDS = 10.0
_GROUP = "kclient-doctor"
_LANE = "doctor"


class Outcome(str, Enum):
    """How a step went."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class Stage(str, Enum):
    """What a step is about."""

    DNS = "DNS"
    TCP = "TCP"
    TLS = "TLS"
    API_VERSIONS = "ApiVersions"
    SASL = "SASL"
    METADATA = "Metadata"
    LISTENER = "Listener"
    COORDINATOR = "Coordinator"


_ADVICE = {
    Stage.DNS: "try `getent hosts {host}`; correct the name, this machine's resolver or /etc/hosts",
    Stage.TCP: "see that the broker runs, listens on port {port} (`ss -ltn` there) and that no "
    "firewall is in between (`nc -vz {host} {port}`)",
    Stage.TLS: "look with `openssl s_client -connect {host}:{port}`; give the CA as ssl_cafile, or "
    "another security_protocol",
    Stage.API_VERSIONS: "see that this is a Kafka listener, and which security_protocol it has "
    "(listener.security.protocol.map of the broker)",
    Stage.SASL: "check sasl_mechanism and the credentials; the broker's log tells more",
    Stage.METADATA: "see the broker's log; this user may need the right to describe the cluster",
    Stage.LISTENER: "clients connect to what the broker advertises: correct advertised.listeners "
    "there, or make {host}:{port} reachable from here",
    Stage.COORDINATOR: "see that the topic __consumer_offsets has leaders and enough replicas",
}


@dataclass(frozen=True)
class Step:
    """One step: what was tried, with whom, how it went, and what to do if it did not.

    ``detail`` is what was found, or the error. ``milliseconds`` is how long it took.
    """

    stage: Stage
    target: str
    outcome: Outcome
    milliseconds: float = 0.0
    detail: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All steps, in the order they were made."""

    steps: tuple[Step, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether no step failed."""
        return all(step.outcome is not Outcome.FAILED for step in self.steps)

    @property
    def failures(self) -> tuple[Step, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.outcome is Outcome.FAILED)


def diagnose(
    bootstrap_servers: str | Sequence[str],
    *,
    timeout: float = DEFAULT_SECONDS,
    **options: Unpack[AdminKeywords],
) -> Diagnosis:
    """Walk every step to a cluster and tell how each went; ``timeout`` is in seconds, for each.

    Options are those of every client. What fails is in the result. Raises ConfigError for
    options that are wrong. Asking for a group's coordinator has a new cluster create its
    ``__consumer_offsets`` topic, as the first consumer would.
    """
    resolved = resolve(AdminOptions, {**options, "bootstrap_servers": bootstrap_servers})
    Deadline(timeout)  # raises if it is none
    return Diagnosis(tuple(_Walk(resolved, timeout).steps()))


class _Walk:
    """One walk through all steps."""

    def __init__(self, options: ClientOptions, seconds: float) -> None:
        self._options = options
        self._seconds = seconds
        self._security = Security.from_options(options)
        self._opener = Opener(options, self._security, caps_by_key(options["api_version_caps"]))
        self._connections: list[Connection] = []  # those of bootstrap addresses that work

    def steps(self) -> Iterator[Step]:
        try:
            servers = parse_servers(self._options["bootstrap_servers"])
            for number, (host, port) in enumerate(servers):
                yield from self._reach(Endpoint(-1 - number, host, port))
            if self._connections:
                yield from self._inside(self._connections[0])
            else:
                for stage in (Stage.METADATA, Stage.LISTENER, Stage.COORDINATOR):
                    why = "no bootstrap address works"
                    yield Step(stage, "the cluster", Outcome.SKIPPED, detail=why)
        finally:
            for connection in self._connections:
                connection.close()

    def _reach(self, where: Endpoint) -> Iterator[Step]:
        """From a name to a connection that is logged in."""
        ways: list[tuple[Stage, str | Callable[[Deadline], str]]] = [
            (Stage.DNS, partial(self._resolve, where)),
            (Stage.TCP, partial(self._dial, where)),
            (Stage.TLS, self._why_no_tls or partial(self._shake_hands, where)),
            (Stage.API_VERSIONS, partial(self._negotiate, where)),
            (Stage.SASL, self._why_no_sasl or self._log_in),
        ]
        failed: Stage | None = None
        for stage, way in ways:
            if failed or isinstance(way, str):
                why = f"{failed.value} failed" if failed else str(way)
                yield Step(stage, where.address, Outcome.SKIPPED, detail=why)
                continue
            step = self._timed(stage, where, where.address, way)
            yield step
            if step.outcome is Outcome.FAILED:
                failed = stage
        if failed is Stage.SASL:
            self._connections.pop().close()

    @property
    def _why_no_tls(self) -> str:
        return "" if self._security.tls else f"not used: {self._options['security_protocol']}"

    @property
    def _why_no_sasl(self) -> str:
        return "" if self._security.uses_sasl else f"not used: {self._options['security_protocol']}"

    def _timed(
        self, stage: Stage, where: Endpoint, target: str, way: Callable[[Deadline], str]
    ) -> Step:
        started = time.perf_counter()
        step = Step(stage, target, Outcome.OK)
        try:
            step = replace(step, detail=way(Deadline(self._seconds)))
        except KafkaError as error:
            advice = _ADVICE[stage].format(host=where.host, port=where.port)
            step = replace(step, outcome=Outcome.FAILED, detail=str(error), advice=advice)
        return replace(step, milliseconds=(time.perf_counter() - started) * 1000)

    # --- to one address ---

    def _resolve(self, where: Endpoint, deadline: Deadline) -> str:
        found = resolve_name(where.host, where.port, deadline)
        return ", ".join(dict.fromkeys(str(address[0]) for _, address in found))

    def _dial(self, where: Endpoint, deadline: Deadline) -> str:
        found = resolve_name(where.host, where.port, deadline)
        with dial(found, where.address, deadline) as sock:
            return f"connected to {sock.getpeername()[0]}"

    def _shake_hands(self, where: Endpoint, deadline: Deadline) -> str:
        line = stream.connect(where.host, where.port, deadline, tls=self._security.tls)
        line.close()
        return f"the certificate is good for {where.host}"

    def _negotiate(self, where: Endpoint, deadline: Deadline) -> str:
        connection = self._opener.negotiate(where, deadline)
        self._connections.append(connection)
        if connection.versions.kafka:
            return f"a broker before 0.10, which cannot say: Kafka {connection.versions.kafka}"
        version = connection.version_of(MetadataRequest)
        return f"{len(connection.versions.ranges)} APIs; Metadata in v{version}"

    def _log_in(self, deadline: Deadline) -> str:
        self._opener.log_in(self._connections[-1], deadline)
        return f"logged in by {self._options['sasl_mechanism']}"

    # --- in the cluster ---

    def _inside(self, entrance: Connection) -> Iterator[Step]:
        here, brokers = entrance.endpoint, list[Endpoint]()
        ask = partial(self._ask_metadata, entrance, brokers)
        yield self._timed(Stage.METADATA, here, entrance.address, ask)
        pool = Pool(self._options)
        try:
            for each in brokers:
                yield self._timed(Stage.LISTENER, each, str(each), partial(self._open, pool, each))
            find = partial(self._find_coordinator, pool)
            yield self._timed(Stage.COORDINATOR, here, f"group {_GROUP!r}", find)
        finally:
            pool.close()

    def _ask_metadata(
        self, connection: Connection, brokers: list[Endpoint], deadline: Deadline
    ) -> str:
        version = connection.version_of(MetadataRequest)
        answer = connection.ask(metadata_request((), version), version, deadline)
        assert isinstance(answer, MetadataResponse)
        brokers += sorted(
            Endpoint(each.node_id, each.host, each.port, each.rack) for each in answer.brokers
        )
        listed = ", ".join(str(broker.node) for broker in brokers) or "none"
        name = f"cluster {answer.cluster_id}, " if answer.cluster_id else ""
        return f"{name}brokers: {listed}"

    def _open(self, pool: Pool, where: Endpoint, deadline: Deadline) -> str:
        with pool.lease(where, _LANE, deadline) as connection:
            return f"{len(connection.versions.ranges)} APIs"

    def _find_coordinator(self, pool: Pool, deadline: Deadline) -> str:
        metadata = Metadata(self._options, pool)
        router = Router(self._options, pool, metadata)
        target = Coordinator(CoordinatorKind.GROUP, _GROUP)
        found = retry(
            lambda: router.locate(target, deadline),
            f"looking for {target}",
            deadline,
            Backoff(self._options),
        )
        return str(found)
