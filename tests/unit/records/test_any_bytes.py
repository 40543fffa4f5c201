"""Whatever records go in come out again; whatever bytes come in, errors stay in the family."""

from __future__ import annotations

from contextlib import suppress
from struct import pack_into
from zlib import crc32

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kclient.compression import Codec, compress, decompress
from kclient.errors import CorruptRecord, ProtocolError
from kclient.records import batches, decode, encode, read_batch, to_arrow
from kclient.types import Record, TimestampType

CAP = 1 << 20
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in Codec if magic == 2 or codec < 4]
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
DATA = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=8), DATA), max_size=3).map(tuple)
RECORDS = st.builds(
    Record,
    st.just("t"),
    st.just(1),
    st.just(0),
    INT64 | st.integers(0, 1 << 14),
    st.just(TimestampType.CREATE_TIME),
    DATA,
    DATA,
    HEADERS,
    st.just(-1),
)


@given(
    st.lists(RECORDS, max_size=12),
    st.sampled_from(FORMATS),
    st.integers(0, (1 << 63) - (1 << 33)) | st.integers(0, 100),
)
def test_round_trip(records: list[Record], kind: tuple[int, Codec], base: int) -> None:
    magic, codec = kind
    if magic < 2:
        records = [record._replace(headers=()) for record in records]
    data = encode(records, magic=magic, compression=codec.name.lower(), base_offset=base)
    wanted = [
        r._replace(
            offset=base + index,
            timestamp=r.timestamp if magic else -1,
            timestamp_type=TimestampType.CREATE_TIME if magic else TimestampType.NONE,
        )
        for index, r in enumerate(records)
    ]
    assert decode(data, topic="t", partition=1) == wanted
    assert decode(memoryview(bytearray(data)), topic="t", partition=1) == wanted
    middle = base + len(records) // 2
    later = [record for record in wanted if record.offset >= middle]
    assert decode(data, topic="t", partition=1, start_offset=middle) == later


@given(st.binary(max_size=3000), st.sampled_from(Codec), st.sampled_from([0, 1, 2]))
def test_compression_round_trip(data: bytes, codec: Codec, magic: int) -> None:
    if codec is not Codec.ZSTD or magic == 2:
        packed = compress(data, codec, magic=magic)
        assert decompress(packed, codec, magic=magic) == data
        assert decompress(memoryview(packed), codec, magic=magic) == data
        assert compress(memoryview(data), codec, magic=magic) == packed


def read_everything(data: bytes, check_crc: bool) -> None:
    """Read by every way; ways must agree, and raise nothing but ProtocolError."""
    with suppress(ProtocolError):
        for batch in batches(data, check_crc=check_crc):
            with suppress(ProtocolError):
                read_batch(batch, max_output=CAP)
    try:
        records = decode(data, check_crc=check_crc, max_output=CAP)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            to_arrow(data, check_crc=check_crc, max_output=CAP)
        return
    assert all(0 <= record.offset < 1 << 63 for record in records)
    table = to_arrow(data, check_crc=check_crc, max_output=CAP)
    assert table["offset"].to_pylist() == [record.offset for record in records]
    assert table["value"].to_pylist() == [record.value for record in records]


@given(st.binary(max_size=300), st.booleans(), st.sampled_from([None, 0, 1, 2, 3, 255]))
def test_any_bytes(data: bytes, check_crc: bool, magic: int | None) -> None:
    if magic is not None and len(data) > 16:
        data = data[:16] + bytes((magic,)) + data[17:]
    if len(data) > 16 and magic in (0, 1, 2):
        data = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
    read_everything(data, check_crc)


@given(st.binary(max_size=300), st.integers(0, 9), st.sampled_from([0, 1, 2]))
def test_any_compressed_bytes(data: bytes, codec: int, magic: int) -> None:
    with suppress(CorruptRecord):
        assert len(decompress(data, codec, magic=magic, max_output=CAP)) <= CAP


@given(st.binary(max_size=3000), st.sampled_from(Codec), st.data())
def test_damaged_compressed_bytes(data: bytes, codec: Codec, draw: st.DataObject) -> None:
    packed = damaged(compress(data, codec), draw)
    with suppress(CorruptRecord):
        out = decompress(packed, codec, max_output=CAP)
        assert codec is Codec.NONE or len(out) <= CAP


def damaged(data: bytes, draw: st.DataObject) -> bytes:
    """Change, cut or repeat a little of ``data``."""
    out = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        if not out:
            break
        pos = draw.draw(st.integers(0, len(out) - 1))
        kind = draw.draw(st.sampled_from(["byte", "byte", "cut", "copy"]))
        if kind == "byte":
            out[pos] = draw.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]))
        elif kind == "cut":
            del out[pos : pos + draw.draw(st.integers(1, 9))]
        else:
            out[pos:pos] = out[pos : pos + draw.draw(st.integers(1, 9))]
    return bytes(out)


def resealed(data: bytes | bytearray, magic: int) -> bytes:
    """Give damaged bytes a right length, format and checksum, so that the parser sees them."""
    out = bytearray(data.ljust(61, b"\0"))
    pack_into(">i", out, 8, len(out) - 12)
    out[16] = magic
    if magic == 2:
        pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    else:
        pack_into(">I", out, 12, crc32(memoryview(out)[16:]))
    return bytes(out)


@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(FORMATS), st.data())
def test_damage_under_a_right_checksum(
    records: list[Record], kind: tuple[int, Codec], draw: st.DataObject
) -> None:
    magic, codec = kind
    if magic < 2:
        records = [record._replace(headers=()) for record in records]
    data = encode(records, magic=magic, compression=codec.name.lower(), base_offset=5)
    read_everything(resealed(damaged(data, draw), magic), check_crc=True)


@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(FORMATS), st.data())
def test_damage_inside_the_compressed_part(
    records: list[Record], kind: tuple[int, Codec], draw: st.DataObject
) -> None:
    """Damage what was compressed, not the compressed bytes: all levels of parsing see it."""
    magic, codec = kind
    if magic < 2:
        records = [record._replace(headers=()) for record in records]
    plain = encode(records, magic=magic)
    if magic == 2:
        head = bytearray(plain[:61])
        head[22] = codec
        read_everything(resealed(head + compress(damaged(plain[61:], draw), codec), 2), True)
    elif codec:
        payload = compress(damaged(plain, draw), codec, magic=magic)
        offset = draw.draw(st.sampled_from([0, 1, 2, 3, 1 << 40, (1 << 63) - 1]))
        wrapper = bytearray(encode([RECORD._replace(value=payload)], magic=magic))
        wrapper[:8] = offset.to_bytes(8, "big")
        wrapper[17] = codec
        read_everything(resealed(wrapper, magic), True)


RECORD = Record("", -1, 0, 0, TimestampType.CREATE_TIME, None, None)
