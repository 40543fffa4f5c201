"""A partition's log in memory: batches in the order they came, with offsets of their own.

All replicas are in step at once, so the end of the log is its high watermark too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kclient import records
from kclient.compression import Codec
from kclient.errors import CorruptRecord
from kclient.protocol.wire import Buffer
from kclient.records import ControlType, RecordBatch, interface
from kclient.records.batch import CONTROL, CRC_END, HEADER, LENGTH_END
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.sequences import Sequences
from kclient.types import ProducerRecord, Record

_OFFSET_AND_EPOCH = Struct(">qii")  # base offset, length, leader epoch: before what the CRC covers
_CRC_AND_ATTRIBUTES = Struct(">Ih")
_CRC = 17
_MARKER_KEY = Struct(">hh")  # version, type
_MARKER_VALUE = Struct(">hi")  # version, coordinator epoch
UNKNOWN = -1


class StoredBatch(NamedTuple):
    """A batch with its place in the log; the offsets in ``data`` are final."""

    base_offset: int
    last_offset: int
    data: bytes
    header: RecordBatch


class Aborted(NamedTuple):
    """A transaction that was rolled back: its first offset here, and its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


class PartitionLog:
    """Batches from ``start`` to ``end`` (the next offset), leader epochs, transactions."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.batches: list[StoredBatch] = []
        self.epochs: list[tuple[int, int]] = []  # leader epoch, the offset it began at
        self.sequences = Sequences()
        self.open_transactions: dict[int, int] = {}  # producer id: its first offset
        self.aborted: list[Aborted] = []

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records have to stop."""
        return min(self.open_transactions.values(), default=self.end)

    def begin_epoch(self, epoch: int) -> None:
        """A leader starts with ``epoch`` at the log's end."""
        if self.epochs and self.epochs[-1][1] == self.end:
            self.epochs.pop()
        self.epochs.append((epoch, self.end))

    def append(self, data: Buffer, leader_epoch: int) -> int:
        """Append batches or a message set of any format; returns the first offset.

        Nothing is checked but that the batches' lengths make sense: damaged records can be
        stored for the readers' sake. Raises CorruptRecord otherwise.
        """
        first = self.end
        for batch, raw in list(_pieces(data)):
            self._store(batch, raw, leader_epoch)
        return first

    def _store(self, batch: RecordBatch, raw: memoryview, leader_epoch: int) -> None:
        base = self.end
        if batch.magic < 2:
            data, last = _renumbered_messages(batch, base)
        else:
            last = base + batch.last_offset - batch.base_offset
            start = _OFFSET_AND_EPOCH.pack(base, len(raw) - LENGTH_END, leader_epoch)
            data = start + raw[_OFFSET_AND_EPOCH.size :]
        header = batch._replace(
            base_offset=base, last_offset=last, leader_epoch=leader_epoch, section=memoryview(b"")
        )
        self.batches.append(StoredBatch(base, last, data, header))
        self.end = last + 1
        if header.is_transactional and not header.is_control:
            self.open_transactions.setdefault(header.producer_id, base)

    def append_marker(
        self, producer_id: int, producer_epoch: int, kind: ControlType, leader_epoch: int
    ) -> int:
        """End a producer's transaction here; returns the marker's offset."""
        offset = self.end
        first = self.open_transactions.pop(producer_id, None)
        self.append(_marker(producer_id, producer_epoch, kind), leader_epoch)
        if first is not None and kind is ControlType.ABORT:
            self.aborted.append(Aborted(producer_id, first, offset))
        self.sequences.end_transaction(producer_id, producer_epoch)
        return offset

    def truncate(self, offset: int) -> None:
        """Lose what is at ``offset`` and after it; a batch that reaches there goes whole."""
        while self.batches and self.batches[-1].last_offset >= offset:
            self.end = self.batches.pop().base_offset
        self.end = max(min(self.end, offset), self.start)
        self.epochs = [entry for entry in self.epochs if entry[1] <= self.end]
        self.aborted = [gone for gone in self.aborted if gone.last_offset < self.end]
        self.open_transactions = {
            producer: first
            for producer, first in self.open_transactions.items()
            if first < self.end
        }

    def delete_before(self, offset: int) -> None:
        """Forget what is before ``offset``, as retention does; raises OFFSET_OUT_OF_RANGE."""
        if not self.start <= offset <= self.end:
            raise Refusal(Code.OFFSET_OUT_OF_RANGE)
        self.start = offset
        self.batches = [batch for batch in self.batches if batch.last_offset >= offset]
        self.aborted = [gone for gone in self.aborted if gone.last_offset >= offset]

    def read(
        self, offset: int, end: int, max_bytes: int, *, at_least_one: bool
    ) -> list[StoredBatch]:
        """Whole batches from the one that holds ``offset``, up to ``end`` and ``max_bytes``."""
        found: list[StoredBatch] = []
        size = 0
        for batch in self._batches_from(offset):
            if batch.base_offset >= end:
                break
            size += len(batch.data)
            if size > max_bytes and (found or not at_least_one):
                break
            found.append(batch)
        return found

    def _batches_from(self, offset: int) -> Iterator[StoredBatch]:
        position = bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)
        return iter(self.batches[position:])

    def aborted_between(self, offset: int, end: int) -> list[Aborted]:
        """Rolled-back transactions that a reader of ``offset`` up to ``end`` has to know."""
        return [
            gone for gone in self.aborted if gone.last_offset >= offset and gone.first_offset < end
        ]

    def records(self, topic: str, partition: int) -> list[Record]:
        """All data records, also those of open and aborted transactions."""
        data = b"".join(batch.data for batch in self.batches)
        return records.decode(data, topic=topic, partition=partition, start_offset=self.start)

    def offset_for_time(self, timestamp: int, end: int) -> tuple[int, int, int]:
        """Offset, timestamp and leader epoch of the first record not before ``timestamp``."""
        for batch in self._batches_from(self.start):
            if batch.header.max_timestamp < timestamp:
                continue
            for record in records.decode(batch.data):
                if record.timestamp >= timestamp and self.start <= record.offset < end:
                    return record.offset, record.timestamp, record.leader_epoch
        return UNKNOWN, UNKNOWN, UNKNOWN

    def offset_of_newest(self) -> tuple[int, int, int]:
        """As ``offset_for_time``, of the record with the highest timestamp."""
        found = (UNKNOWN, UNKNOWN, UNKNOWN)
        for record in self.records("", UNKNOWN):
            if record.timestamp > found[1]:
                found = (record.offset, record.timestamp, record.leader_epoch)
        return found

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to ``epoch`` and where it ended; (-1, -1) if unknown (KIP-101)."""
        if not self.epochs or epoch < 0 or epoch > self.epochs[-1][0]:
            return UNKNOWN, UNKNOWN
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        following = next(entry for entry in self.epochs if entry[0] > epoch)
        known = [entry[0] for entry in self.epochs if entry[0] <= epoch]
        return (known[-1] if known else epoch), following[1]


def check_batches(data: Buffer) -> list[RecordBatch]:
    """What a producer sent, with checksums; raises CORRUPT_MESSAGE, or INVALID_RECORD if empty."""
    try:
        found = list(records.batches(data))
    except CorruptRecord:
        raise Refusal(Code.CORRUPT_MESSAGE) from None
    if not found:
        raise Refusal(Code.INVALID_RECORD)
    return found


def _pieces(data: Buffer) -> Iterator[tuple[RecordBatch, memoryview]]:
    """Each batch (or run of old messages) with the bytes it was read from."""
    view = memoryview(data).cast("B")
    pos = 0
    for batch in records.batches(view, check_crc=False):
        end = pos + len(batch.section) + (HEADER.size if batch.magic == 2 else 0)
        yield batch, view[pos:end]
        pos = end


def older_format(batches: list[StoredBatch], magic: int) -> bytes:
    """Batches for a reader that does not know their format; headers and markers are lost."""
    pieces = []
    for batch in batches:
        if batch.header.magic <= magic:
            pieces.append(batch.data)
            continue
        for record in records.decode(batch.data):
            plain = record._replace(headers=())
            pieces.append(records.encode([plain], magic=magic, base_offset=record.offset))
    return b"".join(pieces)


def _renumbered_messages(batch: RecordBatch, base: int) -> tuple[bytes, int]:
    """A message set with offsets from ``base``, and the last of them."""
    found = records.read_batch(batch)
    compression = Codec(batch.codec).name.lower() if batch.codec else None
    data = records.encode(found, magic=batch.magic, compression=compression, base_offset=base)
    return data, base + len(found) - 1


def _marker(producer_id: int, producer_epoch: int, kind: ControlType) -> bytes:
    """A control batch: its one record says how the transaction ended."""
    record = ProducerRecord("", _MARKER_VALUE.pack(0, 0), _MARKER_KEY.pack(0, kind))
    batch = bytearray(
        records.encode(
            [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True
        )
    )
    _, attributes = _CRC_AND_ATTRIBUTES.unpack_from(batch, _CRC)
    _CRC_AND_ATTRIBUTES.pack_into(batch, _CRC, 0, attributes | CONTROL)
    checksum = interface.active.crc32c(memoryview(batch)[CRC_END:])
    batch[_CRC:CRC_END] = checksum.to_bytes(4, "big")
    return bytes(batch)
