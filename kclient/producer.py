"""The producer: records in, acknowledged offsets out."""

from __future__ import annotations

import atexit
import contextlib
import copy
import logging
import os
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kclient.cluster import Metadata, Router
from kclient.config import ProducerKeywords, ProducerOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.delivery.accumulator import Accumulator
from kclient.delivery.arrow import ArrowBulk
from kclient.delivery.bulk import Bulk, SendReport
from kclient.delivery.carrier import Carrier
from kclient.delivery.drain import HASTE_SECONDS, Drain
from kclient.delivery.engine import Engine
from kclient.delivery.future import SendFuture
from kclient.delivery.gate import Gate
from kclient.delivery.identity import Identity, check_options
from kclient.delivery.intake import Intake
from kclient.delivery.metrics import Metrics
from kclient.delivery.placement import Placement
from kclient.delivery.prepared import PreparedTransaction
from kclient.delivery.rewind import Transacting, positions, rewind
from kclient.delivery.sender import Sender
from kclient.delivery.transaction import Transaction
from kclient.delivery.unseen import Unseen
from kclient.errors import (
    ConfigError,
    DeliveryError,
    KafkaError,
)
from kclient.net.pool import Pool
from kclient.types import (
    GroupMetadata,
    Header,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger(__name__)
_open_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


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
        self._options = known = resolve(ProducerOptions, given)
        is_idempotent = check_options(known, given)
        is_default = "enable_idempotence" not in given and "transactional_id" not in given
        self._pool = Pool(known)
        self._metadata = Metadata(known, self._pool)
        self._router = Router(known, self._pool, self._metadata)
        self._placement = Placement(known, self._metadata)
        self._identity = Identity(
            known, self._router, is_wanted=is_idempotent, is_default=is_default
        )
        self._metrics = Metrics()
        self._accumulator = Accumulator(known)
        self._engine = Engine(
            known, self._pool, self._metadata, self._accumulator, self._identity, self._metrics
        )
        self._unseen = Unseen()
        self._engine.settlement.on_failure = self._unseen.note
        self._carrier = Carrier(self._engine)
        self._sender = Sender(self._carrier, self._engine, self._accumulator)
        self._transaction = self._make_transaction()
        self._gate = Gate(self._pool, self._sender, self._transaction)
        self._intake = Intake(known, self._accumulator, self._placement, self._carrier, self._gate)
        self._bulk = Bulk(self._intake, self._carrier, self._sender)
        self._arrow = ArrowBulk(self._bulk, self._intake)
        self._drain = Drain(
            self._pool, self._accumulator, self._engine, self._carrier, self._sender
        )
        self._sender.owner = weakref.ref(self)
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
        batch, index, sent_ms = self._intake.append(
            topic, value, key, headers, partition, timestamp_ms, deadline, True
        )
        self._drain.wait(batch, deadline, f"sending a record to {topic!r}")
        outcome = batch.outcome(index, sent_ms)
        if isinstance(outcome, KafkaError):
            # A copy, for each raise adds to a traceback, and others share this one.
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
        not known yet. Raises as ``send``, as far as it can be told before sending. Callbacks
        of the future run in the thread that does the I/O: they should be quick.
        """
        batch, index, sent_ms = self._intake.append(
            topic, value, key, headers, partition, timestamp_ms, None, False, True
        )
        if index == 0 or not batch.is_open or self._sender.is_idle:
            self._sender.nudge()
        return SendFuture(batch, index, sent_ms)

    def send_many(
        self, topic: str, records: Iterable[Any], *, timeout: float | None = None
    ) -> SendReport:
        """Write all records of an iterable; returns when every one is acknowledged.

        Items are values, ``(key, value)`` pairs, or ``ProducerRecord``s, whose topic may be
        "" for ``topic``. Memory stays within ``buffer_memory``. ``timeout`` in seconds is for
        the last batches, after the iterable has ended. Raises DeliveryError, whose
        ``failures`` say how many records of which partition failed, and why; it stops at the
        first. After another error, or an interrupt, what was taken is still sent.
        """
        return self._bulk.send(topic, records, self._deadline(timeout).seconds)

    def send_arrow(self, topic: str, data: Any, *, timeout: float | None = None) -> SendReport:
        """Write the rows of a ``pyarrow.Table``, a ``RecordBatch`` or an iterable of them.

        Columns are ``value`` and, if they are there, ``key``, ``partition``, ``timestamp`` and
        ``headers``; null means what None does elsewhere. No Python object is made for a record,
        and serializers are not asked. Otherwise, and in what it raises, as ``send_many``; also
        raises SerializationError for other columns or types.
        """
        return self._arrow.send(topic, data, self._deadline(timeout).seconds)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything that is queued, and wait until it is acknowledged.

        ``timeout`` is in seconds (default ``delivery_timeout_ms``). Raises DeliveryError if
        records of ``submit`` failed whose futures nobody has looked at; KafkaTimeout.
        """
        self._gate.check()
        self._drain.flush(self._deadline(timeout))
        self._unseen.tell()

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of a topic. Raises TopicNotFound, KafkaTimeout."""
        self._gate.check()
        deadline = None if timeout is None else Deadline(timeout)
        return sorted(self._placement.topic(topic, deadline).view.partitions)

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
        self._gate.check()
        self._transactional().init(self._api_deadline(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises TransactionFailed if one is open, TransactionLost."""
        self._gate.check()
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
        self._end_transaction(self._api_deadline(timeout), commit=True)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what is queued and abort what was sent. Raises as ``commit_transaction``."""
        self._end_transaction(self._api_deadline(timeout), commit=False)

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Send what is queued, and leave the transaction to be ended by somebody else.

        Give what it returns to ``PreparedTransactions`` of any process, within
        ``transaction_timeout_ms``; close this producer. Raises TransactionFailed if a record
        was not delivered, TransactionLost, KafkaTimeout.
        """
        self._gate.check()
        transaction = self._transactional()
        transaction.check_open()
        self._drain.flush(self._api_deadline(timeout))
        self._unseen.clear()  # the transaction tells of them
        return transaction.prepared()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction: both count, or neither does."""
        self._gate.check()
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
                self.send_offsets_to_transaction(positions(consumer), consumer.group_metadata())
            self.commit_transaction()
        except BaseException:
            if self._transactional().can_abort:
                self.abort_transaction()
            if consumer is not None:
                rewind(consumer)
            raise

    def _end_transaction(self, deadline: Deadline, *, commit: bool) -> None:
        self._gate.check()
        transaction = self._transactional()
        transaction.start_end(commit=commit)
        self._drain.flush(deadline)
        self._unseen.clear()  # the transaction tells of them
        transaction.end(deadline, commit=commit)

    def _transactional(self) -> Transaction:
        if self._transaction is None:
            raise ConfigError("transactions need the option transactional_id")
        return self._transaction

    def _make_transaction(self) -> Transaction | None:
        name = self._options["transactional_id"]
        if name is None:
            return None
        timeout_ms = self._options["transaction_timeout_ms"]
        transaction = Transaction(name, timeout_ms, self._router, self._pool, self._identity)
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
        deadline = self._deadline(timeout)
        self._gate.close()
        # In a forked child the sockets, and who holds the locks, are the parent's.
        if not self._gate.is_forked and not self._drain.is_closed:
            self._drain.close(deadline)
            self._unseen.tell()

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_interrupt = error is not None and not isinstance(error, Exception)
        try:
            self.close(HASTE_SECONDS if is_interrupt else None)
        except DeliveryError as lost:
            if error is None:
                raise
            _log.warning("while leaving after %r: %s", error, lost)

    def __del__(self) -> None:
        gate: Gate | None = getattr(self, "_gate", None)  # None if __init__ raised
        if gate is not None and not gate.is_closed and not gate.is_forked:
            gate.close()
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
            self._drain.abandon()

    def __repr__(self) -> str:
        waiting = self._accumulator.unsettled
        state = "closed" if self._gate.is_closed else f"{waiting} batches waiting"
        return f"<Producer of {self._options['bootstrap_servers']!r}, {state}>"

    # --- inside ---

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._options["delivery_timeout_ms"] / 1000 if timeout is None else timeout)

    def _api_deadline(self, timeout: float | None) -> Deadline:
        default = self._options["default_api_timeout_ms"] / 1000
        return Deadline(default if timeout is None else timeout)


@atexit.register
def _at_exit() -> None:
    """Deliver what is left when the interpreter ends; count what cannot be."""
    for producer in list(_open_producers):
        if producer._gate.is_closed:
            continue
        try:
            producer.close(HASTE_SECONDS)
        except KafkaError as error:
            warnings.warn(f"at exit: {error}", RuntimeWarning, stacklevel=1)


def _after_fork() -> None:
    for producer in _open_producers:
        producer._gate.note_fork()


os.register_at_fork(after_in_child=_after_fork)
