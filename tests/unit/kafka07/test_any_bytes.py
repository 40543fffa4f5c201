"""Whatever bytes arrive: values, or an error of the protocol's family; and back again."""

from __future__ import annotations

import struct
from collections.abc import Callable
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import KafkaError, ProtocolError
from kclient.kafka07 import Fetch, FetchSizeTooSmall, Kafka07Error, Message, Produce, codec

FETCHES = [Fetch("a", 0, 0), Fetch("b", 1, 1 << 40)]
COMPRESSIONS = st.sampled_from([None, "gzip", "snappy"])
PAYLOADS = st.lists(st.binary(max_size=300), max_size=20)
CAP = 1 << 20


def _message(magic: int, compression: int, payload: bytes) -> bytes:
    """A message with a right checksum and anything else, so that decoding goes beyond it."""
    header = struct.pack(">bB", magic, compression) if magic else b"\0"
    return (
        struct.pack(">i", len(header) + 4 + len(payload))
        + header
        + (struct.pack(">I", crc32(payload)) + payload)
    )


SEALED = st.builds(_message, st.sampled_from([0, 1, 1, 1]), st.integers(0, 3), st.binary())
SETS = st.builds(
    lambda payloads, compression: codec.encode_message_set(payloads, compression=compression),
    PAYLOADS,
    COMPRESSIONS,
)
RESPONSES = st.builds(lambda parts: b"\0\0" + b"".join(parts), st.lists(SETS | SEALED, max_size=4))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid response with a few bytes changed, cut out or put in."""
    data = bytearray(draw(RESPONSES))
    for _ in range(draw(st.integers(1, 4))):
        pos = draw(st.integers(0, len(data)))
        data[pos : pos + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data)


def _survives(decode: Callable[[], object]) -> None:
    try:
        decode()
    except (ProtocolError, Kafka07Error, FetchSizeTooSmall):
        return


def _decode_all(data: bytes) -> None:
    _survives(lambda: codec.decode_message_set(data, max_decompressed=CAP))
    _survives(lambda: codec.decode_fetch_response(data, FETCHES[1], max_decompressed=CAP))
    _survives(lambda: codec.decode_multifetch_response(data, FETCHES, max_decompressed=CAP))
    _survives(lambda: codec.decode_offsets_response(data))
    _survives(lambda: codec.response_length(data[:4], 1000))


@given(st.binary(max_size=2000))
def test_random_bytes(data: bytes) -> None:
    _decode_all(data)
    _decode_all(b"\0\0" + data)


@given(st.lists(SEALED, max_size=5))
def test_random_payloads_under_right_checksums(messages: list[bytes]) -> None:
    _decode_all(b"\0\0" + b"".join(messages))


@given(mutated())
def test_mutated_responses(data: bytes) -> None:
    _decode_all(data)


@given(st.lists(mutated(), min_size=2, max_size=2))
def test_mutated_multifetch_answers(parts: list[bytes]) -> None:
    body = b"\0\0" + b"".join(struct.pack(">i", len(part)) + part for part in parts)
    try:
        answers = codec.decode_multifetch_response(body, FETCHES, max_decompressed=CAP)
    except ProtocolError:
        assert any(len(part) < 2 for part in parts)
    else:
        allowed = (codec.MessageSet, ProtocolError, Kafka07Error, FetchSizeTooSmall)
        assert all(isinstance(answer, allowed) for answer in answers)


@given(PAYLOADS, COMPRESSIONS, st.integers(0, 1 << 62))
def test_message_set_round_trip(
    payloads: list[bytes], compression: str | None, offset: int
) -> None:
    data = codec.encode_message_set(payloads, compression=compression)
    found = codec.decode_message_set(data, offset)
    assert [message.payload for message in found] == payloads
    assert all(message.compression == compression for message in found)
    assert (found.next_offset, found.cut_size) == (offset + len(data), 0)


@given(PAYLOADS, st.sampled_from([0, 1]), st.integers(0, 1 << 40))
def test_plain_offsets_chain(payloads: list[bytes], magic: int, offset: int) -> None:
    expected = []
    for payload in payloads:
        end = offset + 4 + (5 if magic == 0 else 6) + len(payload)
        expected.append(Message(payload, offset, end, magic))
        offset = end
    first = expected[0].offset if expected else offset
    data = codec.encode_message_set(payloads, magic=magic)
    assert list(codec.decode_message_set(data, first)) == expected


@given(PAYLOADS, COMPRESSIONS, st.data())
def test_any_cut_keeps_the_whole_messages(
    payloads: list[bytes], compression: str | None, data: st.DataObject
) -> None:
    whole = codec.encode_message_set(payloads, compression=compression)
    kept = data.draw(st.integers(0, len(whole)))
    found = codec.decode_message_set(whole[:kept])
    assert [message.payload for message in found] == payloads[: len(found)]
    assert found.next_offset <= kept
    assert bool(found.cut_size) == (found.next_offset < kept)


@given(st.text(min_size=1, max_size=30), st.integers(-1, 9), PAYLOADS, COMPRESSIONS)
def test_requests_are_frames_of_their_length(
    topic: str, partition: int, payloads: list[bytes], compression: str | None
) -> None:
    produce = Produce(topic, partition, payloads, compression)
    try:
        frames = [
            codec.encode_produce(produce),
            codec.encode_multiproduce([produce, produce]),
            codec.encode_multifetch([Fetch(topic, partition, 0)]),
        ]
    except KafkaError:
        assert any("\ud800" <= char <= "\udfff" for char in topic)
    else:
        assert all(int.from_bytes(frame[:4], "big") == len(frame) - 4 for frame in frames)
