"""Handing records out: what the user has got, what he is done with, what comes next.

Iteration takes records in runs and hands them out one by one: the position of the partition
is then behind the run, the user's position inside of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kclient.errors import KafkaError, SerializationError
from kclient.fetch.deserialization import Deserializer
from kclient.fetch.fetched import Fetched
from kclient.fetch.fetcher import Fetcher
from kclient.fetch.positions import PartitionState, Positions
from kclient.records import arrow
from kclient.types import OffsetAndMetadata, Record, TopicPartition


class Reading:
    """The reader's end of a fetcher. One thread at a time may use it."""

    def __init__(self, fetcher: Fetcher, positions: Positions, deserializer: Deserializer) -> None:
        self.run: list[Record] = []
        self.next = 0
        """The run that iteration is in, and the index of the record to hand out next."""
        self.count = 0
        self.attention = False
        """Whether iteration should look up before it hands out the next record."""
        self._fetcher = fetcher
        self._positions = positions
        self._deserializer = deserializer
        self._acknowledged = 0
        """What ``next`` was when the user said that all was done."""
        self._run_state: PartitionState | None = None
        self._held: dict[TopicPartition, OffsetAndMetadata] = {}
        """Where the records of the last poll begin: the user may be at work on them."""

    # --- for the group ---

    def add(self, tps: Iterable[TopicPartition]) -> None:
        """Read these too."""
        self._positions.add(tps)

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        self._positions.remove(tps)
        self.attention = True

    def progress(self) -> tuple[int, int]:
        """What differs when the user has come further; for any thread."""
        return self.count, self.next

    def wake(self) -> None:
        """Have whoever waits for records, or iterates, look up; from any thread."""
        self.attention = True
        self._fetcher.board.wake()

    # --- taking ---

    def advance(self) -> None:
        """The user came back: done is whatever was handed out."""
        self._held.clear()
        self.attention = True  # an iteration around this call goes on with what is left then
        self._acknowledged = 0
        if self.next:
            self.run, self.next = self.run[self.next :], 0

    def acknowledge(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The user says that he is done with all that was handed out; up to where that is."""
        self._held.clear()
        self._acknowledged = self.next
        return self.positions()

    def take(self, limit: int) -> list[Record]:
        """Up to ``limit`` records, none if none are here.

        Raises what keeps a partition from being read, when nothing else is to be had.
        """
        taken = self._rest_of_run(limit)
        while len(taken) < limit and (data := self._fetcher.current()) is not None:
            state = data.state
            held = OffsetAndMetadata(state.position, "", state.epoch)
            try:
                some = self._taken(data, limit - len(taken))
            except KafkaError:
                if taken:
                    break  # the next call tells it
                raise
            self._held.setdefault(state.tp, held)
            taken = taken + some if taken else some
            if data.is_empty:
                self._fetcher.pump()
        if not taken:
            self.raise_error()
        self.count += len(taken)
        return taken

    def take_table(self, limit: int) -> Any:
        """Whole batches until there are ``limit`` records, as a ``pyarrow.Table``; or []."""
        tables, count = [], 0
        if rest := self._rest_of_run(limit):
            tables, count = [arrow.table(rest)], len(rest)
        while count < limit and (data := self._fetcher.current()) is not None:
            state = data.state
            held = OffsetAndMetadata(state.position, "", state.epoch)
            try:
                tables.append(data.take_table(limit - count))
            except KafkaError:
                if count:
                    break
                raise
            self._held.setdefault(state.tp, held)
            count += tables[-1].num_rows
            if data.is_empty:
                self._fetcher.pump()
        if not count:
            self.raise_error()
            return []
        self.count += count
        return arrow.joined(tables, 0)

    def next_run(self, limit: int) -> bool:
        """Have a run of up to ``limit`` records for iteration; False if none are here."""
        if self._has_run():
            return True
        while (data := self._fetcher.current()) is not None:
            state = data.state
            records = self._taken(data, limit)
            if data.is_empty:
                self._fetcher.pump()
            if records:
                self.run, self.next, self._run_state = records, 0, state
                self.count += len(records)
                return True
        self.raise_error()
        return False

    def raise_error(self) -> None:
        """Raise what keeps a partition from being read, if anything does."""
        error = self._positions.take_error()
        if error is not None:
            raise error

    def _has_run(self) -> bool:
        """Whether there is a rest of a run, of a partition that is still ours."""
        state = self._run_state
        if state is None or self.next >= len(self.run):
            return False
        return self._positions.states.get(state.tp) is state

    def _rest_of_run(self, limit: int) -> list[Record]:
        """What an iteration that was left early had not handed out."""
        if not self._has_run() or self._run_state is None:
            self.run, self.next, self._run_state = [], 0, None
            return []
        rest = self.run[self.next : self.next + limit]
        first = rest[0]
        self._held[self._run_state.tp] = OffsetAndMetadata(first.offset, "", first.leader_epoch)
        self.run, self.next = self.run[self.next + limit :], 0
        self.count -= len(rest)  # they were counted when the run was taken
        return rest

    def _taken(self, data: Fetched, limit: int) -> list[Record]:
        """Take records and make their keys and values.

        What comes before a bad record is handed out first; the bad one stays where it is.
        """
        records = data.take(limit)
        if not self._deserializer.is_needed:
            return records
        made: list[Record] = []
        for number, record in enumerate(records):
            try:
                made.append(self._deserializer.apply(record))
            except SerializationError:
                data.put_back(records[number:])
                if not made:
                    raise
                break
        return made

    # --- positions ---

    def position(self, state: PartitionState) -> OffsetAndMetadata:
        """The next offset for the user, -1 if it is not known."""
        if self._run_state is state and self.next < len(self.run):
            record = self.run[self.next]
            return OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return OffsetAndMetadata(state.position, "", state.epoch)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The next offset of every partition that has one."""
        found = {state.tp: self.position(state) for state in self._positions}
        return {tp: at for tp, at in found.items() if at.offset >= 0}

    def finished_before_poll(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Up to where the user is surely done: before what the last call handed out."""
        done = self.finished()
        done.update((tp, at) for tp, at in self._held.items() if tp in done)
        return done

    def finished(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Up to where the user is done: before the record that iteration has handed out.

        What the last poll returned counts as done.
        """
        done = self.positions()
        state = self._run_state
        if self.next > self._acknowledged and state is not None and state.tp in done:
            record = self.run[self.next - 1]
            done[state.tp] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return done

    def forget(self, tps: Collection[TopicPartition]) -> None:
        """Somebody seeks: what iteration has taken is of no use, in hand or not."""
        if self._run_state is not None and self._run_state.tp in tps:
            self.run, self.next, self._run_state = [], 0, None
        for tp in tps:
            self._held.pop(tp, None)
        self.attention = True

    def settle(self, tps: Collection[TopicPartition]) -> None:
        """Give back what iteration has taken of partitions and not handed out."""
        state = self._run_state
        if state is not None and state.tp in tps and self._has_run():
            at = self.position(state)
            state.position, state.epoch = at.offset, at.leader_epoch
            # The record in the user's hands stays, so that no commit covers it yet.
            self.run = self.run[: self.next]
            state.rewind()
        self.attention = True
