"""The consumer: records of partitions, alone or as a member of a group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kclient.cluster import Metadata, Router
from kclient.cluster.offsets import OffsetAt
from kclient.config import ConsumerKeywords, ConsumerOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.errors import ClientClosedError, ConfigError, ForkedClientError
from kclient.fetch.deserialization import Deserializer
from kclient.fetch.fetcher import Fetcher
from kclient.fetch.health import PartitionHealth, health_of
from kclient.fetch.lookup import Lookup
from kclient.fetch.polling import Polling
from kclient.fetch.positions import EARLIEST, LATEST, Positions
from kclient.fetch.reading import Reading
from kclient.fetch.recovery import Recovery
from kclient.fetch.resets import check_reset
from kclient.group.assignors import choose_assignors
from kclient.group.commits import Offsets
from kclient.group.coordinator import Group, Listeners
from kclient.net.pool import Pool
from kclient.records import arrow
from kclient.types import Batch, GroupMetadata, OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

_CLOSE_SECONDS = 30.0
Listener = Callable[[list[TopicPartition]], object]


class Consumer:
    """Reads records. For one thread at a time, except ``wakeup``, which is for any.

    ::

        with Consumer("localhost:9092", group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            for record in consumer:
                handle(record)

    ``bootstrap_servers`` is ``"a:9092,b:9092"`` or a list; for the other options see
    ``kclient.config.ConsumerKeywords``. Raises ConfigError for unknown, wrong or
    contradicting options.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[ConsumerKeywords]
    ) -> None:
        given = {**options, "bootstrap_servers": bootstrap_servers}
        self._options = resolve(ConsumerOptions, given)
        check_reset(self._options["auto_offset_reset"])
        choose_assignors(self._options["partition_assignment_strategy"])
        self._pool = Pool(self._options)
        self._metadata = Metadata(self._options, self._pool)
        self._router = Router(self._options, self._pool, self._metadata)
        self._positions = Positions(self._options["max_partition_fetch_bytes"])
        recovery = Recovery(self._options, self._router, self._metadata, self._positions)
        self._fetcher = Fetcher(
            self._options, self._pool, self._metadata, self._positions, recovery
        )
        self._deserializer = Deserializer(self._options)
        self._reading = Reading(self._fetcher, self._positions, self._deserializer)
        self._group = Group(self._options, self._pool, self._router, self._metadata, self._reading)
        self._polling = Polling(self._fetcher, self._reading, self._positions, self._group.drive)
        self._lookup = Lookup(self._options, self._router, self._positions, self._reading)
        if self._group.has_group:
            recovery.committed = self._group.commits.committed
        self._user = threading.RLock()  # held while a thread is inside; callbacks may call back
        self._is_closed = False

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, object] | str | PathLike[str], **options: Any
    ) -> Consumer:
        """A consumer by dotted names: a mapping, or the path of a properties file."""
        return cls(**{**from_properties(ConsumerOptions, properties), **options})

    # --- what to read ---

    def subscribe(
        self,
        topics: str | Collection[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read topics as a member of the group; without ``group_id`` all their partitions.

        ``pattern`` is a regular expression for names instead. The callbacks get lists of
        partitions and run in the thread that polls: ``on_revoked`` while positions can still
        be committed, ``on_lost`` when others may have the partitions already.
        """
        with self._turn():
            names = [topics] if isinstance(topics, str) else list(topics)
            if bool(names) == bool(pattern):
                raise ConfigError("subscribe takes topics or a pattern, one of the two")
            if self._positions.states and not self._group.is_subscribed:
                raise ConfigError("partitions are assigned by hand: unsubscribe first")
            self._group.subscribe(names, pattern, Listeners(on_assigned, on_revoked, on_lost))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's say.

        Those that were read before keep their positions. Raises ConfigError if there is a
        subscription.
        """
        with self._turn():
            if self._group.is_subscribed:
                raise ConfigError("there is a subscription: unsubscribe before assigning")
            self._positions.assign([TopicPartition(*each) for each in partitions])
            self._reading.attention = True

    def unsubscribe(self) -> None:
        """Read nothing; a member leaves its group."""
        with self._turn():
            self._group.unsubscribe(self._deadline(None))
            self._positions.assign(())
            self._reading.attention = True

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return set(self._positions.states)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return self._group.topics

    # --- records ---

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[Record]:
        """The next records, up to ``max_poll_records``; none if none come in ``timeout`` seconds.

        What the last call returned counts as done by this one: auto-commit covers it.
        Raises what keeps a partition from being read, SerializationError with the place.
        """
        limit = self._options["max_poll_records"] if max_records is None else max_records
        with self._turn():
            return self._polling.poll(lambda: self._reading.take(limit), timeout) or []

    def __iter__(self) -> Iterator[Record]:
        """Every record, for ever; ``wakeup`` or ``close`` end the iteration.

        Auto-commit covers only records before the current one. An iteration that was left
        can be begun again, or followed by ``poll``: no record is left out.
        """
        reading = self._reading
        while self._next_run():
            for number, record in enumerate(reading.run, 1):
                reading.next = number
                yield record
                if reading.attention:
                    break

    def poll_batches(self, timeout: float = 1.0) -> list[Batch]:
        """As ``poll``, one batch for each partition."""
        found: dict[TopicPartition, list[Record]] = {}
        for record in self.poll(timeout):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return [Batch(tp, records) for tp, records in found.items()]

    def poll_arrow(self, timeout: float = 1.0, max_records: int | None = None) -> Any:
        """As ``poll``, as a ``pyarrow.Table`` of whole batches: it may be more than asked for.

        Columns: key, value, topic, partition, offset, timestamp, timestamp_type, headers.
        """
        if self._deserializer.is_needed:
            raise ConfigError("poll_arrow gives bytes: make the consumer without deserializers")
        limit = self._options["max_poll_records"] if max_records is None else max_records
        with self._turn():
            table = self._polling.poll(lambda: self._reading.take_table(limit), timeout)
        return arrow.table([]) if table is None else table

    # --- positions ---

    def position(self, tp: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to hand out; looked up if need be.

        Raises ConfigError if the partition is not assigned, KafkaTimeout.
        """
        with self._turn():
            return self._polling.position(tp, self._deadline(timeout))

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Read on from ``offset``. Raises ConfigError if the partition is not assigned."""
        if offset < 0:
            raise ConfigError(f"an offset is 0 or more, not {offset}; see seek_to_end")
        with self._turn():
            self._lookup.seek({TopicPartition(*tp): OffsetAt(offset)})

    def seek_to_beginning(
        self, tps: Iterable[TopicPartition] = (), timeout: float | None = None
    ) -> None:
        """Read on from the first offset of some partitions, or all."""
        self._seek_by_time(EARLIEST, tps, timeout)

    def seek_to_end(self, tps: Iterable[TopicPartition] = (), timeout: float | None = None) -> None:
        """Read on from the end of some partitions, or all."""
        self._seek_by_time(LATEST, tps, timeout)

    def seek_to_timestamp(
        self,
        timestamp_ms: int,
        tps: Iterable[TopicPartition] = (),
        timeout: float | None = None,
    ) -> None:
        """Read on from the first record at or after a time; from the end if there is none."""
        self._seek_by_time(timestamp_ms, tps, timeout)

    def beginning_offsets(
        self, tps: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        with self._turn():
            return self._lookup.all_at(tps, EARLIEST, self._deadline(timeout))

    def end_offsets(
        self, tps: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (the last stable one)."""
        with self._turn():
            return self._lookup.all_at(tps, LATEST, self._deadline(timeout))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAt | None]:
        """The first record at or after a time (ms), None if there is none so late."""
        with self._turn():
            found = self._lookup.find(times, self._deadline(timeout))
        return {tp: at if at.offset >= 0 else None for tp, at in found.items()}

    def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition is behind its end."""
        with self._turn():
            deadline = self._deadline(timeout)
            ends = self._lookup.all_at(self.assignment(), LATEST, deadline)
            position = self._polling.position
            return {tp: max(0, end - position(tp, deadline)) for tp, end in ends.items()}

    def pause(self, tps: Iterable[TopicPartition]) -> None:
        """Fetch nothing more of some partitions until ``resume``; heartbeats go on."""
        with self._turn():
            paused = [TopicPartition(*tp) for tp in tps]
            self._reading.settle(paused)
            self._positions.pause(paused, is_paused=True)

    def resume(self, tps: Iterable[TopicPartition]) -> None:
        """Fetch paused partitions again."""
        with self._turn():
            self._positions.pause([TopicPartition(*tp) for tp in tps], is_paused=False)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {state.tp for state in self._positions if state.is_paused}

    # --- commits ---

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets for the group: those given, or of all records handed out so far.

        Raises CommitFailed when the group has moved on without this member, KafkaTimeout.
        """
        with self._turn():
            self._group.check_group()
            self._group.commits.commit(self._wanted_offsets(offsets), self._deadline(timeout))

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """As ``commit``, in the background; what goes wrong is logged, and shows in ``metrics``."""
        with self._turn():
            self._group.check_group()
            self._group.commits.commit_async(self._wanted_offsets(offsets))

    def committed(
        self, tps: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed, None for partitions without."""
        with self._turn():
            self._group.check_group()
            wanted = [TopicPartition(*tp) for tp in tps]
            return dict(self._group.commits.committed(wanted, self._deadline(timeout)))

    def group_metadata(self) -> GroupMetadata:
        """The member's place in its group, for ``Producer.send_offsets_to_transaction``."""
        return self._group.metadata()

    # --- the rest ---

    def wakeup(self) -> None:
        """Have a ``poll`` in another thread return at once, and an iteration end."""
        self._polling.wakeup()

    def metrics(self) -> dict[str, Any]:
        """Counts so far."""
        return {
            "records": self._reading.count,
            "bytes": self._fetcher.bytes,
            "fetches": self._fetcher.answers,
            "assigned": len(self._positions.states),
            **self._group.metrics(),
        }

    def health(self) -> dict[TopicPartition, PartitionHealth]:
        """What each assigned partition is doing, and why it is not fetched if it is not."""
        return health_of(self._positions, self._reading.position)

    def close(self, timeout: float | None = None) -> None:
        """Commit (with auto-commit), leave the group, close all connections.

        Takes ``timeout`` seconds at most (default 30), also when brokers are gone. May be
        called again, and from another thread: a ``poll`` there returns.
        """
        self._close(self._reading.finished, timeout)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error, what was handed out last may not have been dealt with.
        reading = self._reading
        self._close(reading.finished if kind is None else reading.finished_before_poll, None)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self._positions.states)} partitions"
        group = self._options["group_id"]
        who = f" in group {group!r}" if group else ""
        return f"<Consumer of {self._options['bootstrap_servers']!r}{who}, {state}>"

    # --- inside ---

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread at a time: two that share a consumer would get each other's records."""
        if self._is_closed:
            raise ClientClosedError("the consumer is closed")
        self._pool.check_usable()
        if not self._user.acquire(blocking=False):
            if self._polling.is_ending:
                raise ClientClosedError("the consumer is being closed")
            raise ConfigError(
                "this consumer is being used by another thread; use one consumer per thread, "
                "or a lock around it (only wakeup and close may be called from anywhere)"
            )
        try:
            yield
        finally:
            self._user.release()

    def _next_run(self) -> bool:
        """Take records for iteration; False when somebody wants it to end."""
        if self._polling.is_ending:
            return False
        with self._turn():
            return self._polling.next_run()

    def _wanted_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return self._reading.acknowledge()
        return {
            TopicPartition(*tp): OffsetAndMetadata(at) if isinstance(at, int) else at
            for tp, at in offsets.items()
        }

    def _seek_by_time(
        self, time_ms: int, tps: Iterable[TopicPartition], timeout: float | None
    ) -> None:
        with self._turn():
            deadline = self._deadline(timeout)
            self._lookup.seek_by_time(tps or self.assignment(), time_ms, deadline)

    def _deadline(self, timeout: float | None) -> Deadline:
        default = self._options["default_api_timeout_ms"] / 1000
        return Deadline(default if timeout is None else timeout)

    def _close(self, finished: Callable[[], Offsets], timeout: float | None) -> None:
        if self._polling.is_ending:
            return
        self._polling.end()
        deadline = Deadline(_CLOSE_SECONDS if timeout is None else max(timeout, 0.001))
        try:
            self._pool.check_usable()
        except ForkedClientError:  # the parent's connections are not ours to end
            self._is_closed = True
            self._pool.close()
            self._fetcher.board.close()
            return
        is_alone = self._user.acquire(timeout=deadline.left() / 2)
        try:
            if is_alone:
                self._group.close(finished, deadline)
        finally:
            self._is_closed = True
            self._group.stop()
            if is_alone:
                self._fetcher.close()
            self._pool.close()
            self._group.join(min(1.0, deadline.left()))
            if is_alone:
                self._user.release()
