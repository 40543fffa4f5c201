"""What becomes of a batch by its answer: delivered, sent again, split, renumbered, given up."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.delivery.accumulator import Accumulator, Partition
from kclient.delivery.batch import Batch
from kclient.delivery.identity import Identity
from kclient.delivery.metrics import Metrics
from kclient.delivery.produce import Outcome
from kclient.delivery.sequences import NOBODY, ProducerId
from kclient.errors import BrokerError, KafkaError, KafkaTimeout, broker_error
from kclient.net.endpoint import Endpoint
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
_TOO_LARGE, _OUT_OF_ORDER, _DUPLICATE, _OLD_EPOCH, _UNKNOWN_PRODUCER = 10, 45, 46, 47, 59
_UNKNOWN, _UNSUPPORTED = -1, 35
_GAPS = (_OUT_OF_ORDER, _OLD_EPOCH, _UNKNOWN_PRODUCER)
_ADVICE = {
    _TOO_LARGE: "lower max_request_size, or raise the topic's max.message.bytes",
    29: "this user may not write there: see the topic's ACLs",
    19: "too few replicas are in sync (min.insync.replicas)",
}


class Settlement:
    """Decides over batches that came back; acts on the accumulator.

    ``ended`` are batches with an outcome whose futures are still to be told of it.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        identity: Identity,
        metadata: Metadata,
        backoff: Backoff,
        metrics: Metrics,
    ) -> None:
        self.ended: deque[Batch] = deque()
        self.on_failure: Callable[[Batch], None] = lambda batch: None
        """Told of each batch that failed, by the thread that carries the I/O."""
        self._accumulator = accumulator
        self._identity = identity
        self._metadata = metadata
        self._backoff = backoff
        self._metrics = metrics

    def topics(self) -> set[str]:
        """Every topic that was written to."""
        with self._accumulator.lock:
            return {tp.topic for tp in self._accumulator.partitions}

    def settle(
        self, batches: Iterable[Batch], told: Mapping[TopicPartition, Outcome], node: Endpoint
    ) -> None:
        """Handle what a broker said about the batches of one request."""
        for batch in batches:
            outcome = told.get(batch.tp)
            if batch.is_done:
                continue  # given up meanwhile
            if outcome is None:
                _log.warning("%s said nothing of %s", node, _names(batch))
                self.leave_open([batch])
            elif outcome.error_code in (0, _DUPLICATE):
                self._accumulator.partitions[batch.tp].row.note_success(batch)
                self._end(batch, outcome.base_offset, outcome.log_append_time)
            else:
                self._handle(batch, outcome, node)

    def succeed_unasked(self, batches: Iterable[Batch]) -> None:
        """With acks=0, being sent is all there is."""
        for batch in batches:
            self._end(batch, -1, -1)

    def leave_open(self, batches: Sequence[Batch]) -> None:
        """Send batches again whose outcome is unknown, as they are."""
        with self._accumulator.lock:
            for batch in batches:
                if not batch.is_done:
                    self._requeue(batch)

    def expire(self, batch: Batch, trouble: str) -> None:
        """Give a batch up for its age."""
        may_be = "it may have been written nevertheless" if batch.attempts else "it was never sent"
        self.fail(
            batch,
            KafkaTimeout(
                f"{_names(batch)} was not acknowledged within delivery_timeout_ms after "
                f"{batch.attempts} attempts ({may_be}): {trouble}",
                topic=batch.tp.topic,
                partition=batch.tp.partition,
            ),
        )

    def fail(self, batch: Batch, error: KafkaError) -> None:
        """End a batch with an error."""
        if self._identity.transaction is not None and batch.transactional:
            self._identity.transaction.note_failure(error, batch)
        self._end(batch, -1, -1, error)
        _log.warning("%s was not delivered: %s", _names(batch), error)

    def fail_queued(
        self, error: KafkaError, are_meant: Callable[[TopicPartition], bool] = lambda tp: True
    ) -> None:
        """End every batch that is not in flight, of some partitions, with an error."""
        for batch in self._waiting(are_meant):
            self.fail(batch, error)

    def fail_all(self, error: KafkaError) -> None:
        """End everything that has no outcome with an error."""
        with self._accumulator.lock:
            partitions = self._accumulator.partitions.values()
            lost = [batch for each in partitions for batch in each.unsettled()]
        for batch in lost:
            self.fail(batch, error)

    def check_topics(self) -> None:
        """Give up on topics that the cluster will not let us use."""
        for name, topic in self._metadata.view.topics.items():
            if topic.error_code:
                error = broker_error(topic.error_code, f"topic {name!r} cannot be used", topic=name)
                if not error.retriable:
                    self.fail_queued(error, partial(_is_of, name))

    def _waiting(self, are_meant: Callable[[TopicPartition], bool]) -> list[Batch]:
        with self._accumulator.lock:
            return [
                batch
                for tp, partition in self._accumulator.partitions.items()
                if partition.queue and are_meant(tp)
                for batch in partition.queue
            ]

    def _end(
        self, batch: Batch, base_offset: int, log_append_time: int, error: KafkaError | None = None
    ) -> None:
        """Give a batch its outcome, then let go of it: an interrupt in between loses neither."""
        self.ended.append(batch)
        batch.finish(base_offset, log_append_time, error)
        with self._accumulator.lock:
            self._accumulator.remove(batch)
            batch.release()
        self._metrics.note_done(batch)
        whole = batch.whole
        while whole is not None and whole.is_done:
            self.ended.append(whole)
            batch, whole = whole, whole.whole
        if batch.error is not None and batch.is_done:
            self.on_failure(batch)

    def _handle(self, batch: Batch, outcome: Outcome, node: Endpoint) -> None:
        code = outcome.error_code
        error = self._error(batch, outcome, node)
        if code == _TOO_LARGE and batch.count > 1:
            _log.info("%s is too large for its topic and is split", _names(batch))
            with self._accumulator.lock:
                self._accumulator.replace(batch, batch.split())
                batch.release()
        elif code in _GAPS and batch.has_sequence and not batch.transactional:
            _log.info("%s has a gap before it, and goes again: %s", _names(batch), error)
            self._renumber(batch)
        elif error.retriable:
            if error.stale_metadata:
                self._metadata.mark_stale()
            _log.info("%s goes again: %s", _names(batch), error)
            self.leave_open([batch])
        else:
            self.fail(batch, error)

    def _renumber(self, batch: Batch) -> None:
        """The broker did not take a batch, for something before it is missing there.

        If that is on its way again, the batch just follows it. If there is nothing before
        it, something was given up: a new epoch starts the row anew (KIP-360).
        """
        with self._accumulator.lock:
            partition = self._accumulator.partitions[batch.tp]
            if _is_first(partition, batch):
                owner = ProducerId(batch.producer_id, batch.producer_epoch)
                self._identity.sequences.raise_epoch(owner)
                partition.row.owner = NOBODY
                for each in partition.queue:
                    each.assign(-1, -1, -1)
            self._requeue(batch)

    def _requeue(self, batch: Batch) -> None:
        partition = self._accumulator.partitions[batch.tp]
        if batch.has_sequence and partition.row.owner == NOBODY:
            batch.assign(-1, -1, -1)
        self._accumulator.requeue(batch, self._backoff.seconds(max(1, batch.attempts)))

    def _error(self, batch: Batch, outcome: Outcome, node: Endpoint) -> BrokerError:
        code = outcome.error_code
        advice = outcome.message or _ADVICE.get(code, "")
        if code == _UNKNOWN and batch.magic == 0 and (batch.compression or "").startswith("lz4"):
            code, advice = _UNSUPPORTED, "lz4 needs Kafka 0.8.2 or newer: choose another codec"
        what = f"writing {_names(batch)} to {node}{f' ({advice})' if advice else ''}"
        return broker_error(code, what, topic=batch.tp.topic, partition=batch.tp.partition)


def _is_of(topic: str, tp: TopicPartition) -> bool:
    return tp.topic == topic


def _is_first(partition: Partition, batch: Batch) -> bool:
    """Whether no unsettled batch that has a number comes before this one."""
    return not any(each.order < batch.order and each.has_sequence for each in partition.unsettled())


def _names(batch: Batch) -> str:
    many = f"{batch.count} records" if batch.count > 1 else "a record"
    return f"{many} for {batch.tp.topic}[{batch.tp.partition}]"
