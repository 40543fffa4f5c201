"""The producer: records in, acknowledged offsets out."""

from __future__ import annotations

import atexit
import contextlib
import copy
import logging
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, cast

from kclient.cluster import Metadata, Router
from kclient.config import ProducerKeywords, ProducerOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.delivery.accumulator import RECORD_OVERHEAD, Accumulator
from kclient.delivery.batch import Batch
from kclient.delivery.bulk import Failure, SendReport, Tally, now_ms, runs
from kclient.delivery.carrier import Carrier
from kclient.delivery.engine import Engine
from kclient.delivery.future import SendFuture
from kclient.delivery.identity import Identity
from kclient.delivery.metrics import Metrics
from kclient.delivery.placement import Placement, Topic
from kclient.delivery.sender import Sender
from kclient.delivery.transaction import Transaction
from kclient.errors import (
    ClientClosedError,
    ConfigError,
    DeliveryError,
    KafkaError,
    KafkaTimeout,
    RecordTooLarge,
    SerializationError,
)
from kclient.net.pool import Pool
from kclient.types import (
    GroupMetadata,
    Header,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger(__name__)
_EXIT_SECONDS = 10.0
_open_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


class Transacting(Protocol):
    """What ``transaction(consumer)`` needs of a consumer."""

    def assignment(self) -> Iterable[TopicPartition]:
        """The partitions it reads."""

    def position(self, tp: TopicPartition) -> int:
        """The offset it reads next."""

    def committed(
        self, tps: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        """The offsets its group has committed."""

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Read from another offset on."""

    def seek_to_beginning(self, tps: Iterable[TopicPartition]) -> None:
        """Read from the first offset on."""

    def group_metadata(self) -> GroupMetadata:
        """Its membership."""


class Producer:
    """Writes records to Kafka. Safe for many threads, which share batches and connections.

    ::

        with Producer("localhost:9092", compression_type="lz4") as producer:
            producer.send("orders", b"value", key=b"k")

    ``bootstrap_servers`` is ``"a:9092,b:9092"`` or a list; for the other options see
    ``kclient.config.ProducerKeywords``. Nothing is connected to before the first call.
    Raises ConfigError for unknown, wrong or contradicting options.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[ProducerKeywords]
    ) -> None:
        given = {**options, "bootstrap_servers": bootstrap_servers}
        self._options = resolve(ProducerOptions, given)
        is_idempotent = _check(self._options, given)
        self._pool = Pool(self._options)
        self._metadata = Metadata(self._options, self._pool)
        self._router = Router(self._options, self._pool, self._metadata)
        self._identity = Identity(
            self._options,
            self._router,
            is_wanted=is_idempotent,
            is_default="enable_idempotence" not in given and "transactional_id" not in given,
        )
        self._metrics = Metrics()
        self._accumulator = Accumulator(self._options)
        self._placement = Placement(self._options, self._metadata)
        self._engine = Engine(
            self._options,
            self._pool,
            self._metadata,
            self._accumulator,
            self._identity,
            self._metrics,
        )
        self._carrier = Carrier(self._engine)
        self._sender = Sender(self._carrier, self._engine, self._accumulator)
        self._transaction = self._make_transaction()
        self._unseen: list[Batch] = []
        """Batches of ``submit`` that failed, until somebody was told."""
        self._is_closed = False
        _open_producers.add(self)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object] | str | PathLike[str], **options: Any
    ) -> Producer:
        """A producer by dotted names: a mapping, or the path of a properties file.

        Java's and librdkafka's spellings are known; ``options`` win over them.
        """
        found = from_properties(ProducerOptions, properties)
        return cls(**{**found, **options})

    # --- sending ---

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        timeout: float | None = None,
    ) -> RecordMetadata:
        """Write a record and return where it landed, once it is acknowledged.

        Concurrent callers share batches; a lone one is not delayed by ``linger_ms``.
        ``timeout`` is in seconds (default ``delivery_timeout_ms``); after KafkaTimeout, or
        an interrupt, the record may still be written. Raises TopicNotFound, NotAuthorized,
        RecordTooLarge, SerializationError and whatever else went wrong.
        """
        deadline = self._deadline(timeout)
        batch, index, sent_ms = self._append(
            topic, value, key, headers, partition, timestamp_ms, deadline, is_urgent=True
        )
        self._carrier.until(lambda: batch.is_done, deadline, f"sending a record to {topic!r}")
        outcome = batch.outcome(index, sent_ms)
        if isinstance(outcome, KafkaError):
            raise copy.copy(outcome) from outcome.__cause__
        return outcome

    def submit(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SendFuture:
        """Queue a record and return at once; ``future.result(timeout)`` tells where it landed.

        Blocks, up to ``max_block_ms``, only while ``buffer_memory`` is full or the topic is
        not known yet. Raises as ``send``, as far as it can be told before sending.
        """
        batch, index, sent_ms = self._append(
            topic, value, key, headers, partition, timestamp_ms, None, is_urgent=False
        )
        return SendFuture(batch, index, sent_ms)

    def send_many(
        self, topic: str, records: Iterable[Any], *, timeout: float | None = None
    ) -> SendReport:
        """Write all records of an iterable; returns when every one is acknowledged.

        Items are values, ``(key, value)`` pairs, or ``ProducerRecord``s, whose topic may be
        "" for ``topic``. Memory stays within ``buffer_memory``. ``timeout`` in seconds is for
        the last batches, after the iterable has ended. Raises DeliveryError, whose
        ``failures`` say how many records of which partition failed, and why.
        """
        self._check_usable()
        tally = Tally()
        for run in runs(self._serialized_all(topic, records)):
            if isinstance(run, list):
                for record in run:
                    self._append_record(topic, record, tally)
            elif run.are_pairs:
                self._append_pairs(topic, run.items, tally)
            else:
                self._append_values(topic, run.items, tally)
        with self._accumulator.lock:
            for batch in tally.open:
                batch.is_urgent = True
                self._accumulator.ready[self._accumulator.partitions[batch.tp]] = None
        deadline = self._deadline(timeout)
        self._carrier.until(lambda: not tally.open, deadline, f"sending records to {topic!r}")
        if tally.failures:
            raise _delivery_error(tally.failures)
        return SendReport(tally.count, tally.offsets)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that is queued, and wait until it is acknowledged.

        ``timeout`` is in seconds (default ``delivery_timeout_ms``). Raises DeliveryError if
        records of ``submit`` failed whose futures nobody has looked at; KafkaTimeout.
        """
        self._check_usable()
        self._flush(self._deadline(timeout))
        self._raise_unseen()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic. Raises TopicNotFound, KafkaTimeout."""
        self._check_usable()
        return sorted(self._placement.topic(topic, timeout).view.partitions)

    def metrics(self) -> dict[str, Any]:
        """What was sent so far: counts, bytes, ratios, and latencies in ms."""
        return {
            **self._metrics.snapshot(),
            "buffer_bytes": self._accumulator.used,
            "batches_waiting": self._accumulator.unsettled,
        }

    # --- transactions ---

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get the transactional id's producer id, fencing whoever had it before.

        Done by the first ``begin_transaction`` too. Raises NotAuthorized, KafkaTimeout.
        """
        self._check_usable()
        self._transactional().init(self._api_deadline(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises TransactionFailed if one is open, TransactionLost."""
        self._check_usable()
        transaction = self._transactional()
        if transaction.is_new:
            transaction.init(self._api_deadline(None))
        transaction.begin()

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is queued and commit it.

        Raises TransactionFailed if a record was not delivered (then abort),
        TransactionLost if this producer is fenced, KafkaTimeout: the outcome is open then,
        and the call may be repeated.
        """
        self._check_usable()
        transaction, deadline = self._transactional(), self._api_deadline(timeout)
        transaction.start_end(commit=True)
        self._flush(deadline)
        self._unseen.clear()
        transaction.end(deadline, commit=True)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what is queued and abort what was sent. Raises as ``commit_transaction``."""
        self._check_usable()
        transaction, deadline = self._transactional(), self._api_deadline(timeout)
        transaction.start_end(commit=False)
        self._engine.drop_queued(KafkaError("the transaction was aborted before it was sent"))
        self._flush(deadline)
        self._unseen.clear()
        transaction.end(deadline, commit=False)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction: both count, or neither does."""
        self._check_usable()
        wanted = {
            tp: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for tp, offset in offsets.items()
        }
        if wanted:
            deadline = self._api_deadline(timeout)
            self._transactional().add_offsets(wanted, group_metadata, deadline)

    @contextlib.contextmanager
    def transaction(self, consumer: Transacting | None = None) -> Iterator[None]:
        """A transaction for the block: committed at its end, with the consumer's positions.

        When the block raises, the transaction is aborted and the consumer goes back to what
        its group has committed, so that the same records come again.
        """
        self.begin_transaction()
        try:
            yield
            if consumer is not None:
                tps = list(consumer.assignment())
                offsets = {tp: OffsetAndMetadata(consumer.position(tp)) for tp in tps}
                self.send_offsets_to_transaction(offsets, consumer.group_metadata())
            self.commit_transaction()
        except BaseException:
            self._abort_and_rewind(consumer)
            raise

    def _abort_and_rewind(self, consumer: Transacting | None) -> None:
        transaction = self._transactional()
        if transaction.can_abort:
            self.abort_transaction()
        if consumer is not None:
            for tp, committed in consumer.committed(list(consumer.assignment())).items():
                if committed is None:
                    consumer.seek_to_beginning([tp])
                else:
                    consumer.seek(tp, committed.offset)

    def _transactional(self) -> Transaction:
        if self._transaction is None:
            raise ConfigError("transactions need the option transactional_id")
        return self._transaction

    def _make_transaction(self) -> Transaction | None:
        name = self._options["transactional_id"]
        if name is None:
            return None
        transaction = Transaction(
            name,
            self._options["transaction_timeout_ms"],
            self._router,
            self._pool,
            self._identity,
        )
        self._identity.transaction = transaction
        self._accumulator.transactional = True
        return transaction

    # --- the end ---

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is queued, within ``timeout`` seconds, and close all connections.

        Default is ``delivery_timeout_ms``. Raises DeliveryError, counting what could not be
        delivered; the producer is closed in any case. An open transaction is aborted by the
        broker in its time. May be called again.
        """
        if self._is_closed:
            return
        self._is_closed = True
        _open_producers.discard(self)
        try:
            if self._accumulator.unsettled:
                with contextlib.suppress(KafkaTimeout):
                    self._flush(self._deadline(timeout))
            self._engine.drop_all(ClientClosedError("the producer was closed before delivery"))
        finally:
            self._sender.stop()
            self._engine.close()
            self._pool.close()
        self._raise_unseen()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except DeliveryError as lost:
            if error is None:
                raise
            _log.warning("while leaving after %r: %s", error, lost)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{self._accumulator.unsettled} batches waiting"
        return f"<Producer of {self._options['bootstrap_servers']!r}, {state}>"

    # --- inside ---

    def _append(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[Header],
        partition: int | None,
        timestamp_ms: int | None,
        deadline: Deadline | None,
        *,
        is_urgent: bool,
    ) -> tuple[Batch, int, int]:
        """Put a record into its partition's open batch; returns its place there and its time."""
        self._check_usable()
        if key is not None and type(key) is not bytes:
            key = self._bytes(key, "key", topic)
        if value is not None and type(value) is not bytes:
            value = self._bytes(value, "value", topic)
        state = self._placement.topic(topic, None if deadline is None else deadline.left())
        size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        if size > self._options["max_request_size"]:
            raise self._too_large(topic, size)
        accumulator = self._accumulator
        if accumulator.is_full:
            self._await_room()
        sent_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        with accumulator.lock:
            tp, is_sticky = state.place(key, partition)
            batch = accumulator.append(tp, key, value, headers, sent_ms, is_urgent=is_urgent)
            index = batch.writer.count - 1
            is_closed = not accumulator.partitions[tp].is_open
            if is_sticky:
                self._placement.note(state, size, accumulator, ended=is_closed)
            if not is_urgent:
                batch.submitted += 1
                if batch.submitted == 1:
                    batch.listeners.append(self._note_failed)
        if not is_urgent and (is_closed or index == 0):
            self._sender.nudge()
        return batch, index, sent_ms

    def _append_record(self, topic: str, record: ProducerRecord, tally: Tally) -> None:
        accumulator = self._accumulator
        batch, index, _ = self._append(
            record.topic or topic,
            record.value,
            record.key,
            record.headers,
            record.partition,
            record.timestamp_ms,
            None,
            is_urgent=True,
        )
        with accumulator.lock:
            if not batch.is_done:
                tally.watch(batch, index)
        if accumulator.ready:
            self._carrier.step()

    def _append_values(self, topic: str, values: list[bytes | None], tally: Tally) -> None:
        """Values without keys: each run of them fills the sticky partition's batch."""
        self._check_sizes(topic, values)
        accumulator, start, end = self._accumulator, 0, len(values)
        while start < end:
            state = self._ready_topic(topic)
            partition = state.partitioner.partition(None, state.count, state.available)
            with accumulator.lock:
                tp = state.tps[state.sticky.current if partition is None else partition]
                start = self._append_run(tp, values, start, tally, are_pairs=False)
                if partition is None and not accumulator.partitions[tp].is_open:
                    self._placement.move_on(state, accumulator)

    def _append_pairs(self, topic: str, pairs: list[Any], tally: Tally) -> None:
        """Pairs are sorted by partition first, so that each partition takes a run of them."""
        accumulator = self._accumulator
        self._check_sizes(topic, [value for _, value in pairs])
        state = self._ready_topic(topic)
        place = state.partitioner.partition
        by_partition: dict[int | None, list[tuple[bytes | None, bytes | None]]] = {}
        for pair in pairs:
            chosen = place(pair[0], state.count, state.available)
            by_partition.setdefault(chosen, []).append(pair)
        for chosen, some in by_partition.items():
            start = 0
            while start < len(some):
                state = self._ready_topic(topic)
                with accumulator.lock:
                    tp = state.tps[state.sticky.current if chosen is None else chosen]
                    start = self._append_run(tp, some, start, tally, are_pairs=True)
                    if chosen is None and not accumulator.partitions[tp].is_open:
                        self._placement.move_on(state, accumulator)

    def _append_run(
        self, tp: TopicPartition, items: list[Any], start: int, tally: Tally, *, are_pairs: bool
    ) -> int:
        accumulator = self._accumulator
        partition = accumulator.partitions.get(tp)
        first = partition.queue[-1].count if partition is not None and partition.is_open else 0
        batch, taken = accumulator.append_run(tp, items, start, now_ms(), are_pairs=are_pairs)
        tally.watch(batch, first)
        return taken

    def _ready_topic(self, topic: str) -> Topic:
        """The topic, once there is room for more; sends meanwhile what may leave."""
        self._check_usable()
        if self._accumulator.is_full:
            self._await_room()
        elif self._accumulator.ready:
            self._carrier.step()
        return self._placement.topic(topic)

    def _check_sizes(self, topic: str, values: list[bytes | None]) -> None:
        largest = max((len(value) for value in values if value is not None), default=0)
        if largest + RECORD_OVERHEAD > self._options["max_request_size"]:
            raise self._too_large(topic, largest + RECORD_OVERHEAD)

    def _serialized_all(self, topic: str, records: Iterable[Any]) -> Iterable[Any]:
        """Items with keys and values as bytes, if there are serializers to do so."""
        if self._options["value_serializer"] is None and self._options["key_serializer"] is None:
            return records
        return (self._serialized(topic, item) for item in records)

    def _serialized(self, topic: str, item: Any) -> Any:
        if isinstance(item, ProducerRecord):
            return item  # serialized when it is appended
        if isinstance(item, tuple) and len(item) == 2:
            return self._maybe(item[0], "key", topic), self._maybe(item[1], "value", topic)
        return self._maybe(item, "value", topic)

    def _maybe(self, data: Any, what: str, topic: str) -> bytes | None:
        return data if data is None or type(data) is bytes else self._bytes(data, what, topic)

    def _bytes(self, data: Any, what: str, topic: str) -> bytes | None:
        """Serialize a key or value that is not bytes. Raises SerializationError."""
        serializer = self._options["key_serializer" if what == "key" else "value_serializer"]
        if serializer is None:
            if isinstance(data, (bytes, bytearray, memoryview)):
                return bytes(data)
            raise SerializationError(
                f"a {what} for topic {topic!r} is {type(data).__name__}, not bytes: encode it, "
                f"or give the producer a {what}_serializer",
                topic=topic,
            )
        try:
            made = serializer(data)
        except Exception as error:
            raise SerializationError(
                f"the {what}_serializer failed for topic {topic!r}: {error!r}", topic=topic
            ) from error
        if made is None or isinstance(made, bytes):
            return made
        raise SerializationError(
            f"the {what}_serializer returned {type(made).__name__}, not bytes", topic=topic
        )

    def _too_large(self, topic: str, size: int) -> RecordTooLarge:
        limit = self._options["max_request_size"]
        return RecordTooLarge(
            f"a record of {size} bytes for topic {topic!r} is over max_request_size ({limit}); "
            "raise that, and the topic's max.message.bytes, or send less at once",
            topic=topic,
        )

    def _await_room(self) -> None:
        seconds = self._options["max_block_ms"] / 1000
        if not seconds:
            raise KafkaTimeout(f"buffer_memory ({self._options['buffer_memory']} bytes) is full")
        what = f"waiting for room in buffer_memory ({self._options['buffer_memory']} bytes)"
        self._carrier.until(lambda: not self._accumulator.is_full, Deadline(seconds), what)

    def _flush(self, deadline: Deadline) -> None:
        with self._accumulator.lock:
            self._accumulator.is_flushing += 1
            self._accumulator.close_all()
            wanted = [
                batch
                for partition in self._accumulator.partitions.values()
                for batch in partition.unsettled()
            ]
        try:
            self._carrier.until(
                lambda: all(batch.is_done for batch in wanted), deadline, "flushing"
            )
        finally:
            with self._accumulator.lock:
                self._accumulator.is_flushing -= 1

    def _note_failed(self, batch: Batch) -> None:
        if batch.error is not None:
            self._unseen.append(batch)

    def _raise_unseen(self) -> None:
        unseen, self._unseen = self._unseen, []
        failures = [
            Failure(
                batch.tp.topic, batch.tp.partition, batch.submitted, cast(KafkaError, batch.error)
            )
            for batch in unseen
            if batch.observed < batch.submitted
        ]
        if failures:
            raise _delivery_error(failures)

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ClientClosedError("the producer is closed")
        self._pool.check_usable()
        self._sender.check()

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._options["delivery_timeout_ms"] / 1000 if timeout is None else timeout)

    def _api_deadline(self, timeout: float | None) -> Deadline:
        default = self._options["default_api_timeout_ms"] / 1000
        return Deadline(default if timeout is None else timeout)


def _check(options: ProducerOptions, given: Mapping[str, object]) -> bool:
    """Refuse options that contradict each other; tell whether idempotence is on."""
    is_asked = given.get("enable_idempotence") is True or options["transactional_id"] is not None
    can = options["acks"] in ("all", -1) and options["max_in_flight_requests_per_connection"] <= 5
    if is_asked and not can:
        raise ConfigError(
            "idempotence (and transactional_id) needs acks='all' and at most 5 "
            "max_in_flight_requests_per_connection"
        )
    if options["transactional_id"] is not None and not options["enable_idempotence"]:
        raise ConfigError("transactional_id needs enable_idempotence")
    if options["delivery_timeout_ms"] < options["linger_ms"]:
        raise ConfigError("delivery_timeout_ms is shorter than linger_ms")
    return options["enable_idempotence"] and can


def _delivery_error(failures: Sequence[Failure]) -> DeliveryError:
    count = sum(failure.count for failure in failures)
    return DeliveryError(
        f"{count} records were not delivered; the first error: {failures[0].error}", failures
    )


@atexit.register
def _at_exit() -> None:
    """Deliver what is left when the interpreter ends; count what cannot be."""
    for producer in list(_open_producers):
        try:
            producer.close(_EXIT_SECONDS)
        except KafkaError as error:
            _log.warning("at exit: %s", error)
