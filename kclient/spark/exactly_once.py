"""Writes that count exactly once: tasks prepare transactions, the driver ends them.

A task writes in a transaction of its own, whose id is made of the query and the task's
number, and does not commit it. In the same transaction it writes a marker: the offset of a
bookkeeping group, which has the name of the transactional id, that says which micro-batch
this is and how many rows it has. When all tasks are done, and only then, the driver commits
them all.

What happens when something dies, in the order in which a repeated task finds out:

1. It takes over the transactional id. That ends, by abort, what an earlier try left open,
   and fences whoever might still write or commit under the id.
2. It reads the marker. If that names this micro-batch, an earlier try was committed: the
   driver died before Spark knew. The task writes nothing.
3. Else it writes. So each task of each micro-batch is committed once, whatever dies when.

The condition is that a micro-batch that Spark repeats is cut into the same tasks: it is, if
the query is deterministic. A task that finds itself committed counts its rows, and raises if
they are not as many. What is not promised: that a reader sees all tasks of a micro-batch at
the same moment; and a transaction that waits longer than its timeout (by default 15 minutes,
which is also what brokers allow at most) is aborted, so that the micro-batch is repeated.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from kclient.delivery.prepared import PreparedTransaction, PreparedTransactions
from kclient.errors import ConfigError, KafkaError, TransactionFailed
from kclient.producer import Producer
from kclient.spark.boundary import told_plainly
from kclient.spark.options import WriteOptions, common_options
from kclient.spark.writer import check_write_schema, send_rows
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)
_TIMEOUT_MS = 900_000
_ABORT_SECONDS = 10.0
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass
class Prepared(WriterCommitMessage):
    """What a task wrote, and the transaction that holds it; None if there is nothing to end."""

    rows: int
    transaction: PreparedTransaction | None


class ExactlyOnceWriter(DataSourceArrowWriter):
    """A batch write of which a read-committed reader sees all or, if it fails, nothing."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_write_schema(schema, options)
        self._options = options
        self._prefix = options.transactional_id or f"kclient-spark-{uuid.uuid4()}"

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write a task's rows and leave them prepared, on an executor."""
        batches = _with_rows(iterator)
        if batches is None:
            return Prepared(0, None)
        name = f"{self._prefix}-{_task().partitionId()}"
        with _producer(self._options, name) as producer, _transaction(producer):
            rows = send_rows(producer, self._options.topic, batches)
            return Prepared(rows, producer.prepare_transaction())

    @told_plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done: let their rows be seen."""
        end_all(self._options, messages, commit=True)

    @told_plainly
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good: let no row be seen, and let readers wait for none.

        A task that was killed has said nothing, and its transaction would stay open until it
        times out, for nobody uses its id again: it is taken over, which aborts it.
        """
        from kclient.admin import Admin

        end_all(self._options, messages, commit=False)
        silent = [f"{self._prefix}-{task}" for task, each in enumerate(messages) if each is None]
        if silent:
            with Admin(**common_options(self._options.client)) as admin:
                admin.fence_producers(silent)


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """A stream of which a read-committed reader sees every row once; see the module."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_write_schema(schema, options)
        if options.topic is None:
            raise ConfigError(
                "a stream with kclient.delivery=exactly-once goes to one topic: set the option "
                "topic"
            )
        self._options = options

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Prepared:
        """Write a task's rows with its marker, and leave them prepared, on an executor."""
        batches = _with_rows(iterator)
        if batches is None:
            return Prepared(0, None)
        number, batch_id = _task().partitionId(), int(_property(_BATCH))
        prefix = self._options.transactional_id or f"kclient-spark-{_property(_QUERY)}"
        marker = _Marker(self._options, f"{prefix}-{number}")
        with _producer(self._options, marker.group) as producer:
            producer.init_transactions()  # before the marker is read; see the module
            done = marker.rows_of(batch_id)
            if done is not None:
                return _skipped(batches, done, batch_id, number)
            with _transaction(producer):
                rows = send_rows(producer, self._options.topic, batches)
                producer.send_offsets_to_transaction(*marker.of(batch_id, rows))
                return Prepared(rows, producer.prepare_transaction())

    @told_plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All tasks of a micro-batch are done: let their rows be seen."""
        end_all(self._options, messages, commit=True)

    @told_plainly
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """A task failed for good: let no row be seen."""
        end_all(self._options, messages, commit=False)


class _Marker:
    """The offset that says which micro-batch the tasks of one number committed last."""

    def __init__(self, options: WriteOptions, group: str) -> None:
        assert options.topic is not None
        self.group = group
        self._client = common_options(options.client)
        self._tp = TopicPartition(options.topic, 0)  # brokers want one that exists

    def rows_of(self, batch_id: int) -> int | None:
        """How many rows of a micro-batch were committed; None if it was not.

        Raises TransactionFailed if a later one was: two queries use the same id.
        """
        from kclient.admin import Admin

        with Admin(**self._client) as admin:
            found = admin.list_group_offsets(self.group, [self._tp], require_stable=True)
        marker = found.get(self._tp)
        if marker is None or marker.offset < batch_id:
            return None
        if marker.offset > batch_id:
            raise TransactionFailed(
                f"micro-batch {batch_id} comes after {marker.offset}, by the markers of group "
                f"{self.group!r}: the checkpoint is older than what was written, or another "
                "query writes under the same kclient.transactionalId"
            )
        return int(marker.metadata)

    def of(
        self, batch_id: int, rows: int
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
        """The marker for a micro-batch, to be committed with it."""
        return {self._tp: OffsetAndMetadata(batch_id, str(rows))}, GroupMetadata(self.group)


def _skipped(batches: Iterator[Any], done: int, batch_id: int, number: int) -> Prepared:
    rows = sum(batch.num_rows for batch in batches)
    if rows != done:
        raise TransactionFailed(
            f"task {number} of micro-batch {batch_id} has {rows} rows now, and {done} were "
            "committed before the restart: the query does not cut its batches into the same "
            "tasks again, so exactly-once cannot be kept"
        )
    _log.info("task %d of micro-batch %d was committed before", number, batch_id)
    return Prepared(rows, None)


def end_all(
    options: WriteOptions, messages: list[WriterCommitMessage | None], *, commit: bool
) -> None:
    """End every transaction that tasks prepared. Raises the first error, after trying all."""
    waiting = [
        message.transaction
        for message in messages
        if isinstance(message, Prepared) and message.transaction is not None
    ]
    if not waiting:
        return
    errors: list[KafkaError] = []
    with PreparedTransactions(**common_options(options.client)) as prepared:
        for transaction in waiting:
            try:
                (prepared.commit if commit else prepared.abort)(transaction)
            except KafkaError as error:
                errors.append(error)
    if errors and commit:
        raise errors[0]


@contextmanager
def _transaction(producer: Producer) -> Iterator[None]:
    """A transaction that stays open after the block, unless that fails: then it is aborted."""
    producer.begin_transaction()
    try:
        yield
    except BaseException:
        with suppress(KafkaError):
            producer.abort_transaction(_ABORT_SECONDS)
        raise


def _with_rows(batches: Iterator[Any]) -> Iterator[Any] | None:
    """The batches, if there is a row in any; Spark gives many tasks nothing to do."""
    for batch in batches:
        if batch.num_rows:
            return chain([batch], batches)
    return None


def _producer(options: WriteOptions, transactional_id: str) -> Producer:
    given = {"transaction_timeout_ms": _TIMEOUT_MS, **options.client}
    return Producer(**given, transactional_id=transactional_id)


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise ConfigError("a task of Spark is needed to write")
    return context


def _property(name: str) -> str:
    found = _task().getLocalProperty(name)
    if found is None:
        raise ConfigError(f"Spark does not say {name} to its tasks: is this a streaming query?")
    return found
