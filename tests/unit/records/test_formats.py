"""How batches and message sets behave where Java's client cannot be asked."""

from __future__ import annotations

import sys
from struct import pack_into, unpack_from
from typing import Any
from zlib import crc32

import lz4.frame
import pytest
import snappy
import zstandard
from crc32c import crc32c

from kclient import records
from kclient.compression import Codec, compress, decompress
from kclient.errors import (
    ConfigError,
    CorruptRecord,
    MissingCodec,
    ProtocolError,
    SerializationError,
    UnsupportedVersion,
)
from kclient.records import batches, control_type, decode, encode, interface, open_batch, to_arrow
from kclient.types import ProducerRecord, Record, TimestampType

NOW = 1_700_000_000_000
THREE = [ProducerRecord("t", b"value %d" % n, b"k", timestamp_ms=NOW + n) for n in range(3)]
FORMATS = [
    (magic, codec)
    for magic in (0, 1, 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    if magic == 2 or codec != "zstd"
]
every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)


def three(magic: int = 2, codec: str = "none", base_offset: int = 0) -> bytes:
    return encode(THREE, magic=magic, compression=codec, base_offset=base_offset)


def offsets(data: bytes, **options: Any) -> list[int]:
    return [record.offset for record in decode(data, **options)]


def reseal(batch: bytearray) -> bytes:
    """Set the length and checksum of a single batch or message right."""
    pack_into(">i", batch, 8, len(batch) - 12)
    if batch[16] == 2:
        pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    else:
        pack_into(">I", batch, 12, crc32(memoryview(batch)[16:]))
    return bytes(batch)


def with_payload(payload: bytes, codec: Codec, count: int = 3) -> bytes:
    """A batch v2 of our three records whose payload someone else compressed."""
    batch = bytearray(three()[:61]) + payload
    batch[22] = codec
    pack_into(">i", batch, 57, count)
    return reseal(batch)


def wrapper(magic: int, codec: Codec, payload: bytes, offset: int) -> bytes:
    """A message that someone else put compressed messages in."""
    record = ProducerRecord("t", payload, timestamp_ms=NOW)
    message = bytearray(encode([record], magic=magic, base_offset=offset))
    message[17] = codec
    return reseal(message)


# --- the end of a fetch --------------------------------------------------------------------


@every_format
def test_a_batch_cut_short_is_left_out(magic: int, codec: str) -> None:
    whole = three(magic, codec)
    plain_old = magic < 2 and codec == "none"
    second = three(magic, codec, base_offset=3)
    one_message = len(second) // 3 if plain_old else len(second)
    for cut in range(len(second)):
        found = offsets(whole + second[:cut])
        assert found == list(range(3 + (cut // one_message if plain_old else 0)))


def test_nothing_in_nothing_out() -> None:
    assert decode(b"") == []
    assert encode([]) == b""
    assert encode([], magic=1, compression="gzip") == b""
    assert to_arrow(b"").num_rows == 0


def test_what_came_before_damage_is_yielded() -> None:
    for magic, codec in FORMATS:
        broken = bytearray(three(magic, codec, base_offset=3))
        broken[-1] ^= 1
        walk = batches(three(magic, codec) + broken)
        assert [r.offset for r in records.read_batch(next(walk))][:3] == [0, 1, 2], (magic, codec)
        with pytest.raises(CorruptRecord):
            next(walk)


# --- checksums -----------------------------------------------------------------------------


@every_format
def test_the_checksum_is_checked_before_parsing(magic: int, codec: str) -> None:
    good = encode(THREE[:1], magic=magic, compression=codec)
    protected = range(21 if magic == 2 else 17, len(good))
    for pos in protected:
        bad = bytearray(good)
        bad[pos] ^= 0x10
        with pytest.raises(CorruptRecord) as caught:
            list(batches(bad, topic="orders", partition=7))
        assert "CRC" in str(caught.value)
        assert "orders[7]" in str(caught.value)


def test_the_checksum_can_be_left_unchecked() -> None:
    bad = bytearray(three())
    bad[-3] ^= 1
    with pytest.raises(CorruptRecord):
        decode(bad)
    assert len(decode(bad, check_crc=False)) == 3


def test_damage_says_where() -> None:
    bad = bytearray(three(base_offset=40))
    bad[-1] ^= 1
    with pytest.raises(CorruptRecord) as caught:
        decode(bad, topic="orders", partition=7)
    error: Any = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 7, 40)


# --- headers that lie ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "form", "number"),
    [
        (0, ">q", -1),  # base offset
        (0, ">q", (1 << 63) - 1),
        (23, ">i", -1),  # last offset delta
        (23, ">i", 1),  # below the last record's
        (57, ">i", -1),  # record count
        (57, ">i", 2),
        (57, ">i", 4),
        (57, ">i", 0x7FFFFFFF),
    ],
)
def test_lies_in_a_header_are_found(at: int, form: str, number: int) -> None:
    batch = bytearray(three())
    pack_into(form, batch, at, number)
    with pytest.raises(CorruptRecord):
        decode(reseal(batch))


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 48])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_impossible_lengths_are_refused(magic: int, length: int) -> None:
    batch = bytearray(three(magic))
    pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptRecord):
        decode(batch)


@pytest.mark.parametrize("magic", [3, 4, 127, 128, 255])
def test_unknown_formats_are_refused(magic: int) -> None:
    batch = bytearray(three())
    batch[16] = magic
    with pytest.raises(CorruptRecord, match=f"format {magic}"):
        decode(batch)
    with pytest.raises(UnsupportedVersion):
        open_batch(magic=magic)


def test_numbers_of_more_than_32_bits_are_refused() -> None:
    for field in (1, 2):  # a varint of 5 bytes in place of: the offset delta, the key's length
        body = bytearray(b"\0\0\0\1\1\0")
        body[1 + field : 2 + field] = b"\xfe\xff\xff\xff\x7f"
        payload = bytes((2 * len(body),)) + body
        with pytest.raises(CorruptRecord):
            decode(with_payload(bytes(payload), Codec.NONE, count=1))


@pytest.mark.parametrize("magic", [0, 1])
def test_negative_offsets_of_messages_are_refused(magic: int) -> None:
    message = bytearray(encode(THREE[:1], magic=magic))
    message[:8] = b"\xff" * 8
    with pytest.raises(CorruptRecord):
        decode(message)


# --- offsets -------------------------------------------------------------------------------


@every_format
def test_start_offset(magic: int, codec: str) -> None:
    data = three(magic, codec, 10) + three(magic, codec, 20)
    assert offsets(data) == [10, 11, 12, 20, 21, 22]
    for start in range(8, 25):
        wanted = [offset for offset in (10, 11, 12, 20, 21, 22) if offset >= start]
        assert offsets(data, start_offset=start) == wanted
        assert to_arrow(data, start_offset=start)["offset"].to_pylist() == wanted


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_wrapped_offsets_are_relative_in_format_1_and_absolute_in_0(codec: Codec) -> None:
    inner = {magic: three(magic) for magic in (0, 1)}
    packed = {magic: compress(inner[magic], codec, magic=magic) for magic in (0, 1)}
    assert offsets(wrapper(1, codec, packed[1], 102)) == [100, 101, 102]
    assert offsets(wrapper(0, codec, packed[0], 102)) == [0, 1, 2]
    # A wrapper's offset of 0 is a producer that did not set it.
    assert offsets(wrapper(1, codec, packed[1], 0)) == [0, 1, 2]
    with pytest.raises(CorruptRecord):
        decode(wrapper(1, codec, packed[1], 1))


def test_format_1_keeps_the_gaps_that_compaction_left() -> None:
    inner = three(1)
    third = len(inner) // 3
    payload = compress(inner[:third] + inner[2 * third :], Codec.GZIP)
    assert offsets(wrapper(1, Codec.GZIP, payload, 102)) == [100, 102]


def test_what_we_wrap_is_relative_in_format_1_and_absolute_in_0() -> None:
    for magic, wanted in ((0, [50, 51, 52]), (1, [0, 1, 2])):
        data = three(magic, "gzip", 50)
        key_at = 18 if magic == 0 else 26
        inner = decompress(data[key_at + 8 :], Codec.GZIP)
        assert offsets(inner) == wanted
        assert unpack_from(">q", data)[0] == 52


def test_a_batch_says_where_to_go_on() -> None:
    batch = bytearray(three(base_offset=10))
    pack_into(">i", batch, 23, 9)  # compaction removed the records up to offset 19
    (found,) = batches(reseal(batch))
    assert (found.base_offset, found.last_offset, found.record_count) == (10, 19, 3)
    empty = bytearray(batch[:61])
    pack_into(">i", empty, 57, 0)
    (found,) = batches(reseal(empty))
    assert (found.last_offset, records.read_batch(found)) == (19, [])


def test_all_formats_in_one_row() -> None:
    data = b"".join(three(m, c, 3 * n) for n, (m, c) in enumerate(FORMATS * 2))
    assert offsets(data) == list(range(6 * len(FORMATS)))
    assert to_arrow(data)["offset"].to_pylist() == offsets(data)


# --- what a format cannot hold -------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_refuse_what_they_cannot_hold(magic: int) -> None:
    with pytest.raises(UnsupportedVersion, match="KIP-110"):
        open_batch("zstd", magic=magic)
    with pytest.raises(UnsupportedVersion, match="KIP-82"):
        open_batch(magic=magic).append(None, b"v", [("h", b"")])
    for state in ({"producer_id": 1}, {"producer_epoch": 0}, {"transactional": True}):
        with pytest.raises(UnsupportedVersion):
            encode(THREE, magic=magic, **state)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("base_offset", [-1, -(1 << 63), (1 << 63) - 1, 1 << 63, 1 << 70])
def test_offsets_that_do_not_fit_are_refused(magic: int, codec: str, base_offset: int) -> None:
    with pytest.raises(ProtocolError):
        three(magic, codec, base_offset)


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1, 1 << 70])
def test_timestamps_that_do_not_fit_are_refused(magic: int, timestamp: int) -> None:
    for rows in ([timestamp], [0, timestamp]):
        given = [ProducerRecord("t", timestamp_ms=row) for row in rows]
        with pytest.raises(ProtocolError):
            encode(given, magic=magic)


@pytest.mark.parametrize(
    "state", [{"producer_id": 1 << 63}, {"producer_epoch": 1 << 15}, {"base_sequence": 1 << 31}]
)
def test_producer_state_that_does_not_fit_is_refused(state: dict[str, int]) -> None:
    with pytest.raises(ProtocolError):
        encode(THREE, **state)  # type: ignore[arg-type]


# --- a writer ------------------------------------------------------------------------------

WRONG: list[tuple[Any, ...]] = [
    ("text", b"v"),
    (b"k", "text"),
    (b"k", 5),
    (b"k", [1]),
    (b"k", b"v", [(b"bytes", b"")]),
    (b"k", b"v", [("fine", b""), ("h", "text")]),
    (b"k", b"v", [("lone surrogate \ud800", b"")]),
    (b"k", b"v", [(None, b"")]),
    (b"k", b"v", ["pair"]),
    (b"k", b"v", [("h", b"", b"")]),
    (b"k", b"v", {"h": b""}),
]


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_record_leaves_the_batch_as_it_was(wrong: tuple[Any, ...], before: int) -> None:
    writer, other = open_batch(), open_batch()
    for n in range(before):
        writer.append(b"k", b"%d" % n, (), NOW)
        other.append(b"k", b"%d" % n, (), NOW)
    with pytest.raises(SerializationError):
        writer.append(*wrong)
    assert (writer.count, writer.size) == (other.count, other.size)
    writer.append(b"k", b"v", (), NOW + 5)
    other.append(b"k", b"v", (), NOW + 5)
    assert writer.seal() == other.seal()


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_message_leaves_the_set_as_it_was(magic: int) -> None:
    writer = open_batch(magic=magic)
    for wrong in WRONG[:4]:
        with pytest.raises(SerializationError):
            writer.append(*wrong)
    assert (writer.count, writer.size, writer.seal()) == (0, 0, b"")


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_any_buffer_will_do(magic: int) -> None:
    writer = open_batch(magic=magic)
    writer.append(bytearray(b"key"), memoryview(b"xvaluex")[1:-1])  # type: ignore[arg-type]
    (record,) = decode(writer.seal())
    assert (record.key, record.value) == (b"key", b"value")
    assert type(record.value) is bytes


@every_format
def test_a_batch_can_be_sealed_again(magic: int, codec: str) -> None:
    writer = open_batch(codec, magic=magic)
    sizes = [writer.append(r.key, r.value, (), NOW) for r in THREE]
    assert sizes == sorted(sizes)
    assert writer.size == sizes[-1]
    assert writer.count == 3
    assert writer.seal() == writer.seal()
    assert offsets(writer.seal(base_offset=7)) == [7, 8, 9]
    assert offsets(writer.seal()) == [0, 1, 2]
    if codec == "none":
        assert len(writer.seal()) == writer.size


def test_a_new_producer_epoch_needs_no_new_batch() -> None:
    writer = open_batch("lz4")
    writer.append(None, b"v")
    for epoch in (1, 2):
        data = writer.seal(producer_id=9, producer_epoch=epoch, base_sequence=4)
        (batch,) = batches(data)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, epoch, 4)


# --- codecs --------------------------------------------------------------------------------

PLAIN = three()[61:]


def test_snappy_is_read_raw_and_framed_and_written_framed() -> None:
    raw = snappy.compress(PLAIN)
    assert offsets(with_payload(raw, Codec.SNAPPY)) == [0, 1, 2]
    framed = compress(PLAIN, Codec.SNAPPY)
    assert framed.startswith(b"\x82SNAPPY\0")
    assert offsets(with_payload(framed, Codec.SNAPPY)) == [0, 1, 2]
    assert decompress(framed + framed, Codec.SNAPPY) == PLAIN * 2  # streams in a row


def test_lz4_of_format_0_has_the_header_checksum_of_its_time() -> None:
    right, wrong = (compress(PLAIN, Codec.LZ4, magic=magic) for magic in (1, 0))
    assert lz4.frame.decompress(right) == PLAIN
    with pytest.raises(RuntimeError, match="headerChecksum"):
        lz4.frame.decompress(wrong)
    assert [pos for pos in range(len(right)) if right[pos] != wrong[pos]] == [6]
    for frame in (right, wrong):
        assert decompress(frame, Codec.LZ4, magic=0) == PLAIN
    for magic in (1, 2):
        assert decompress(right, Codec.LZ4, magic=magic) == PLAIN
        with pytest.raises(CorruptRecord):
            decompress(wrong, Codec.LZ4, magic=magic)


@pytest.mark.parametrize("options", [{}, {"content_checksum": True}, {"store_size": False}])
def test_lz4_of_format_0_with_other_options(options: dict[str, bool]) -> None:
    frame = bytearray(lz4.frame.compress(PLAIN, **options))
    assert decompress(frame, Codec.LZ4, magic=0) == PLAIN
    frame[14 if options.get("store_size", True) else 6] ^= 0xFF
    assert decompress(frame, Codec.LZ4, magic=0) == PLAIN


def test_zstd_frames_need_not_tell_their_size() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    frame = stream.compress(PLAIN) + stream.flush()
    assert zstandard.frame_content_size(frame) == -1
    assert offsets(with_payload(frame, Codec.ZSTD)) == [0, 1, 2]
    assert decompress(frame + frame, Codec.ZSTD) == PLAIN * 2


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_data_cut_short_is_damaged(codec: Codec) -> None:
    packed = compress(PLAIN * 50, codec)
    for cut in range(1, len(packed) - 1):
        with pytest.raises(CorruptRecord):
            decode(with_payload(packed[:cut], codec, count=150))


def test_an_unknown_codec_is_refused() -> None:
    for codec in (5, 6, 7):
        batch = bytearray(three())
        batch[22] = codec
        with pytest.raises(CorruptRecord, match=f"codec {codec}"):
            decode(reseal(batch))
    with pytest.raises(CorruptRecord):
        decode(wrapper(1, Codec.ZSTD, compress(three(1), Codec.ZSTD), 2))


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [
        ("snappy", "snappy", "python-snappy"),
        ("lz4", "lz4.frame", "lz4"),
        ("zstd", "zstandard", "zstandard"),
    ],
)
def test_a_missing_codec_names_its_package(
    codec: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = three(2, codec, 40)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingCodec) as caught:
        decode(data, topic="orders", partition=7)
    error: Any = caught.value
    assert f"pip install {package}" in str(error)
    for word in ("orders[7]", "40", codec):
        assert word in str(error)
    found = (error.topic, error.partition, error.offset, error.codec, error.package)
    assert found == ("orders", 7, 40, codec, package)
    with pytest.raises(MissingCodec, match=f"pip install {package}"):
        three(2, codec)


@pytest.mark.parametrize("text", ["brotli", "gzip:0", "gzip:10", "lz4:99", "zstd:x", "snappy:1"])
def test_unknown_compressions_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="compression"):
        encode(THREE, compression=text)


# --- records -------------------------------------------------------------------------------


def test_the_brokers_clock_wins() -> None:
    batch = bytearray(three())
    batch[22] |= 0x08
    pack_into(">q", batch, 35, NOW + 99)
    found = decode(reseal(batch))
    assert [record.timestamp for record in found] == [NOW + 99] * 3
    assert {record.timestamp_type for record in found} == {TimestampType.LOG_APPEND_TIME}


def test_control_records_are_not_the_users() -> None:
    batch = bytearray(encode([ProducerRecord("t", b"\0\0\0\0\0\1", b"\0\0\0\1")]))
    batch[22] |= 0x30
    data = reseal(batch)
    assert decode(data) == []
    assert to_arrow(data).num_rows == 0
    (found,) = batches(data)
    assert (found.is_control, found.is_transactional) == (True, True)
    (record,) = records.read_batch(found)
    assert control_type(record) == records.ControlType.COMMIT
    assert control_type(record._replace(key=b"\0\0\0\x63")) == 99
    for key in (None, b"", b"\0\0\0"):
        with pytest.raises(CorruptRecord):
            control_type(record._replace(key=key))


def test_bad_text_in_a_header_key_is_replaced() -> None:
    data = encode([ProducerRecord("t", headers=[("ab", b"")])])
    batch = bytearray(data.replace(b"ab", b"a\xff"))
    (record,) = decode(reseal(batch))
    assert record.headers == (("a\ufffd", b""),)


def test_arrow_has_what_decode_has() -> None:
    rows = [
        ProducerRecord("t", b"v", b"k", [("h", b"1"), ("h", None)], timestamp_ms=NOW),
        ProducerRecord("t", None, None, timestamp_ms=-1),
        ProducerRecord("t", b"", b"", timestamp_ms=0),
    ]
    data = encode(rows, base_offset=5) + three(1, "gzip", 8) + three(0, "none", 11)
    table = to_arrow(data, topic="t", partition=3)
    found = [
        Record(
            row["topic"],
            row["partition"],
            row["offset"],
            -1 if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
            TimestampType(row["timestamp_type"]),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in table.to_pylist()
    ]
    assert found == decode(data, topic="t", partition=3)


# --- which implementation ------------------------------------------------------------------


def test_an_implementation_is_chosen_strictly() -> None:
    assert interface.select("python").NAME == "python"
    assert interface.select(None).NAME == interface.select("").NAME
    assert records.implementation() in ("c", "python")
    for name in ("C", "cython", "pure"):
        with pytest.raises(ConfigError, match="'c' or 'python'"):
            interface.select(name)


def test_a_missing_compiled_module_is_an_error_only_if_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kclient.records._compiled", None)
    assert interface.select(None).NAME == "python"
    with pytest.raises(ConfigError, match="not built"):
        interface.select("c")
