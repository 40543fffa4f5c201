"""Reads a range of offsets of one partition into Arrow batches: no group, no position kept.

For jobs that know what they want: a task of Spark, a replay, an export. Blocking fetches of
one partition; the next one is on its way while the last is decoded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kclient.cluster import Leader, Metadata, Router
from kclient.cluster.retry import Backoff
from kclient.config import ConsumerKeywords, ConsumerOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.errors import (
    ConfigError,
    KafkaError,
    KafkaTimeout,
    OffsetOutOfRange,
    broker_error,
)
from kclient.fetch import requests
from kclient.fetch.fetched import Aborted
from kclient.fetch.lookup import find_offsets
from kclient.fetch.positions import EARLIEST, LATEST
from kclient.fetch.session import NO_SESSION, Ask, Want
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kclient.protocol.wire import ZERO_UUID
from kclient.records import RecordBatch, batches, batches_to_arrow
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger(__name__)
LANE = "range"
_LARGEST_FETCH = 1 << 30
_SPARE = 1.2  # how much more than expected the last fetch of a range may bring
_SMALLEST_FETCH = 64 << 10


class _Found(NamedTuple):
    """The batches of one answer that reach into the range, and where to go on."""

    batches: list[RecordBatch]
    aborted: Aborted
    offset: int
    next_offset: int

    @property
    def start_offset(self) -> int:
        """Where to cut off what is before the range; 0, which costs nothing, if nothing is."""
        return self.offset if self.batches[0].base_offset < self.offset else 0


class RangeReader:
    """Reads ranges of offsets. For one thread at a time.

    ::

        with RangeReader("localhost:9092", isolation_level="read_committed") as reader:
            for batch in reader.read(TopicPartition("orders", 0), 0, 1000):
                ...  # a pyarrow.RecordBatch

    Options are those of ``Consumer``; of them, what fetching needs is used. Raises
    ConfigError for unknown, wrong or contradicting ones.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[ConsumerKeywords]
    ) -> None:
        given = {**options, "bootstrap_servers": bootstrap_servers}
        self._options = resolve(ConsumerOptions, given)
        self._pool = Pool(self._options)
        self._metadata = Metadata(self._options, self._pool)
        self._router = Router(self._options, self._pool, self._metadata)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object] | str | PathLike[str], **options: Any
    ) -> RangeReader:
        """A reader by dotted names: a mapping, or the path of a properties file."""
        return cls(**{**from_properties(ConsumerOptions, properties), **options})

    def read(
        self,
        tp: TopicPartition,
        start: int,
        end: int,
        *,
        max_rows: int = 65_536,
        skip_lost: bool = False,
        timeout: float | None = None,
    ) -> Generator[Any, None, None]:
        """Every record from offset ``start`` up to, not including, ``end``, as Arrow batches.

        Batches are ``pyarrow.RecordBatch``es of 1 to ``max_rows`` rows with the columns of
        ``Consumer.poll_arrow``. Offsets that hold no record (compacted, markers, aborted
        when read_committed) are passed over. ``timeout`` is how many seconds may pass
        without progress (default ``default_api_timeout_ms``); then KafkaTimeout is raised
        with the reason. Raises OffsetOutOfRange when records of the range are deleted, or
        with ``skip_lost`` goes on with those that are left; TopicNotFound, NotAuthorized,
        CorruptRecord.
        """
        if not 0 <= start <= end or max_rows < 1:
            raise ConfigError(f"no range of offsets to read in rows of {max_rows}: {start}, {end}")
        seconds = self._options["default_api_timeout_ms"] / 1000 if timeout is None else timeout
        with _Reading(self, tp, (start, end), seconds, skip_lost=skip_lost) as reading:
            for found in reading.answers():
                table = batches_to_arrow(
                    (batch for batch in found.batches if not found.aborted.hides(batch)),
                    start_offset=found.start_offset,
                )
                yield from _before(table, end, found.batches[-1]).to_batches(max_rows)

    def close(self) -> None:
        """Close all connections. May be called again."""
        self._pool.close()

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RangeReader of {self._options['bootstrap_servers']!r}>"


def _before(table: Any, end: int, last: RecordBatch) -> Any:
    """The rows of offsets below ``end``; the ``last`` batch may reach beyond it."""
    if last.last_offset < end or not table.num_rows:
        return table
    import pyarrow.compute as pc

    return table.filter(pc.less(table["offset"], end))


class _Reading:
    """One call of ``read``: a position that moves through the range, and a connection."""

    def __init__(
        self,
        reader: RangeReader,
        tp: TopicPartition,
        span: tuple[int, int],
        seconds: float,
        *,
        skip_lost: bool,
    ) -> None:
        self._options = reader._options
        self._pool = reader._pool
        self._metadata = reader._metadata
        self._router = reader._router
        self._backoff = Backoff(reader._options)
        self._tp = tp
        self._position, self._end = span
        self._seconds = seconds
        self._deadline = Deadline(seconds)
        self._skip_lost = skip_lost
        self._max_bytes = self._options["max_partition_fetch_bytes"]
        self._bytes_per_offset = 0.0
        self._connection: Connection | None = None
        self._preferred = -1
        self._failures = 0
        self._last_error: KafkaError | None = None

    def __enter__(self) -> _Reading:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._hang_up()

    def answers(self) -> Iterator[_Found]:
        """Each answer with data; the next request has left by then."""
        while self._position < self._end:
            try:
                found = self._next()
            except KafkaError as error:
                self._recover(error)
                continue
            if found is None:
                continue
            self._ask_ahead()
            yield found
            self._deadline = Deadline(self._seconds)  # not counting what the caller took

    def _ask_ahead(self) -> None:
        if self._position < self._end:
            try:
                self._send()
            except KafkaError:
                self._hang_up()  # whoever asks next will meet the error, and deal with it

    def _next(self) -> _Found | None:
        """One answer; None if it brought nothing, but says why or where to ask."""
        if self._connection is None or not self._connection.in_flight:
            self._send()
        connection = cast(Connection, self._connection)
        limit = (self._options["request_timeout_ms"] + self._options["fetch_max_wait_ms"]) / 1000
        answer = connection.receive(self._deadline.within(limit))
        response = cast(FetchResponse, connection.decode(answer))
        version, names = answer.to.version, self._metadata.view.names
        if response.error_code:
            raise broker_error(response.error_code, self._what(connection.endpoint))
        hints, places = requests.hints(response, version, names)
        if hints:
            self._metadata.apply_hints(hints, places)
        for tp, data in requests.partitions(response, version, names):
            if tp == self._tp:
                return self._read(data, connection.endpoint, version)
        return None

    def _read(self, data: PartitionData, node: Endpoint, version: int) -> _Found | None:
        if data.error_code:
            raise broker_error(
                data.error_code,
                f"{self._what(node)} at offset {self._position}",
                topic=self._tp.topic,
                partition=self._tp.partition,
            )
        if data.preferred_read_replica >= 0 and data.preferred_read_replica != node.node:
            self._preferred = data.preferred_read_replica
            self._hang_up()
        if not data.records:
            self._note_nothing(data)
            return None
        found = self._scan(data)
        if not found.batches:
            if version < requests.BATCHES_WHOLE:  # a piece of a message: ask for more
                self._max_bytes = min(self._max_bytes * 2, _LARGEST_FETCH)
                self._bytes_per_offset = 0.0
            self._note_nothing(data)
            return None
        self._bytes_per_offset = len(data.records) / (found.next_offset - self._position)
        self._position, self._failures = found.next_offset, 0
        self._deadline, self._last_error = Deadline(self._seconds), None
        return found

    def _scan(self, data: PartitionData) -> _Found:
        topic, partition = self._tp
        some = batches(
            data.records or b"",
            topic=topic,
            partition=partition,
            check_crc=self._options["check_crcs"],
        )
        found, position = [], self._position
        for batch in some:
            if batch.base_offset >= self._end:
                position = self._end
                break
            if batch.last_offset >= self._position:
                found.append(batch)
                position = batch.last_offset + 1
        return _Found(found, Aborted(data.aborted_transactions or ()), self._position, position)

    def _note_nothing(self, data: PartitionData) -> None:
        is_committed = self._options["isolation_level"] == "read_committed"
        known = data.last_stable_offset if is_committed else data.high_watermark
        self._last_error = KafkaError(f"there are records up to offset {known} only")

    # --- asking ---

    def _send(self) -> None:
        connection = self._connect()
        version = connection.version_of(FetchRequest)
        partition = self._metadata.view.partition(self._tp)
        epoch = -1 if partition is None or self._preferred >= 0 else partition.leader_epoch
        topic = self._metadata.view.topics.get(self._tp.topic)
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        want = Want(self._position, self._limit(), epoch, -1, topic_id)
        ask = Ask(0, NO_SESSION, {self._tp: want}, {})
        request = requests.request(ask, version, self._options)
        connection.send(request, self._deadline, version=version)

    def _limit(self) -> int:
        """Bytes to ask for: not much beyond the end of the range, once sizes are known."""
        if not self._bytes_per_offset:
            return self._max_bytes
        expected = int((self._end - self._position) * self._bytes_per_offset * _SPARE)
        return min(self._max_bytes, max(expected, _SMALLEST_FETCH))

    def _connect(self) -> Connection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        self._hang_up()
        place = self._router.locate(Leader(self._tp), self._deadline)
        if self._preferred >= 0:
            place = self._metadata.view.brokers.get(self._preferred, place)
        self._connection = self._pool.acquire(place, LANE, self._deadline)
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._pool.release(self._connection, LANE)
            self._connection = None

    # --- what goes wrong ---

    def _recover(self, error: KafkaError) -> None:
        """Prepare to try again; raise what does not get better by that."""
        self._hang_up()
        if isinstance(error, OffsetOutOfRange):
            if self._preferred < 0:
                self._skip(error)
        elif not error.retriable:
            raise error
        else:
            self._router.forget(Leader(self._tp), error)
        self._preferred = -1
        self._failures += 1
        wait = self._backoff.seconds(self._failures)
        if wait >= self._deadline.left():
            # A timeout says only that time is over; what came before it says why.
            cause = (self._last_error or error) if isinstance(error, KafkaTimeout) else error
            raise KafkaTimeout(
                f"reading {self._where()} up to offset {self._end}: no progress at "
                f"{self._position} for {self._seconds:g} s; the last reason: {cause}",
                cause=cause,
            ) from error
        self._last_error = error
        time.sleep(wait)

    def _skip(self, error: OffsetOutOfRange) -> None:
        """Go on where the log begins now, if that is what the caller wants."""
        first, last = self._offset_at(EARLIEST), self._offset_at(LATEST)
        if first <= self._position <= last:
            return  # it was so for a moment only: a new leader that was behind
        lost = (
            f"offsets {self._position} to {min(first, self._end) - 1} are deleted"
            if first > self._position
            else f"offset {self._position} is beyond its end: the topic was truncated or made anew"
        )
        if not self._skip_lost:
            text = f"{self._where()} holds offsets {first} to {last - 1} now; {lost}"
            topic, partition = self._tp
            raise OffsetOutOfRange(
                text, topic=topic, partition=partition, first=first, last=last
            ) from error
        _log.warning("%s holds offsets %d to %d: %s", self._where(), first, last - 1, lost)
        self._position = min(first, self._end) if first > self._position else self._end

    def _offset_at(self, time_ms: int) -> int:
        found = find_offsets(self._router, {self._tp: time_ms}, self._deadline)
        return found[self._tp].offset

    def _where(self) -> str:
        return f"{self._tp.topic}[{self._tp.partition}]"

    def _what(self, node: Endpoint) -> str:
        return f"fetching {self._where()} from {node}"
