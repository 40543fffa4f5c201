"""What becomes of a batch by its answer: delivered, sent again, split, renumbered, given up."""

from __future__ import annotations

import logging
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
from kclient.errors import BrokerError, KafkaError, KafkaTimeout, ProtocolError, broker_error
from kclient.net.endpoint import Endpoint
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
_TOO_LARGE, _OUT_OF_ORDER, _DUPLICATE, _OLD_EPOCH, _UNKNOWN_PRODUCER = 10, 45, 46, 47, 59
_GAPS = (_OUT_OF_ORDER, _OLD_EPOCH, _UNKNOWN_PRODUCER)
_ADVICE = {
    _TOO_LARGE: "lower max_request_size, or raise the topic's max.message.bytes",
    29: "this user may not write there: see the topic's ACLs",
    19: "too few replicas are in sync (min.insync.replicas)",
}


class Settlement:
    """Decides over batches that came back; acts on the accumulator."""

    def __init__(
        self,
        accumulator: Accumulator,
        identity: Identity,
        metadata: Metadata,
        backoff: Backoff,
        metrics: Metrics,
    ) -> None:
        self._accumulator = accumulator
        self._identity = identity
        self._metadata = metadata
        self._backoff = backoff
        self._metrics = metrics

    def settle(
        self, batches: Iterable[Batch], told: Mapping[TopicPartition, Outcome], node: Endpoint
    ) -> None:
        """Handle what a broker said about the batches of one request."""
        for batch in batches:
            outcome = told.get(batch.tp)
            if batch.is_done:
                continue  # given up meanwhile
            if outcome is None:
                self.leave_open([batch], ProtocolError(f"{node} said nothing of {batch!r}"))
            elif outcome.error_code in (0, _DUPLICATE):
                self._succeed(batch, outcome.base_offset, outcome.log_append_time)
            else:
                self._handle(batch, outcome, node)

    def succeed_unasked(self, batches: Iterable[Batch]) -> None:
        """With acks=0, being sent is all there is."""
        for batch in batches:
            self._succeed(batch, -1, -1)

    def leave_open(self, batches: Sequence[Batch], error: KafkaError) -> None:
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
        with self._accumulator.lock:
            self._accumulator.drop(batch)
            self._accumulator.settle(batch)
        _log.warning("%s was not delivered: %s", _names(batch), error)
        if self._identity.transaction is not None and batch.transactional:
            self._identity.transaction.note_failure(error)
        batch.finish(-1, -1, error)
        self._metrics.note_done(batch)

    def fail_partitions(
        self, are_meant: Callable[[TopicPartition], bool], error: KafkaError
    ) -> None:
        """End every queued batch of some partitions with an error."""
        with self._accumulator.lock:
            lost = [
                batch
                for tp, partition in self._accumulator.partitions.items()
                if partition.queue and are_meant(tp)
                for batch in partition.queue
            ]
        for batch in lost:
            self.fail(batch, error)

    def check_topics(self) -> None:
        """Give up on topics that the cluster will not let us use."""
        for name, topic in self._metadata.view.topics.items():
            if topic.error_code:
                error = broker_error(topic.error_code, f"topic {name!r} cannot be used", topic=name)
                if not error.retriable:
                    self.fail_partitions(partial(_is_of, name), error)

    def _succeed(self, batch: Batch, base_offset: int, log_append_time: int) -> None:
        with self._accumulator.lock:
            partition = self._accumulator.partitions[batch.tp]
            partition.in_flight.remove(batch)
            self._accumulator.settle(batch)
        batch.finish(base_offset, log_append_time)
        self._metrics.note_done(batch)

    def _handle(self, batch: Batch, outcome: Outcome, node: Endpoint) -> None:
        code = outcome.error_code
        error = self._error(batch, outcome, node)
        if code == _TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif code in _GAPS and batch.has_sequence and not batch.transactional:
            self._renumber(batch)
        elif error.retriable:
            if error.stale_metadata:
                self._metadata.mark_stale()
            _log.info("%s goes again: %s", _names(batch), error)
            with self._accumulator.lock:
                self._requeue(batch)
        else:
            self.fail(batch, error)

    def _split(self, batch: Batch) -> None:
        _log.info("%s is too large for its topic and is split", _names(batch))
        with self._accumulator.lock:
            self._accumulator.replace(batch, batch.split())
            self._accumulator.settle(batch)

    def _renumber(self, batch: Batch) -> None:
        """The broker did not take a batch, for something before it is missing there.

        If that is on its way again, the batch just follows it. If there is nothing before
        it, something was given up: a new epoch starts the row anew (KIP-360).
        """
        with self._accumulator.lock:
            partition = self._accumulator.partitions[batch.tp]
            if _is_first(partition, batch):
                _log.info("%s starts a new epoch", _names(batch))
                owner = ProducerId(batch.producer_id, batch.producer_epoch)
                self._identity.sequences.raise_epoch(owner)
                partition.row.owner = NOBODY
                for each in partition.queue:
                    each.assign(-1, -1, -1)
            self._requeue(batch)

    def _requeue(self, batch: Batch) -> None:
        partition = self._accumulator.partitions[batch.tp]
        self._accumulator.requeue(batch, self._backoff.seconds(max(1, batch.attempts)))
        if batch.has_sequence and partition.row.owner == NOBODY:
            batch.assign(-1, -1, -1)

    def _error(self, batch: Batch, outcome: Outcome, node: Endpoint) -> BrokerError:
        advice = outcome.message or _ADVICE.get(outcome.error_code, "")
        what = f"writing {_names(batch)} to {node}{f' ({advice})' if advice else ''}"
        return broker_error(
            outcome.error_code, what, topic=batch.tp.topic, partition=batch.tp.partition
        )


def _is_of(topic: str, tp: TopicPartition) -> bool:
    return tp.topic == topic


def _is_first(partition: Partition, batch: Batch) -> bool:
    """Whether no unsettled batch comes before this one."""
    return not any(
        each.number < batch.number
        or (each.number == batch.number and each.sequence < batch.sequence)
        for each in partition.unsettled()
        if each is not batch and each.has_sequence
    )


def _names(batch: Batch) -> str:
    many = f"{batch.count} records" if batch.count > 1 else "a record"
    return f"{many} for {batch.tp.topic}[{batch.tp.partition}]"
