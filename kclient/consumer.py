"""The consumer: records of partitions, alone or as a member of a group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kclient.cluster import Metadata, Router
from kclient.config import ConsumerKeywords, ConsumerOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.errors import ClientClosedError, ConfigError, KafkaTimeout, SerializationError
from kclient.fetch.deserialization import Deserializer
from kclient.fetch.fetched import Fetched
from kclient.fetch.fetcher import Fetcher
from kclient.fetch.health import PartitionHealth, health_of
from kclient.fetch.lookup import all_at, find_offsets
from kclient.fetch.positions import EARLIEST, LATEST, PartitionState, Positions
from kclient.fetch.recovery import Recovery
from kclient.fetch.resets import check_reset
from kclient.group.coordinator import Group, Listeners
from kclient.net.pool import Pool
from kclient.records import arrow
from kclient.types import Batch, GroupMetadata, OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

_IDLE_SECONDS = 3600.0
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
        self._pool = Pool(self._options)
        self._metadata = Metadata(self._options, self._pool)
        self._router = Router(self._options, self._pool, self._metadata)
        self._positions = Positions(self._options["max_partition_fetch_bytes"])
        self._recovery = Recovery(self._options, self._router, self._metadata, self._positions)
        self._fetcher = Fetcher(
            self._options, self._pool, self._metadata, self._positions, self._recovery
        )
        self._group = Group(
            self._options,
            self._pool,
            self._router,
            self._metadata,
            self._positions,
            self._fetcher.board.wake,
            self._committable,
        )
        if self._group.has_group:
            self._recovery.committed = self._group.commits.committed
        self._deserializer = Deserializer(self._options)
        self._run: list[Record] = []
        self._run_next = 0
        self._run_state: PartitionState | None = None
        """Records that iteration has taken and not yet handed out, and of which partition."""
        self._user = threading.RLock()  # callbacks may call back
        self._next_look = 0.0
        self._is_woken = False
        self._is_closed = False
        self._records = 0

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
            self._group.subscribe(names, pattern, Listeners(on_assigned, on_revoked, on_lost))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without a group's say."""
        with self._turn():
            wanted = [TopicPartition(*each) for each in partitions]
            self._group.check_may_assign()
            self._positions.assign(wanted)

    def unsubscribe(self) -> None:
        """Read nothing; a member leaves its group."""
        with self._turn():
            self._group.unsubscribe(self._deadline(None))
            self._positions.assign(())

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
        with self._turn():
            limit = self._options["max_poll_records"] if max_records is None else max_records
            end = time.monotonic() + timeout
            while True:
                self._look_after_group()
                records = self._take(limit)
                if records or self._is_over(end):
                    return records

    def __iter__(self) -> Iterator[Record]:
        """Every record, for ever; ``wakeup`` or ``close`` end the iteration.

        Auto-commit covers only records before the current one.
        """
        while True:
            try:
                with self._turn():
                    if not self._next_run():
                        return
            except ClientClosedError:
                return
            state = self._run_state
            token = state.token if state is not None else 0
            for index, record in enumerate(self._run):
                if state is not None and state.token != token:
                    break  # somebody sought elsewhere meanwhile
                self._run_next = index
                yield record
            self._end_run()

    def poll_batches(self, timeout: float = 1.0) -> list[Batch]:
        """As ``poll``, one batch for each partition."""
        found: dict[TopicPartition, list[Record]] = {}
        for record in self.poll(timeout):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return [Batch(tp, records) for tp, records in found.items()]

    def poll_arrow(self, timeout: float = 1.0, max_records: int | None = None) -> Any:
        """As ``poll``, as a ``pyarrow.Table``.

        Columns: key, value, topic, partition, offset, timestamp, timestamp_type, headers.
        """
        if self._deserializer.is_needed:
            raise ConfigError("poll_arrow gives bytes: make the consumer without deserializers")
        return arrow.table(self.poll(timeout, max_records))

    # --- positions ---

    def position(self, tp: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record to hand out; looked up if need be."""
        with self._turn():
            state = self._positions.get(tp)
            self._until(lambda: state.position >= 0, timeout, f"finding the position of {tp}")
            return self._position(state)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        if offset < 0:
            raise ConfigError(f"an offset is 0 or more, not {offset}; see seek_to_end")
        with self._turn():
            self._positions.seek(TopicPartition(*tp), offset)

    def seek_to_beginning(
        self, tps: Iterable[TopicPartition] = (), timeout: float | None = None
    ) -> None:
        """Read on from the first offset of some partitions, or all."""
        self._seek_by_time(dict.fromkeys(tps or self.assignment(), EARLIEST), timeout)

    def seek_to_end(self, tps: Iterable[TopicPartition] = (), timeout: float | None = None) -> None:
        """Read on from the end of some partitions, or all."""
        self._seek_by_time(dict.fromkeys(tps or self.assignment(), LATEST), timeout)

    def seek_to_timestamp(
        self,
        timestamp_ms: int,
        tps: Iterable[TopicPartition] = (),
        timeout: float | None = None,
    ) -> None:
        """Read on from the first record at or after a time; from the end if there is none."""
        self._seek_by_time(dict.fromkeys(tps or self.assignment(), timestamp_ms), timeout)

    def beginning_offsets(
        self, tps: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        found = self._offsets(all_at(tps, EARLIEST), timeout)
        return {tp: at.offset for tp, at in found.items()}

    def end_offsets(
        self, tps: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition (the last stable one)."""
        found = self._offsets(all_at(tps, LATEST), timeout)
        return {tp: at.offset for tp, at in found.items()}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, Any]:
        """The first record at or after a time (ms): ``OffsetAt``, or None if there is none."""
        found = self._offsets(times, timeout)
        return {tp: at if at.offset >= 0 else None for tp, at in found.items()}

    def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition is behind its end."""
        ends = self.end_offsets(self.assignment(), timeout)
        return {tp: max(0, end - self.position(tp, timeout)) for tp, end in ends.items()}

    def pause(self, tps: Iterable[TopicPartition]) -> None:
        """Fetch nothing more of some partitions until ``resume``; heartbeats go on."""
        with self._turn():
            self._positions.pause(tps, is_paused=True)

    def resume(self, tps: Iterable[TopicPartition]) -> None:
        """Fetch paused partitions again."""
        with self._turn():
            self._positions.pause(tps, is_paused=False)

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
            return dict(self._group.committed(list(tps), self._deadline(timeout)))

    def group_metadata(self) -> GroupMetadata:
        """The member's place in its group, for ``Producer.send_offsets_to_transaction``."""
        return self._group.metadata()

    # --- the rest ---

    def wakeup(self) -> None:
        """Have a ``poll`` in another thread return at once, and an iteration end."""
        self._is_woken = True
        self._fetcher.board.wake()

    def metrics(self) -> dict[str, Any]:
        """Counts so far."""
        return {
            "records": self._records,
            "assigned": len(self._positions.states),
            **self._group.metrics(),
        }

    def health(self) -> dict[TopicPartition, PartitionHealth]:
        """What each assigned partition is doing, and why it is not fetched if it is not."""
        return health_of(self._positions)

    def close(self, timeout: float | None = None) -> None:
        """Commit (with auto-commit), leave the group, close all connections.

        Takes ``timeout`` seconds at most (default 30), also when brokers are gone. May be
        called again.
        """
        if self._is_closed:
            return
        self._pool.check_usable()
        self._is_closed = True
        self._end_run()
        try:
            self._group.close(Deadline(30.0 if timeout is None else max(timeout, 0.001)))
        finally:
            self._fetcher.close()
            self._pool.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self._positions.states)} partitions"
        group = self._options["group_id"]
        who = f" in group {group!r}" if group else ""
        return f"<Consumer of {self._options['bootstrap_servers']!r}{who}, {state}>"

    # --- inside ---

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread at a time: two that share a consumer would get each other's records."""
        if not self._user.acquire(blocking=False):
            raise ConfigError(
                "this consumer is being used by another thread; use one consumer per thread, "
                "or a lock around it (only wakeup may be called from anywhere)"
            )
        try:
            if self._is_closed:
                raise ClientClosedError("the consumer is closed")
            self._pool.check_usable()
            yield
        finally:
            self._user.release()

    def _look_after_group(self) -> None:
        self._next_look = self._group.drive()

    def _is_over(self, end: float) -> bool:
        """Wait for something to happen; True when the time is over, or somebody woke us."""
        if self._is_woken:
            self._is_woken = False
            return True
        is_late = time.monotonic() >= end
        self._fetcher.step(min(end, self._next_look))
        return is_late and not self._fetcher.has_records

    def _take(self, limit: int) -> list[Record]:
        if self._run:
            return self._rest_of_run(limit)
        taken: list[Record] = []
        while len(taken) < limit:
            data = self._fetcher.current()
            if data is None:
                break
            if data.state.error is not None:
                if taken:
                    break
                error, data.state.error = data.state.error, None
                raise error
            some = self._deserialized(data, data.take(limit - len(taken)), is_first=not taken)
            taken = taken + some if taken else some
            if data.is_empty:
                self._fetcher.pump()
        if not taken:
            self._raise_errors()
        self._records += len(taken)
        return taken

    def _deserialized(
        self, data: Fetched, records: list[Record], *, is_first: bool
    ) -> list[Record]:
        """Apply the deserializers; what comes before a bad record is handed out first."""
        if not self._deserializer.is_needed:
            return records
        made: list[Record] = []
        for record in records:
            try:
                made.append(self._deserializer.apply(record))
            except SerializationError:
                self._positions.seek(data.state.tp, record.offset)
                if made or not is_first:
                    return made
                raise
        return made

    def _raise_errors(self) -> None:
        for state in self._positions:
            if state.error is not None:
                error, state.error = state.error, None
                self._positions.version += 1
                raise error

    def _next_run(self) -> bool:
        """Take records for iteration; False when somebody wants it to end."""
        limit = self._options["max_poll_records"]
        while True:
            self._look_after_group()
            data = self._fetcher.current()
            if data is not None and data.state.error is None:
                state = data.state
                records = self._deserialized(data, data.take(limit), is_first=True)
                if data.is_empty:
                    self._fetcher.pump()
                if records:
                    self._run, self._run_next, self._run_state = records, 0, state
                    self._records += len(records)
                    return True
            self._raise_errors()
            if self._is_over(time.monotonic() + _IDLE_SECONDS) and not self._fetcher.has_records:
                return False

    def _rest_of_run(self, limit: int) -> list[Record]:
        """What an iteration that was left early had not handed out."""
        rest = self._run[self._run_next + 1 :]
        self._end_run()
        return rest[:limit] if rest else self._take(limit)

    def _end_run(self) -> None:
        self._run, self._run_next, self._run_state = [], 0, None

    def _position(self, state: PartitionState) -> int:
        """The next offset for the user; iteration has taken more than it has handed out."""
        if self._run_state is state and self._run_next + 1 < len(self._run):
            return self._run[self._run_next + 1].offset
        return state.position

    def _committable(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions up to which the user is done: before the record that is handed out now."""
        offsets = {}
        for state in self._positions:
            if state.position >= 0:
                offset = state.position
                if self._run_state is state and self._run:
                    offset = self._run[self._run_next].offset
                offsets[state.tp] = OffsetAndMetadata(offset, "", state.epoch)
        return offsets

    def _wanted_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        if offsets is None:
            return {
                state.tp: OffsetAndMetadata(self._position(state), "", state.epoch)
                for state in self._positions
                if state.position >= 0
            }
        return {
            TopicPartition(*tp): OffsetAndMetadata(at) if isinstance(at, int) else at
            for tp, at in offsets.items()
        }

    def _seek_by_time(self, times: Mapping[TopicPartition, int], timeout: float | None) -> None:
        with self._turn():
            for tp in times:
                self._positions.get(tp)
        found = self._offsets(times, timeout)
        late = [tp for tp, at in found.items() if at.offset < 0]
        found.update(self._offsets(all_at(late, LATEST), timeout) if late else {})
        with self._turn():
            for tp, at in found.items():
                self._positions.seek(tp, at.offset, at.leader_epoch)

    def _offsets(self, times: Mapping[TopicPartition, int], timeout: float | None) -> Any:
        with self._turn():
            wanted = {TopicPartition(*tp): when for tp, when in times.items()}
            is_committed = self._options["isolation_level"] == "read_committed"
            deadline = self._deadline(timeout)
            return find_offsets(self._router, wanted, deadline, read_committed=is_committed)

    def _until(self, done: Callable[[], bool], timeout: float | None, what: str) -> None:
        deadline = self._deadline(timeout)
        while not done():
            self._look_after_group()
            self._raise_errors()
            if not deadline.left():
                raise KafkaTimeout(f"{what}: not done within {deadline.seconds:g} s")
            self._fetcher.step(min(time.monotonic() + deadline.left(), self._next_look))

    def _deadline(self, timeout: float | None) -> Deadline:
        default = self._options["default_api_timeout_ms"] / 1000
        return Deadline(default if timeout is None else timeout)
