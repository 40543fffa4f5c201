"""``FakeCluster``: Kafka brokers in this process, for the faults that real ones do not show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TypeVar

from kclient.errors import ConfigError, KafkaError, ProtocolError, broker_error
from kclient.protocol.negotiate import Versions
from kclient.protocol.wire import Buffer
from kclient.testing.fake.codes import Refusal
from kclient.testing.fake.faults import Fault
from kclient.testing.fake.handlers import HANDLERS
from kclient.testing.fake.journal import SeenRequest
from kclient.testing.fake.script import ScriptedFault
from kclient.testing.fake.server import Broker
from kclient.testing.fake.state import ClusterState, Node, Settings
from kclient.testing.fake.versions import Speaks, api_key, spoken
from kclient.testing.ports import HOST, PortLease, lease_port
from kclient.types import Record, TopicPartition

T = TypeVar("T")
_SILENT = "0.9"  # the one Kafka that neither answers nor hangs up on what it does not know


class FakeCluster:
    """Brokers 1 to ``brokers`` on ports of 127.0.0.1, with logs in memory.

        with FakeCluster(brokers=3, topics={"orders": 6}) as cluster:
            cluster.on("Produce", error_code(6), nth=2)
            producer = Producer(cluster.bootstrap_servers)

    They speak Kafka's frames over real sockets: any client can be tested with them.
    ``topics`` maps names to numbers of partitions. ``speaks`` limits versions, as
    ``{"Fetch": 11, "InitProducerId": None}``. ``racks`` maps brokers to racks. With
    ``sasl`` clients have to authenticate by PLAIN (any user, or those of a mapping to
    passwords) or OAUTHBEARER (any token), again every ``session_lifetime_ms`` if that is
    not 0. ``transaction_version`` is the finalized feature of that name: 2 for KIP-890.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        speaks: Speaks | None = None,
        racks: Mapping[int, str] | None = None,
        replication: int | None = None,
        min_insync_replicas: int = 1,
        max_message_bytes: int = 1_048_588,
        auto_create_topics: bool = False,
        transaction_version: int = 2,
        sasl: bool | Mapping[str, str] = False,
        session_lifetime_ms: int = 0,
        group_heartbeat_interval_ms: int = 5000,
        group_session_timeout_ms: int = 45_000,
    ) -> None:
        if brokers < 1:
            raise ConfigError(f"a fake cluster has at least one broker, not {brokers}")
        self._wanted = dict(topics or {})
        self._leases: list[PortLease] = []
        self._racks = dict(racks or {})
        self._settings = Settings(
            cluster_id="fake-kclient-cluster-0",
            replication=min(3, brokers) if replication is None else replication,
            min_insync_replicas=min_insync_replicas,
            max_message_bytes=max_message_bytes,
            auto_create_topics=auto_create_topics,
            transaction_version=transaction_version,
            sasl=sasl,
            session_lifetime_ms=session_lifetime_ms,
            heartbeat_interval_ms=group_heartbeat_interval_ms,
            session_timeout_ms=group_session_timeout_ms,
        )
        nodes = {number: self._node(number, speaks) for number in range(1, brokers + 1)}
        self._state = ClusterState(self._settings, nodes)
        self._brokers: dict[int, Broker] = {}

    def _node(self, number: int, speaks: Speaks | None) -> Node:
        versions = spoken(HANDLERS, speaks or {})
        silent = isinstance(speaks, Versions) and speaks.kafka == _SILENT
        return Node(number, HOST, 0, self._racks.get(number), versions, silent)

    def __repr__(self) -> str:
        return f"<FakeCluster {self.bootstrap_servers if self._brokers else '(closed)'}>"

    # --- life -------------------------------------------------------------------------------

    def __enter__(self) -> FakeCluster:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except BaseException:
            # What went wrong in the test explains more than what it did to the fake.
            if error is None:
                raise

    def open(self) -> FakeCluster:
        """Start the brokers and make the topics. Raises KafkaError if it is open."""
        if self._brokers:
            raise KafkaError("the fake cluster is open")
        number = itertools.count(1).__next__
        for node in self._state.nodes.values():
            lease = lease_port()
            self._leases.append(lease)
            node.port = lease.port
            self._brokers[node.id] = Broker(self._state, node, number)
        for node_id in self._state.nodes:
            self.start(node_id)
        for name, partitions in self._wanted.items():
            self.create_topic(name, partitions)
        return self

    def close(self) -> None:
        """Stop the brokers; does nothing if they are. Raises what went wrong inside the fake."""
        brokers, self._brokers = self._brokers, {}
        for node_id, broker in brokers.items():
            broker.stop()
            self._state.set_alive(node_id, False)
        for lease in self._leases:
            lease.release()
        self._leases.clear()
        for broker in brokers.values():
            for failure in broker.failures:
                raise failure

    # --- brokers ----------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """All addresses, with commas, in the order of the brokers."""
        return ",".join(self.address(node) for node in self._state.nodes)

    def address(self, node: int) -> str:
        """``host:port`` of a broker, which it keeps when it is killed and started."""
        found = self._state.node(node)
        return f"{found.host}:{found.port}"

    def kill(self, node: int) -> None:
        """Close a broker's port and connections; other brokers take over what it led."""
        self._broker(node).stop()
        self._state.set_alive(node, False)

    def start(self, node: int) -> None:
        """Let a killed broker listen again; it leads only what nobody else does."""
        self._broker(node).start()
        self._state.set_alive(node, True)

    def pause(self, node: int) -> None:
        """Let a broker accept connections and bytes, but neither do nor answer anything."""
        self._set_paused(node, True)

    def resume(self, node: int) -> None:
        """Let a paused broker go on, with what arrived meanwhile first."""
        self._set_paused(node, False)

    def _set_paused(self, node: int, is_paused: bool) -> None:
        with self._state.changed:
            self._state.node(node).is_paused = is_paused
            self._state.changed.notify_all()

    def hang_up(self, node: int) -> None:
        """Close a broker's connections; it goes on listening."""
        self._broker(node).hang_up()

    def connections(self, node: int) -> int:
        """How many connections to a broker are open."""
        return self._broker(node).connections

    def set_versions(self, node: int, speaks: Speaks) -> None:
        """Let one broker speak other versions from now on, as during an upgrade."""
        with self._state.changed:
            self._state.node(node).versions = spoken(HANDLERS, speaks)

    def _broker(self, node: int) -> Broker:
        self._state.node(node)
        try:
            return self._brokers[node]
        except KeyError:
            raise KafkaError("the fake cluster is not open") from None

    # --- topics and logs ----------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic. Raises BrokerError as a broker would, say TopicExists."""
        self._do(
            f"creating the topic {name!r}",
            lambda: self._state.create_topic(name, partitions, configs=configs),
        )

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its records. Raises TopicNotFound."""
        self._do(f"deleting the topic {name!r}", lambda: self._state.delete_topic(name))

    def records(self, tp: TopicPartition) -> list[Record]:
        """The data records in a partition's log, also of open and aborted transactions."""
        with self._state.changed:
            return self._state.partition(tp).log.records(tp.topic, tp.partition)

    def append(self, tp: TopicPartition, batches: Buffer) -> int:
        """Put batches of any format at a log's end, unchecked but for their lengths.

        They get offsets and the leader's epoch. Returns the first offset.
        """
        with self._state.changed:
            partition = self._state.partition(tp)
            offset = partition.log.append(batches, partition.leader_epoch)
            self._state.changed.notify_all()
            return offset

    def truncate(self, tp: TopicPartition, offset: int) -> None:
        """Lose the records from ``offset`` on, as an unclean election does.

        A batch that holds ``offset`` goes whole. The leader starts a new epoch.
        """
        with self._state.changed:
            partition = self._state.partition(tp)
            partition.log.truncate(offset)
            partition.lead_by(partition.leader)
            self._state.changed.notify_all()

    def delete_records(self, tp: TopicPartition, before: int) -> None:
        """Forget the records before an offset, as retention does. Raises OffsetOutOfRange."""
        log = self._state.partition(tp).log
        self._do(f"deleting records of {tp}", lambda: log.delete_before(before))

    def forget_producer(self, tp: TopicPartition, producer_id: int) -> None:
        """Lose a partition's memory of an idempotent producer."""
        with self._state.changed:
            self._state.partition(tp).log.sequences.forget(producer_id)

    def leader(self, tp: TopicPartition) -> int:
        """The broker that leads a partition, -1 if none does."""
        with self._state.changed:
            return self._state.partition(tp).leader

    def move_leader(self, tp: TopicPartition, node: int) -> None:
        """Let another broker lead a partition, in a new epoch."""
        self._state.move_leader(tp, node)

    def forget_fetch_sessions(self, node: int) -> None:
        """Drop a broker's fetch sessions (KIP-227), as a full cache does."""
        with self._state.changed:
            self._state.node(node).fetch_sessions.clear()

    # --- coordinators -------------------------------------------------------------------------

    def coordinator(self, key: str) -> int:
        """The broker that coordinates a group or transactional id."""
        with self._state.changed:
            return self._state.coordinator(key)

    def move_coordinator(self, key: str, node: int) -> None:
        """Let another broker coordinate a group or transactional id; nothing is lost."""
        self._state.move_coordinator(key, node)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed."""
        with self._state.changed:
            offsets = self._state.groups.offsets(group_id).committed
            return {tp: committed.offset for tp, committed in offsets.items()}

    # --- script and journal -------------------------------------------------------------------

    def on(
        self,
        api: str,
        *faults: Fault,
        nth: int = 1,
        times: int | None = 1,
        node: int | None = None,
        matching: Callable[[SeenRequest], bool] | None = None,
    ) -> ScriptedFault:
        """Let ``faults`` happen to requests that arrive from now on.

        It is the ``nth`` one to ``api`` and those after it, ``times`` in all (None: all of
        them), of one ``node`` or any, counting only requests that are ``matching``.
        Faults of several such calls add up. Raises ConfigError for an unknown API or broker.
        """
        api_key(api)
        if nth < 1 or (times is not None and times < 1):
            raise ConfigError(f"nth and times count from 1, not nth={nth}, times={times}")
        if node is not None:
            self._state.node(node)

        def is_meant(seen: SeenRequest) -> bool:
            return node in (None, seen.node) and (matching is None or matching(seen))

        last = None if times is None else nth + times - 1
        entry = ScriptedFault(self._state.changed, api, faults, nth, last, is_meant)
        self._state.script.add(entry)
        return entry

    def requests(self, api: str | None = None, *, node: int | None = None) -> list[SeenRequest]:
        """The requests that have arrived so far, of one API or broker, or all."""
        return self._state.journal.requests(api, node)

    def await_request(
        self, api: str, *, nth: int = 1, node: int | None = None, timeout: float = 10.0
    ) -> SeenRequest:
        """The ``nth`` request to ``api`` since the start, which may have arrived already.

        ``timeout`` is in seconds. Raises KafkaTimeout, saying what arrived instead.
        """
        api_key(api)
        return self._state.journal.await_nth(api, nth, node, timeout)

    def forget_requests(self) -> None:
        """Empty the journal, so that ``requests`` and ``await_request`` begin anew."""
        self._state.journal.clear()

    @property
    def malformed(self) -> list[ProtocolError]:
        """What was wrong with bytes that are no requests; each ended its connection."""
        return list(self._state.malformed)

    def _do(self, what: str, action: Callable[[], T]) -> T:
        with self._state.changed:
            try:
                done = action()
            except Refusal as refusal:
                raise broker_error(refusal.code, f"fake cluster, {what}") from None
            self._state.changed.notify_all()
            return done
