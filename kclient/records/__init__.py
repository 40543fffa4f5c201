"""Record batches: bytes in, records out, and back. All formats that Kafka ever stored.

``decode``, ``encode`` and ``to_arrow`` work on whole batches. A fetcher walks over
``batches`` and reads each by ``read_batch``; a producer fills an ``open_batch``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kclient.compression import parse_compression
from kclient.errors import UnsupportedVersion
from kclient.records import interface
from kclient.records.arrow_rows import ArrowRows
from kclient.records.batch import ControlType, RecordBatch, control_type
from kclient.records.interface import BatchWriter
from kclient.records.legacy import MessageSetWriter
from kclient.records.reader import batches, batches_to_arrow, decode, read_batch, to_arrow
from kclient.types import ProducerRecord, Record

__all__ = [
    "ArrowRows",
    "BatchWriter",
    "ControlType",
    "RecordBatch",
    "batches",
    "batches_to_arrow",
    "control_type",
    "decode",
    "encode",
    "implementation",
    "open_batch",
    "read_batch",
    "to_arrow",
]


def implementation() -> str:
    """Return which twin is in use: ``"c"`` or ``"python"``."""
    return interface.active.NAME


def open_batch(compression: str | None = None, *, magic: int = 2) -> BatchWriter:
    """Start a batch (``magic`` 2) or message set (0, 1) to append records to.

    ``compression`` is None, a codec's name, or name and level as in ``"zstd:3"``. Raises
    ConfigError for an unknown one, UnsupportedVersion for a format that does not exist or
    cannot have that codec.
    """
    chosen = parse_compression(compression)
    if magic == 2:
        return interface.active.open_batch(chosen)
    if magic not in (0, 1):
        raise UnsupportedVersion(f"there is no message format {magic}")
    return MessageSetWriter(chosen, magic)


def encode(
    records: Iterable[Record | ProducerRecord],
    *,
    magic: int = 2,
    compression: str | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Write records into one batch, or one message set; no records give no bytes.

    Offsets count up from ``base_offset``; a missing timestamp is written as -1, for the
    codec has no clock. Raises UnsupportedVersion for what format ``magic`` cannot hold,
    SerializationError for keys and values that are not bytes, ProtocolError for numbers
    that do not fit, ConfigError for an unknown ``compression``, MissingCodec.
    """
    writer = open_batch(compression, magic=magic)
    append = writer.append
    for record in records:
        if isinstance(record, Record):
            append(record.key, record.value, record.headers, record.timestamp)
        else:
            timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
            append(record.key, record.value, record.headers, timestamp)
    return writer.seal(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
