"""The wire format of Kafka 0.7, bytes to values and back; it never touches a socket.

Everything is big-endian. A request or response is a frame: an int32 length, then that many
bytes. What sets 0.7 apart from every later Kafka:

- An offset is a byte position in the partition's log. The message after one of LENGTH n at
  offset x starts at x + 4 + n, and only such starts are valid offsets.
- PRODUCE and MULTIPRODUCE have no response.
- The checksum covers the payload alone, so the bytes before it are checked one by one.
- A compressed message holds a whole message set. Those inner messages have no offsets of
  their own: one resumes before or after all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple
from zlib import crc32

from kclient.compression import DEFAULT_MAX_OUTPUT, Codec, Data, compress, decompress
from kclient.errors import (
    BrokerError,
    ConfigError,
    CorruptRecord,
    KafkaError,
    MissingCodec,
    OffsetOutOfRange,
    ProtocolError,
)

LATEST = -1
"""As the time of an offsets request: the offset after the last message."""
EARLIEST = -2
"""As the time of an offsets request: the offset of the oldest message kept."""

DEFAULT_MAX_SIZE = 1 << 20
"""Bytes asked for by one fetch unless the caller says otherwise: 1 MiB."""

_COMPRESSIONS = (None, "gzip", "snappy")  # by their number in a message
_HEADER_SIZES = (5, 6)  # by magic: MAGIC and CHECKSUM, and COMPRESSION between them since magic 1
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_CHECKSUM = struct.Struct(">I")


class RequestType(IntEnum):
    """REQUEST_TYPE of a request frame."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4


class Kafka07Error(BrokerError):
    """A 0.7 broker answered with an error code: ``.code``, and ``.name`` as 0.7 knew it."""

    def __init__(self, message: str, code: int, **context: Any) -> None:
        # Our parent names codes as today's Kafka does; 0.7 meant other things by some.
        super().__init__(message, code, **context)
        self.name = _ERRORS[code][0] if code in _ERRORS else f"UNKNOWN_CODE_{code}"
        self.retriable = self.stale_metadata = False


class Kafka07OffsetOutOfRange(Kafka07Error, OffsetOutOfRange):
    """The offset is before the log's start or beyond its end: ask ``offsets()`` for both."""


class FetchSizeTooSmall(KafkaError):
    """A fetch of ``.max_size`` bytes cut the first message short; it takes ``.needed`` or more."""


_ERRORS = {
    -1: ("UNKNOWN", "the broker failed in a way it has no code for; its log says more"),
    1: ("OFFSET_OUT_OF_RANGE", "ask offsets() for the earliest and latest offset and start there"),
    2: ("INVALID_MESSAGE", "the broker found a damaged message in its log"),
    3: ("WRONG_PARTITION", "the broker has no such partition; check the partition number"),
    4: ("INVALID_FETCH_SIZE", "the broker refused the size; fetch with another max_size"),
}


class Message(NamedTuple):
    """A message read from a log.

    ``offset`` is where it starts in the partition's log and ``next_offset`` where the message
    after it does, both in bytes. The messages of one compressed wrapper share the wrapper's
    two: resuming at ``offset`` reads them all again, at ``next_offset`` none of them.
    ``compression`` is the wrapper's codec, None for a message that came plain.
    """

    payload: bytes
    offset: int
    next_offset: int
    magic: int = 1
    compression: str | None = None


@dataclass(frozen=True)
class MessageSet:
    """What one fetch brought: iterate or index it for its messages, in log order.

    ``next_offset`` is where the next fetch goes on (``offset`` itself if nothing whole came).
    ``cut_size`` is the full size in bytes of a message that was cut off at the end of the
    response, 0 if none was; it is 4 if not even the message's length arrived.
    """

    messages: Sequence[Message]
    offset: int
    next_offset: int
    cut_size: int = 0

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]


class Fetch(NamedTuple):
    """One fetch: up to ``max_size`` bytes of a partition's log from ``offset`` on."""

    topic: str
    partition: int
    offset: int
    max_size: int = DEFAULT_MAX_SIZE


class Produce(NamedTuple):
    """Payloads to append to a partition, in order; ``compression`` wraps them into one message."""

    topic: str
    partition: int
    payloads: Iterable[bytes]
    compression: str | None = None
    magic: int = 1


def encode_message(payload: bytes, *, magic: int = 1, codec: Codec = Codec.NONE) -> bytes:
    """Put one message around ``payload``; ``codec`` says what it is compressed with already.

    Raises ProtocolError for a magic other than 0 and 1, or a codec with magic 0.
    """
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise TypeError(f"a payload is bytes, not {type(payload).__name__}; pass a list of bytes")
    if magic not in (0, 1) or (magic == 0 and codec):
        raise ProtocolError(f"Kafka 0.7 has no message of magic {magic} with codec {codec.name}")
    attributes = bytes([magic, codec] if magic else [magic])
    length = _pack(">i", "a message's length", _HEADER_SIZES[magic] + len(payload))
    return b"".join((length, attributes, _CHECKSUM.pack(crc32(payload)), payload))


def encode_message_set(
    payloads: Iterable[bytes], *, magic: int = 1, compression: str | None = None
) -> bytes:
    """Write a message for each payload, or one that holds them all for "gzip" and "snappy".

    Raises ConfigError for any other compression, ProtocolError for a magic that 0.7 lacks or
    compression with magic 0.
    """
    if compression not in _COMPRESSIONS:
        raise ConfigError(f"compression {compression!r}: Kafka 0.7 has only 'gzip' and 'snappy'")
    plain = b"".join(encode_message(payload, magic=magic) for payload in payloads)
    if compression is None or not plain:
        return plain
    codec = Codec(_COMPRESSIONS.index(compression))
    return encode_message(compress(plain, codec), magic=magic, codec=codec)


def decode_message_set(
    data: Data, offset: int = 0, *, max_decompressed: int = DEFAULT_MAX_OUTPUT
) -> MessageSet:
    """Read the messages in ``data``, which starts at ``offset`` of its log; wrappers are unpacked.

    A cut last message is left out and reported by ``cut_size``. ``max_decompressed`` bounds,
    in bytes, what all compressed messages together unpack to. Raises CorruptRecord and
    MissingCodec, with ``.offset`` and ``.next_offset`` (None if the message's end is unknown).
    """
    view = memoryview(data)
    messages: list[Message] = []
    pos, room, cut_size = 0, max_decompressed, 0
    while pos < len(view):
        where, resume = offset + pos, None
        try:
            end = _end_of(view, pos)
            if end > len(view):
                cut_size = end - pos
                break
            resume = offset + end
            magic, codec, payload = _open_message(view[pos + 4 : end])
            if not codec:
                messages.append(Message(bytes(payload), where, resume, magic))
            else:
                plain = decompress(payload, codec, max_output=room)
                room -= len(plain)
                messages += _inner_messages(plain, where, resume, _COMPRESSIONS[codec])
        except (ProtocolError, MissingCodec) as error:
            kind = MissingCodec if isinstance(error, MissingCodec) else CorruptRecord
            text = f"the message at offset {where}: {error}"
            raise kind(text, offset=where, next_offset=resume) from error
        pos = end
    return MessageSet(messages, offset, offset + pos, cut_size)


def _end_of(view: memoryview, pos: int) -> int:
    """Find where the message at ``pos`` ends; if its length is cut, where that would."""
    if len(view) - pos < 4:
        return pos + 4
    (length,) = _INT32.unpack_from(view, pos)
    if length < _HEADER_SIZES[0]:
        raise CorruptRecord(f"its length is {length}: it is damaged, or no message starts there")
    return pos + 4 + int(length)


def _open_message(message: memoryview) -> tuple[int, int, memoryview]:
    """Check a message, given without its length: its magic, codec and payload."""
    magic = message[0]
    if magic >= len(_HEADER_SIZES) or len(message) < _HEADER_SIZES[magic]:
        raise CorruptRecord(f"magic {magic} in a message of {len(message)} bytes is not Kafka 0.7")
    header_size = _HEADER_SIZES[magic]
    payload = message[header_size:]
    (checksum,) = _CHECKSUM.unpack_from(message, header_size - 4)
    if crc32(payload) != checksum:
        raise CorruptRecord(f"its checksum is {crc32(payload):08x} and should be {checksum:08x}")
    # Brokers look at two bits of this byte only. The checksum does not cover it and 0.7 wrote
    # nothing into the others, so any other value is damage.
    codec = message[1] if magic else 0
    if codec >= len(_COMPRESSIONS):
        raise CorruptRecord(f"its compression is {codec}, which Kafka 0.7 does not have")
    return magic, codec, payload


def _inner_messages(
    plain: bytes, where: int, resume: int, compression: str | None
) -> Iterator[Message]:
    """Yield the messages of a wrapper's message set, where nothing may be cut or nested."""
    view, pos = memoryview(plain), 0
    while pos < len(view):
        end = _end_of(view, pos)
        if end > len(view):
            raise CorruptRecord(f"the messages inside it are cut after {pos} bytes")
        magic, codec, payload = _open_message(view[pos + 4 : end])
        if codec:
            raise CorruptRecord("it holds a compressed message inside a compressed message")
        yield Message(bytes(payload), where, resume, magic, compression)
        pos = end


def encode_produce(produce: Produce) -> bytes:
    """Frame a PRODUCE request. Partition -1 lets the broker choose one."""
    return _frame(RequestType.PRODUCE, _produce_body(produce))


def encode_multiproduce(produces: Sequence[Produce]) -> bytes:
    """Frame a MULTIPRODUCE request."""
    count = _pack(">h", "the number of produces", len(produces))
    return _frame(RequestType.MULTIPRODUCE, count, *map(_produce_body, produces))


def encode_fetch(fetch: Fetch) -> bytes:
    """Frame a FETCH request."""
    return _frame(RequestType.FETCH, _fetch_body(fetch))


def encode_multifetch(fetches: Sequence[Fetch]) -> bytes:
    """Frame a MULTIFETCH request."""
    count = _pack(">h", "the number of fetches", len(fetches))
    return _frame(RequestType.MULTIFETCH, count, *map(_fetch_body, fetches))


def encode_offsets(topic: str, partition: int, time: int = LATEST, max_offsets: int = 1) -> bytes:
    """Frame an OFFSETS request: ``time`` is in ms since the epoch, LATEST or EARLIEST."""
    query = _pack(">qi", "time and number of offsets", time, max_offsets)
    return _frame(RequestType.OFFSETS, _partition(topic, partition), query)


def _produce_body(produce: Produce) -> bytes:
    messages = encode_message_set(
        produce.payloads, magic=produce.magic, compression=produce.compression
    )
    length = _pack(">i", "the messages' length", len(messages))
    return _partition(produce.topic, produce.partition) + length + messages


def _fetch_body(fetch: Fetch) -> bytes:
    if fetch.max_size <= 0:
        raise ProtocolError(f"max_size is a number of bytes above 0, not {fetch.max_size}")
    extent = _pack(">qi", "offset and max_size", fetch.offset, fetch.max_size)
    return _partition(fetch.topic, fetch.partition) + extent


def _partition(topic: str, partition: int) -> bytes:
    try:
        name = topic.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"topic {topic!r} cannot be written as UTF-8") from error
    if not name:
        raise ProtocolError("the topic's name is empty")
    length = _pack(">h", "the length of the topic's name", len(name))
    return length + name + _pack(">i", "partition", partition)


def _frame(kind: RequestType, *parts: bytes) -> bytes:
    length = _pack(">i", "the request's length", 2 + sum(map(len, parts)))
    return b"".join((length, _INT16.pack(kind), *parts))


def _pack(layout: str, what: str, *values: int) -> bytes:
    try:
        return struct.pack(layout, *values)
    except struct.error as error:
        raise ProtocolError(f"{what} {values} does not fit Kafka 0.7's field: {error}") from error


def response_length(prefix: Data, limit: int) -> int:
    """Read how many bytes follow the four of ``prefix``, ``limit`` at most.

    Raises ProtocolError if the length is not possible, before anyone makes room for it.
    """
    length = int.from_bytes(prefix, "big", signed=True)
    if not 2 <= length <= limit:
        raise ProtocolError(
            f"a response of {length} bytes was announced where 2 to {limit} are possible; "
            "is the other side a Kafka 0.7 broker?"
        )
    return length


def decode_fetch_response(
    body: Data, fetch: Fetch, *, max_decompressed: int = DEFAULT_MAX_OUTPUT
) -> MessageSet:
    """Read the messages of the FETCH response (without its length) to ``fetch``.

    Raises Kafka07Error for the broker's error code, FetchSizeTooSmall, CorruptRecord and
    ProtocolError.
    """
    found = decode_message_set(_checked(body), fetch.offset, max_decompressed=max_decompressed)
    if found.cut_size and found.next_offset == fetch.offset:
        text = (
            f"the message there takes at least {found.cut_size} bytes and max_size is "
            f"{fetch.max_size}: raise max_size (or, if that is absurd, no message starts there)"
        )
        raise FetchSizeTooSmall(text, max_size=fetch.max_size, needed=found.cut_size)
    return found


def decode_multifetch_response(
    body: Data, fetches: Sequence[Fetch], *, max_decompressed: int = DEFAULT_MAX_OUTPUT
) -> list[MessageSet | KafkaError]:
    """Read what each of ``fetches`` brought, in their order, or the error that befell it alone.

    ``max_decompressed`` holds for each fetch. Raises Kafka07Error or ProtocolError where the
    response as a whole is of no use.
    """
    rest = _checked(body)
    results: list[MessageSet | KafkaError] = []
    for index, fetch in enumerate(fetches):
        length = _INT32.unpack_from(rest)[0] if len(rest) >= 4 else 0
        if not 2 <= length <= len(rest) - 4:
            raise ProtocolError(f"answer {index + 1} of {len(fetches)} is missing or cut")
        part, rest = rest[4 : 4 + length], rest[4 + length :]
        try:
            results.append(decode_fetch_response(part, fetch, max_decompressed=max_decompressed))
        except KafkaError as error:
            results.append(error)
    if rest:
        raise ProtocolError(f"{len(rest)} bytes follow the last of {len(fetches)} answers")
    return results


def decode_offsets_response(body: Data) -> list[int]:
    """Read the offsets of an OFFSETS response (without its length), newest first.

    Raises Kafka07Error for the broker's error code, and ProtocolError.
    """
    rest = _checked(body)
    count = _INT32.unpack_from(rest)[0] if len(rest) >= 4 else -1
    if count < 0 or len(rest) != 4 + 8 * count:
        raise ProtocolError(f"{len(rest)} bytes are not the {count} offsets they say they are")
    return list(struct.unpack_from(f">{count}q", rest, 4))


def _checked(body: Data) -> memoryview:
    """Give what follows the error code, or raise what that code means."""
    view = memoryview(body)
    if len(view) < 2:
        raise ProtocolError(f"{len(view)} bytes are too few for an error code")
    (code,) = _INT16.unpack_from(view)
    if code:
        name, advice = _ERRORS.get(code, (f"code {code}", "Kafka 0.7 gave this code no name"))
        kind = Kafka07OffsetOutOfRange if code == 1 else Kafka07Error
        raise kind(f"the broker answered {name} (error {code}): {advice}", code)
    return view[2:]
