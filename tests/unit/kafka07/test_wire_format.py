"""The wire format document of Kafka 0.7, byte for byte.

The hex is written out field by field from the document's diagrams; checksums are the known
CRC32s of short texts. Nothing here was made by kclient, except what it is compared with.
"""

from __future__ import annotations

import gzip

import pytest

from kclient.compression import Codec
from kclient.errors import ConfigError, CorruptRecord, ProtocolError
from kclient.kafka07 import EARLIEST, LATEST, Fetch, Message, Produce, codec

HELLO_0 = bytes.fromhex(
    "0000000a"  # LENGTH: 1 + 4 + 5
    "00"  # MAGIC 0: no compression attribute
    "3610a686"  # CHECKSUM: CRC32 of "hello"
    "68656c6c6f"  # PAYLOAD "hello"
)
HELLO_1 = bytes.fromhex(
    "0000000b"  # LENGTH: 1 + 1 + 4 + 5
    "01"  # MAGIC 1
    "00"  # COMPRESSION: none
    "3610a686"  # CHECKSUM
    "68656c6c6f"  # PAYLOAD "hello"
)
WORLD_1 = bytes.fromhex(
    "0000000b"  # LENGTH
    "01"  # MAGIC 1
    "00"  # COMPRESSION: none
    "3a771143"  # CHECKSUM: CRC32 of "world"
    "776f726c64"  # PAYLOAD "world"
)
EMPTY_1 = bytes.fromhex("00000006 01 00 00000000")  # no PAYLOAD, whose CRC32 is 0

# What java.util.zip.GZIPOutputStream, and org.xerial.snappy's SnappyOutputStream and
# Snappy.compress (snappy-java 1.0.5), made of HELLO_1 + WORLD_1: the classes that 0.7 used.
JAVA_GZIP = bytes.fromhex(
    "00000035"  # LENGTH
    "01"  # MAGIC 1
    "01"  # COMPRESSION: gzip
    "729f38fd"  # CHECKSUM of the compressed bytes
    "1f8b08000000000000ff636060e06664301358d696919a9393cf00e65a950b3a97e717e5a40000a5d2eb83"
    "1e000000"
)
JAVA_SNAPPY = bytes.fromhex(
    "0000003a"  # LENGTH
    "01"  # MAGIC 1
    "02"  # COMPRESSION: snappy
    "ffe58540"  # CHECKSUM of the compressed bytes
    "82534e4150505900 00000001 00000001"  # xerial's header: magic, version, compatible version
    "00000020"  # the block's length
    "1e74 0000000b01003610a68668656c6c6f 0000000b01003a771143776f726c64"
)
RAW_SNAPPY = bytes.fromhex(
    "00000026"  # LENGTH
    "01"  # MAGIC 1
    "02"  # COMPRESSION: snappy
    "f092fec8"  # CHECKSUM of the compressed bytes
    "1e"  # snappy: 30 bytes follow
    "74"  # snappy: a literal of 30 bytes
    "0000000b01003610a68668656c6c6f 0000000b01003a771143776f726c64"
)
STORED_GZIP = bytes.fromhex(
    "0000002c"  # LENGTH
    "01"  # MAGIC 1
    "01"  # COMPRESSION: gzip
    "e3a47bd5"  # CHECKSUM of the compressed bytes
    "1f8b 08 00 00000000 00 ff"  # gzip header: deflate, no flags, no time
    "01 0f00 f0ff"  # one stored block, the last: 15 bytes
    "0000000b01003610a68668656c6c6f"  # HELLO_1
    "50b0ff5a"  # CRC32 of those 15 bytes, little-endian
    "0f000000"  # their number
)


# Requests


def test_produce_magic_1() -> None:
    assert codec.encode_produce(Produce("test", 7, [b"hello"])) == bytes.fromhex(
        "0000001f"  # REQUEST_LENGTH: 2 + 2 + 4 + 4 + 4 + 15
        "0000"  # REQUEST_TYPE: PRODUCE
        "0004"  # TOPIC_LENGTH
        "74657374"  # TOPIC "test"
        "00000007"  # PARTITION
        "0000000f"  # MESSAGES_LENGTH
        "0000000b 01 00 3610a686 68656c6c6f"  # MESSAGES
    )


def test_produce_magic_0_two_messages() -> None:
    assert codec.encode_produce(Produce("t", -1, [b"hello", b""], magic=0)) == bytes.fromhex(
        "00000024"  # REQUEST_LENGTH: 2 + 2 + 1 + 4 + 4 + 14 + 9
        "0000"  # REQUEST_TYPE: PRODUCE
        "0001"  # TOPIC_LENGTH
        "74"  # TOPIC "t"
        "ffffffff"  # PARTITION -1: the broker chooses
        "00000017"  # MESSAGES_LENGTH
        "0000000a 00 3610a686 68656c6c6f"  # MESSAGE "hello"
        "00000005 00 00000000"  # MESSAGE without payload
    )


def test_produce_topic_is_measured_in_bytes() -> None:
    assert codec.encode_produce(Produce("ö", 0, [])) == bytes.fromhex(
        "0000000e"  # REQUEST_LENGTH: 2 + 2 + 2 + 4 + 4
        "0000"  # REQUEST_TYPE: PRODUCE
        "0002"  # TOPIC_LENGTH
        "c3b6"  # TOPIC "ö"
        "00000000"  # PARTITION
        "00000000"  # MESSAGES_LENGTH
    )


def test_multiproduce() -> None:
    produces = [Produce("test", 0, [b"hello"]), Produce("t", 1, [b"world"])]
    assert codec.encode_multiproduce(produces) == bytes.fromhex(
        "0000003b"  # REQUEST_LENGTH: 2 + 2 + 29 + 26
        "0003"  # REQUEST_TYPE: MULTIPRODUCE
        "0002"  # number of produces
        "0004 74657374 00000000"  # TOPIC_LENGTH, TOPIC "test", PARTITION
        "0000000f 0000000b 01 00 3610a686 68656c6c6f"  # MESSAGES_LENGTH, MESSAGES
        "0001 74 00000001"  # TOPIC_LENGTH, TOPIC "t", PARTITION
        "0000000f 0000000b 01 00 3a771143 776f726c64"  # MESSAGES_LENGTH, MESSAGES
    )


def test_fetch() -> None:
    assert codec.encode_fetch(Fetch("test", 7, 0x0102030405, 0x10000)) == bytes.fromhex(
        "00000018"  # REQUEST_LENGTH: 2 + 2 + 4 + 4 + 8 + 4
        "0001"  # REQUEST_TYPE: FETCH
        "0004"  # TOPIC_LENGTH
        "74657374"  # TOPIC "test"
        "00000007"  # PARTITION
        "0000000102030405"  # OFFSET
        "00010000"  # MAX_SIZE
    )


def test_multifetch() -> None:
    assert codec.encode_multifetch([Fetch("test", 0, 15, 100), Fetch("t", 1, 0, 200)]) == (
        bytes.fromhex(
            "0000002d"  # REQUEST_LENGTH: 2 + 2 + 22 + 19
            "0002"  # REQUEST_TYPE: MULTIFETCH
            "0002"  # number of fetches
            "0004 74657374 00000000"  # TOPIC_LENGTH, TOPIC "test", PARTITION
            "000000000000000f 00000064"  # OFFSET, MAX_SIZE
            "0001 74 00000001"  # TOPIC_LENGTH, TOPIC "t", PARTITION
            "0000000000000000 000000c8"  # OFFSET, MAX_SIZE
        )
    )


@pytest.mark.parametrize(
    ("time", "field"),
    [
        (LATEST, "ffffffffffffffff"),
        (EARLIEST, "fffffffffffffffe"),
        (1318000000000, "00000132deebfc00"),
    ],
)
def test_offsets(time: int, field: str) -> None:
    assert codec.encode_offsets("test", 7, time, 10) == bytes.fromhex(
        "00000018"  # REQUEST_LENGTH: 2 + 2 + 4 + 4 + 8 + 4
        "0004"  # REQUEST_TYPE: OFFSETS
        "0004"  # TOPIC_LENGTH
        "74657374"  # TOPIC "test"
        "00000007"  # PARTITION
        + field  # TIME
        + "0000000a"  # MAX NUMBER of OFFSETS
    )


@pytest.mark.parametrize(
    "encode",
    [
        lambda: codec.encode_fetch(Fetch("", 0, 0)),
        lambda: codec.encode_fetch(Fetch("t" * 0x8000, 0, 0)),
        lambda: codec.encode_fetch(Fetch("\ud800", 0, 0)),
        lambda: codec.encode_fetch(Fetch("t", 1 << 31, 0)),
        lambda: codec.encode_fetch(Fetch("t", 0, 1 << 63)),
        lambda: codec.encode_fetch(Fetch("t", 0, 0, 0)),
        lambda: codec.encode_fetch(Fetch("t", 0, 0, 1 << 31)),
        lambda: codec.encode_multifetch([Fetch("t", 0, 0)] * 0x8000),
        lambda: codec.encode_produce(Produce("t", 0, [b"x"], magic=2)),
        lambda: codec.encode_produce(Produce("t", 0, [b"x"], "gzip", magic=0)),
    ],
)
def test_what_has_no_encoding_is_refused(encode: object) -> None:
    assert callable(encode)
    with pytest.raises(ProtocolError):
        encode()


def test_compression_that_0_7_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="only 'gzip' and 'snappy'"):
        codec.encode_message_set([b"x"], compression="zstd")


def test_one_payload_where_a_list_belongs_is_refused() -> None:
    with pytest.raises(TypeError, match="list of bytes"):
        codec.encode_message_set(b"hello")  # type: ignore[arg-type]


# Responses

FETCH = Fetch("t", 0, 100)


def test_fetch_response() -> None:
    frame = bytes.fromhex(
        "0000001f"  # RESPONSE_LENGTH: 2 + 14 + 15
        "0000"  # ERROR_CODE
        "0000000a 00 3610a686 68656c6c6f"  # MESSAGE of magic 0
        "0000000b 01 00 3a771143 776f726c64"  # MESSAGE of magic 1
    )
    assert codec.response_length(frame[:4], 1000) == len(frame) - 4
    found = codec.decode_fetch_response(frame[4:], FETCH)
    assert list(found) == [Message(b"hello", 100, 114, 0), Message(b"world", 114, 129, 1)]
    assert (found.offset, found.next_offset, found.cut_size) == (100, 129, 0)
    assert (len(found), found[-1].payload) == (2, b"world")


def test_fetch_response_without_messages() -> None:
    found = codec.decode_fetch_response(bytes.fromhex("0000"), FETCH)
    assert (list(found), found.next_offset, found.cut_size) == ([], 100, 0)


@pytest.mark.parametrize("kept", range(1, len(WORLD_1)))
def test_cut_last_message_is_left_out(kept: int) -> None:
    found = codec.decode_message_set(HELLO_1 + WORLD_1[:kept], 100)
    assert [message.payload for message in found] == [b"hello"]
    assert found.next_offset == 115
    assert found.cut_size == (4 if kept < 4 else 15)


@pytest.mark.parametrize(("kept", "needed"), [(2, 4), (4, 15), (14, 15)])
def test_only_a_cut_message_says_how_much_to_ask_for(kept: int, needed: int) -> None:
    with pytest.raises(codec.FetchSizeTooSmall, match="raise max_size") as caught:
        codec.decode_fetch_response(b"\0\0" + HELLO_1[:kept], Fetch("t", 0, 100, kept))
    assert vars(caught.value) == {"max_size": kept, "needed": needed}


def test_multifetch_response() -> None:
    body = bytes.fromhex(
        "0000"  # ERROR_CODE of the whole
        "00000011 0000 0000000b 01 00 3610a686 68656c6c6f"  # length, ERROR_CODE, MESSAGES
        "00000002 0001"  # length, ERROR_CODE: offset out of range
        "00000002 0000"  # length, ERROR_CODE, no message
    )
    fetches = [Fetch("a", 0, 100), Fetch("b", 0, 5), Fetch("c", 0, 7)]
    first, second, third = codec.decode_multifetch_response(body, fetches)
    assert isinstance(first, codec.MessageSet)
    assert list(first) == [Message(b"hello", 100, 115)]
    assert isinstance(second, codec.Kafka07OffsetOutOfRange)
    assert isinstance(third, codec.MessageSet)
    assert third.next_offset == 7


@pytest.mark.parametrize(
    "body",
    [
        "0000",  # no answers
        "0000 00000002 0000",  # one of two
        "0000 00000002 0000 00000002",  # the second is cut
        "0000 00000002 0000 00000001 0000",  # too short for an error code
        "0000 00000002 0000 ffffffff 0000",  # a negative length
        "0000 00000002 0000 7fffffff 0000",  # a length beyond the end
        "0000 00000002 0000 00000002 0000 00",  # a byte too many
    ],
)
def test_multifetch_response_that_does_not_add_up(body: str) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_multifetch_response(bytes.fromhex(body), [FETCH, FETCH])


def test_offsets_response() -> None:
    body = bytes.fromhex(
        "0000"  # ERROR_CODE
        "00000002"  # NUMBER of OFFSETS
        "0000000102030405"  # OFFSET
        "0000000000000000"  # OFFSET
    )
    assert codec.decode_offsets_response(body) == [0x0102030405, 0]


@pytest.mark.parametrize(
    "body", ["", "00", "0000", "0000 ffffffff", "0000 7fffffff", "0000 00000001 00000000000000"]
)
def test_offsets_response_that_does_not_add_up(body: str) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_offsets_response(bytes.fromhex(body))


@pytest.mark.parametrize("prefix", ["ffffffff", "80000000", "00000000", "00000001", "00000065"])
def test_impossible_response_length(prefix: str) -> None:
    with pytest.raises(ProtocolError, match=r"2 to 100 are possible"):
        codec.response_length(bytes.fromhex(prefix), 100)


# Compression


@pytest.mark.parametrize(
    ("wrapper", "name"),
    [(JAVA_GZIP, "gzip"), (JAVA_SNAPPY, "snappy"), (RAW_SNAPPY, "snappy")],
)
def test_wrappers_of_java(wrapper: bytes, name: str) -> None:
    end = 100 + len(wrapper)
    found = codec.decode_message_set(wrapper + EMPTY_1, 100)
    assert list(found) == [
        Message(b"hello", 100, end, 1, name),
        Message(b"world", 100, end, 1, name),
        Message(b"", end, end + 10),
    ]


def test_wrapper_made_by_hand() -> None:
    found = codec.decode_message_set(STORED_GZIP)
    assert list(found) == [Message(b"hello", 0, len(STORED_GZIP), 1, "gzip")]


@pytest.mark.parametrize(("name", "number"), [("gzip", 1), ("snappy", 2)])
def test_written_wrapper(name: str, number: int) -> None:
    data = codec.encode_message_set([b"hello", b"world"], compression=name)
    assert data[4:6] == bytes([1, number])
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    if name == "snappy":  # the framing that SnappyInputStream of 0.7 demands
        assert data == JAVA_SNAPPY


# Damage


@pytest.mark.parametrize(
    "data",
    [
        "ffffffff 01 00 3610a686 68656c6c6f",  # negative length
        "80000000",  # the most negative length
        "00000000",  # no magic
        "00000004 00000000",  # shorter than any header
        "00000005 01 00 000000",  # shorter than the header of magic 1
        "0000000b 02 00 3610a686 68656c6c6f",  # magic 2
        "0000000b ff 00 3610a686 68656c6c6f",  # magic 255
        "0000000b 01 03 3610a686 68656c6c6f",  # compression 3
        "0000000b 01 04 3610a686 68656c6c6f",  # a bit beside the codec's
        "0000000b 01 00 3610a687 68656c6c6f",  # checksum
        "0000000b 01 00 3610a686 68656c6c70",  # payload
        "0000000b 01 01 3610a686 68656c6c6f",  # gzip that is none
        "0000000b 01 02 3610a686 68656c6c6f",  # snappy that is none
    ],
)
def test_damaged_message(data: str) -> None:
    with pytest.raises(CorruptRecord, match="the message at offset 115") as caught:
        codec.decode_message_set(HELLO_1 + bytes.fromhex(data), 100)
    assert vars(caught.value)["offset"] == 115


def test_damage_names_where_to_go_on() -> None:
    damaged = HELLO_1[:-1] + b"x"
    with pytest.raises(CorruptRecord) as caught:
        codec.decode_message_set(HELLO_1 + damaged + WORLD_1, 100)
    assert vars(caught.value) == {"offset": 115, "next_offset": 130}


def _wrap(messages: bytes) -> bytes:
    return codec.encode_message(gzip.compress(messages), codec=Codec.GZIP)


def test_wrapper_in_a_wrapper_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="compressed message inside"):
        codec.decode_message_set(_wrap(HELLO_1 + JAVA_GZIP))


@pytest.mark.parametrize("kept", [1, 3, 4, 14])
def test_cut_inside_a_wrapper_is_damage(kept: int) -> None:
    with pytest.raises(CorruptRecord, match="cut after 15 bytes"):
        codec.decode_message_set(_wrap(HELLO_1 + WORLD_1[:kept]))


def test_damage_inside_a_wrapper() -> None:
    with pytest.raises(CorruptRecord, match="checksum") as caught:
        codec.decode_message_set(HELLO_1 + _wrap(HELLO_1[:-1] + b"x"), 100)
    assert vars(caught.value)["offset"] == 115


def test_empty_wrapper_moves_on() -> None:
    data = _wrap(b"")
    found = codec.decode_message_set(data, 100)
    assert (len(found), found.next_offset) == (0, 100 + len(data))


def test_decompression_is_capped_over_the_whole_set() -> None:
    bomb = codec.encode_message_set([bytes(100_000)], compression="gzip")
    assert len(codec.decode_message_set(bomb * 2, max_decompressed=200_020)) == 2
    with pytest.raises(CorruptRecord, match="more than the limit"):
        codec.decode_message_set(bomb * 2, max_decompressed=200_019)
