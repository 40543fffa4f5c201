"""The last step of every batch v2: compress, checksum, put the header in front."""

from __future__ import annotations

from struct import error as StructError  # noqa: N812 - a class by any other name

from crc32c import crc32c

from kclient.compression import Compression, Data, compress
from kclient.errors import ProtocolError
from kclient.records.batch import (
    CRC_END,
    HEADER,
    INT32_MAX,
    LENGTH_END,
    OFFSET_LIMIT,
    TRANSACTIONAL,
)


def seal_batch(
    section: Data,
    count: int,
    timestamps: tuple[int, int],
    compression: Compression,
    *,
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
) -> bytes:
    """Make a batch of ``count`` encoded records, whose first and latest timestamps are given.

    Raises ProtocolError if a number does not fit the header, MissingCodec.
    """
    if not 0 <= base_offset < OFFSET_LIMIT:
        raise ProtocolError(f"a batch cannot begin at offset {base_offset}")
    codec, level = compression
    if codec:
        section = compress(section, codec, level=level)
    length = HEADER.size - LENGTH_END + len(section)
    if length > INT32_MAX:
        raise ProtocolError(f"a batch of {length} bytes: the format allows {INT32_MAX}")
    attributes = codec | TRANSACTIONAL * transactional
    producer = (producer_id, producer_epoch, base_sequence)
    try:
        header = HEADER.pack(
            base_offset, length, -1, 2, 0, attributes, count - 1, *timestamps, *producer, count
        )
    except StructError as error:
        raise ProtocolError(f"a number does not fit a batch's header: {error}") from None
    checksum = crc32c(section, crc32c(header[CRC_END:]))
    return b"".join((header[: CRC_END - 4], checksum.to_bytes(4, "big"), header[CRC_END:], section))
