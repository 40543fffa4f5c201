"""From the bytes of a fetch response, or a log, to batches and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from kclient.compression import DEFAULT_MAX_OUTPUT, Data
from kclient.records import interface
from kclient.records.batch import (
    CRC_END,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    OFFSET_LIMIT,
    RecordBatch,
    corrupt,
    decompressed,
)
from kclient.records.legacy import read_messages, scan_messages
from kclient.types import Record

_MAGIC = 16  # the magic byte is here in every format


def batches(
    data: Data, *, topic: str = "", partition: int = -1, check_crc: bool = True
) -> Iterator[RecordBatch]:
    """Walk over the batches of ``data``, of any format, without reading their records.

    A batch cut short at the end is left out: brokers cut where the fetch size ends.
    Raises CorruptRecord (a ProtocolError) where a checksum, length or format is wrong;
    what came before has been yielded by then. ``topic`` and ``partition`` go into records
    and errors.
    """
    view = memoryview(data).cast("B")
    pos, size = 0, len(view)
    while size - pos > _MAGIC:
        magic = view[_MAGIC + pos]
        if magic < 2:
            batch = scan_messages(view, pos, topic, partition, check_crc)
        else:
            batch = _scan_batch(view, pos, topic, partition, check_crc)
        if batch is None:
            return
        yield batch
        pos += len(batch.section) + (HEADER_SIZE if magic == 2 else 0)


def read_batch(batch: RecordBatch, *, max_output: int = DEFAULT_MAX_OUTPUT) -> list[Record]:
    """Read the records of a batch; those of a control batch are the cluster's markers.

    Raises CorruptRecord if they are damaged or would decompress to more than
    ``max_output`` bytes, MissingCodec if the codec's package is not installed.
    """
    if batch.magic < 2:
        return read_messages(batch, max_output)
    if not batch.record_count:
        return []
    return interface.active.read_records(decompressed(batch, batch.section, max_output), batch)


def decode(
    data: Data,
    *,
    topic: str = "",
    partition: int = -1,
    start_offset: int = 0,
    max_output: int = DEFAULT_MAX_OUTPUT,
    check_crc: bool = True,
) -> list[Record]:
    """Read all data records of a row of batches and message sets, of any mix of formats.

    Control records are left out (see ``batches`` and ``read_batch``), as is a batch cut
    short at the end, and records before ``start_offset``. ``max_output`` bounds the bytes
    each batch may decompress to. Raises CorruptRecord (a ProtocolError) for damaged input,
    MissingCodec if a codec's package is not installed.
    """
    records: list[Record] = []
    for batch in batches(data, topic=topic, partition=partition, check_crc=check_crc):
        if batch.last_offset < start_offset or batch.is_control:
            continue
        found = read_batch(batch, max_output=max_output)
        if batch.base_offset < start_offset:
            found = [record for record in found if record.offset >= start_offset]
        records += found
    return records


def to_arrow(
    data: Data,
    *,
    topic: str = "",
    partition: int = -1,
    start_offset: int = 0,
    max_output: int = DEFAULT_MAX_OUTPUT,
    check_crc: bool = True,
) -> Any:
    """Read what ``decode`` would into a ``pyarrow.Table``.

    Columns: key, value, topic, partition, offset, timestamp (ms, UTC; null if unknown),
    timestamp_type, headers. Raises what ``decode`` raises.
    """
    wanted = (
        batch
        for batch in batches(data, topic=topic, partition=partition, check_crc=check_crc)
        if batch.last_offset >= start_offset and not batch.is_control
    )
    return batches_to_arrow(wanted, start_offset=start_offset, max_output=max_output)


def batches_to_arrow(
    wanted: Iterable[RecordBatch],
    *,
    start_offset: int = 0,
    max_output: int = DEFAULT_MAX_OUTPUT,
) -> Any:
    """Read batches that a reader has chosen itself, as ``to_arrow`` does."""
    from kclient.records import arrow

    tables = []
    for is_old, group in groupby(wanted, key=lambda batch: batch.magic < 2):
        if is_old:
            tables.append(arrow.table([r for b in group for r in read_messages(b, max_output)]))
        else:
            sections = (
                (b, decompressed(b, b.section, max_output)) for b in group if b.record_count
            )
            tables.append(interface.active.read_arrow(sections))
    return arrow.joined(tables, start_offset)


def _scan_batch(
    view: memoryview, pos: int, topic: str, partition: int, check_crc: bool
) -> RecordBatch | None:
    """Check the batch v2 at ``pos``; None if it is cut short."""
    left = len(view) - pos
    if left < HEADER_SIZE:
        head = bytes(view[pos:]).ljust(HEADER_SIZE, b"\0")  # enough to judge format and length
        fields = HEADER.unpack(head)
    else:
        fields = HEADER.unpack_from(view, pos)
    offset, length, epoch, magic, checksum, attributes, delta = fields[:7]
    if magic != 2:
        raise corrupt(topic, partition, offset, f"unknown message format {magic & 0xFF}")
    if length < HEADER_SIZE - LENGTH_END:
        raise corrupt(topic, partition, offset, f"a batch cannot have {length} bytes")
    if left < LENGTH_END + length:
        return None
    end = pos + LENGTH_END + length
    if check_crc and interface.active.crc32c(view[pos + CRC_END : end]) != checksum:
        raise corrupt(topic, partition, offset, "the CRC is wrong")
    count = fields[-1]
    if not 0 <= offset < OFFSET_LIMIT or delta < 0 or count < 0:
        why = f"the header claims {count} records and a last offset delta of {delta}"
        raise corrupt(topic, partition, offset, why)
    known = (topic, partition, 2, offset, offset + delta, epoch, attributes)
    # A named tuple made in one step costs a third of one made by keywords.
    section = view[pos + HEADER_SIZE : end]
    return tuple.__new__(RecordBatch, (*known, *fields[7:], section))
