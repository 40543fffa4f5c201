"""One partition's share of an answer: batches that wait to be read, filtered as they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from kclient.errors import CorruptRecord, KafkaError, MissingCodec
from kclient.fetch.positions import PartitionState
from kclient.protocol.messages.fetch import AbortedTransaction, PartitionData
from kclient.records import (
    ControlType,
    RecordBatch,
    arrow,
    batches,
    batches_to_arrow,
    control_type,
    read_batch,
)
from kclient.types import Record


class Aborted:
    """Which batches belong to aborted transactions (read_committed)."""

    def __init__(self, listed: Sequence[AbortedTransaction]) -> None:
        # The broker's list is not always sorted, and may name a producer more than once.
        self._coming = deque(sorted((each.first_offset, each.producer_id) for each in listed))
        self._open: set[int] = set()

    def hides(self, batch: RecordBatch) -> bool:
        """Whether a batch, the next in order, is not for the reader; markers never are."""
        while self._coming and self._coming[0][0] <= batch.last_offset:
            self._open.add(self._coming.popleft()[1])
        if batch.is_control:
            if batch.producer_id in self._open and self._ends_transaction(batch):
                self._open.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._open

    def _ends_transaction(self, batch: RecordBatch) -> bool:
        return any(control_type(record) == ControlType.ABORT for record in read_batch(batch))


class Fetched:
    """The data of one partition in one answer. ``take`` reads it, batch by batch."""

    def __init__(self, state: PartitionState, data: PartitionData, *, check_crc: bool) -> None:
        self.state = state
        self.token = state.token
        self.size = len(data.records or b"")
        self.next_offset, self.last_epoch = state.fetch_offset, state.fetch_epoch
        self.error: KafkaError | None = None
        """Damage behind the batches that are sound."""
        self._batches: deque[RecordBatch] = deque()
        self._visible: deque[RecordBatch] = deque()
        """Batches that were found to be for the reader, and not yet read."""
        self._records: list[Record] = []
        self._index = 0
        self._aborted = Aborted(data.aborted_transactions or ())
        self._scan(data, check_crc)

    def _scan(self, data: PartitionData, check_crc: bool) -> None:
        """Find the batches and check their CRCs, so that the next fetch can leave at once."""
        topic, partition = self.state.tp
        try:
            for batch in batches(
                data.records or b"", topic=topic, partition=partition, check_crc=check_crc
            ):
                if batch.last_offset >= self.state.fetch_offset:
                    self._batches.append(batch)
                    self.next_offset, self.last_epoch = batch.last_offset + 1, batch.leader_epoch
        except CorruptRecord as error:
            self.error = error

    @property
    def is_current(self) -> bool:
        """Whether nobody has changed course since it was asked for."""
        return self.token == self.state.token and not self.state.is_paused

    @property
    def is_empty(self) -> bool:
        """Whether all of it has been taken."""
        return not (self._batches or self._visible) and self._index >= len(self._records)

    def take(self, limit: int) -> list[Record]:
        """Up to ``limit`` next records; the state's position moves behind them.

        Raises CorruptRecord or MissingCodec with the position at the batch that is damaged;
        what comes before it has been handed out by then.
        """
        taken: list[Record] = []
        while len(taken) < limit:
            if self._index >= len(self._records) and not self._try_next(taken):
                break
            end = self._index + limit - len(taken)
            if self._index == 0 and end >= len(self._records) and not taken:
                taken = self._records
            else:
                taken = taken + self._records[self._index : end]
            self._index = min(end, len(self._records))
        self._note_position(taken)
        return taken

    def put_back(self, records: list[Record]) -> None:
        """Have the last records that were taken handed out again."""
        self._records = records + self._records[self._index :]
        self._index = 0
        first = records[0]
        self.state.position, self.state.epoch = first.offset, first.leader_epoch

    def take_table(self, limit: int) -> Any:
        """The next whole batches, until there are ``limit`` records, as a ``pyarrow.Table``.

        Raises what ``take`` raises. Column by column, with no object for a record.
        """
        if self._index < len(self._records):  # somebody has begun to read record by record
            return arrow.table(self.take(len(self._records) - self._index))
        count = 0
        while count < limit and self._look(len(self._visible) + 1):
            count += max(self._visible[-1].record_count, 1)
        start = self.state.position
        if self._visible and 0 <= start <= self._visible[0].base_offset:
            start = 0  # nothing to leave out: spares a look at every offset
        try:
            table = batches_to_arrow(self._visible, start_offset=start)
        except (CorruptRecord, MissingCodec):
            return arrow.table(self.take(limit))  # finds what is sound
        chosen = list(self._visible)
        self._visible.clear()
        self._note_end_of(chosen)
        return table

    def _note_end_of(self, batches: list[RecordBatch]) -> None:
        if batches and not self.is_empty:
            last = batches[-1]
            self.state.position, self.state.epoch = last.last_offset + 1, last.leader_epoch
        else:
            self._note_position([])

    def _note_position(self, taken: list[Record]) -> None:
        state = self.state
        if self.is_empty:
            state.position, state.epoch = self.next_offset, self.last_epoch
        elif taken:
            state.position, state.epoch = taken[-1].offset + 1, taken[-1].leader_epoch

    def _try_next(self, taken: list[Record]) -> bool:
        """As ``_next_records``; damage waits until what was taken before is handed out."""
        try:
            return self._next_records()
        except (CorruptRecord, MissingCodec):
            if taken:
                return False
            raise

    def _look(self, count: int) -> bool:
        """Whether there are ``count`` batches for the reader; what is not is left behind."""
        while len(self._visible) < count and self._batches:
            batch = self._batches[0]
            if not self._aborted.hides(batch):
                self._visible.append(batch)
            self._batches.popleft()
        return len(self._visible) >= count

    def _next_records(self) -> bool:
        """Read the next batch that has something for the user."""
        while self._look(1):
            batch = self._visible[0]
            records = read_batch(batch)
            if batch.base_offset < self.state.position:
                start = self.state.position
                records = [record for record in records if record.offset >= start]
            self._visible.popleft()
            if records:
                self._records, self._index = records, 0
                return True
        self._records, self._index = [], 0
        return False
