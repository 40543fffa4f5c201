"""The way in: a record gets its bytes, its partition, and a place in that partition's batch."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any

from kclient.config import ProducerOptions
from kclient.deadline import Deadline
from kclient.delivery.accumulator import RECORD_OVERHEAD, Accumulator, headers_size
from kclient.delivery.batch import Batch
from kclient.delivery.carrier import Carrier
from kclient.delivery.gate import Gate
from kclient.delivery.placement import Placement
from kclient.delivery.serialization import Serialization
from kclient.errors import KafkaTimeout, RecordTooLarge, SerializationError
from kclient.types import Header


class Intake:
    """Takes records, one by one, as long as there is room."""

    def __init__(
        self,
        options: ProducerOptions,
        accumulator: Accumulator,
        placement: Placement,
        carrier: Carrier,
        gate: Gate,
    ) -> None:
        self.serialization = Serialization(options)
        self.accumulator = accumulator
        self.placement = placement
        self.gate = gate
        self._carrier = carrier
        self._is_plain = self.serialization.is_plain
        self._max_size = options["max_request_size"]
        self._memory = options["buffer_memory"]
        self._block_seconds = options["max_block_ms"] / 1000

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Sequence[Header],
        partition: int | None,
        timestamp_ms: int | None,
        deadline: Deadline | None,
        is_urgent: bool,
        is_submitted: bool = False,
    ) -> tuple[Batch, int, int]:
        """Put a record into its partition's open batch; returns its place there and its time.

        ``is_submitted`` says that a future will stand for it. Waits for the topic to be known
        and for room, until the deadline or ``max_block_ms``.
        Raises SerializationError, RecordTooLarge, TopicNotFound, KafkaTimeout.
        """
        if self.gate.needs_look:
            self.gate.check_sending()
        size = RECORD_OVERHEAD
        if key is not None:
            if type(key) is not bytes or not self._is_plain:
                key = self.serialization.key(key, topic)
            size += len(key or b"")
        if value is not None:
            if type(value) is not bytes or not self._is_plain:
                value = self.serialization.value(value, topic)
            size += len(value or b"")
        if headers:
            size += headers_size(headers)
        if size > self._max_size:
            raise self.too_large(topic, size)
        state = self.placement.known(topic) or self.placement.topic(topic, deadline)
        accumulator = self.accumulator
        if accumulator.used >= accumulator.memory:
            self.await_room(deadline)
        if partition is None:
            chosen = state.partitioner.partition(key, state.count, state.available)
        else:
            chosen = state.checked(partition)
        sent_ms = int(time() * 1000) if timestamp_ms is None else _checked(timestamp_ms, topic)
        with accumulator.lock:
            tp = state.tps[state.sticky.current if chosen is None else chosen]
            batch = accumulator.append(tp, key, value, headers, sent_ms, size, is_urgent=is_urgent)
            index = batch.writer.count - 1
            if is_submitted:
                batch.submitted += 1
            if chosen is None:
                self.placement.note(state, size, accumulator, ended=not batch.is_open)
        return batch, index, sent_ms

    def await_room(self, deadline: Deadline | None = None) -> None:
        """Wait until there is room for more, sending meanwhile. Raises KafkaTimeout."""
        what = f"waiting for room in buffer_memory ({self._memory} bytes)"
        seconds = self._block_seconds
        if deadline is not None:
            seconds = min(seconds, deadline.left())
        if not seconds:
            raise KafkaTimeout(f"{what}: it is full")
        self._carrier.until(lambda: not self.accumulator.is_full, Deadline(seconds), what)

    def check_size(self, topic: str, largest: int) -> None:
        """Raise RecordTooLarge for a record with so many bytes in key and value."""
        if largest + RECORD_OVERHEAD > self._max_size:
            raise self.too_large(topic, largest + RECORD_OVERHEAD)

    def too_large(self, topic: str, size: int) -> RecordTooLarge:
        """The error for a record of ``size`` bytes."""
        return RecordTooLarge(
            f"a record of {size} bytes for topic {topic!r} is over max_request_size "
            f"({self._max_size}); raise that, and the topic's max.message.bytes, or send less "
            "at once",
            topic=topic,
        )


def _checked(timestamp_ms: object, topic: str) -> int:
    if isinstance(timestamp_ms, int):
        return timestamp_ms
    raise SerializationError(
        f"timestamp_ms for topic {topic!r} is a whole number of milliseconds since 1970, not "
        f"{timestamp_ms!r}",
        topic=topic,
    )
