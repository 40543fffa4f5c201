"""Compressed payloads of batches and message sets: gzip, snappy, lz4, zstd.

Decompression never trusts a length it reads: output grows in steps that follow what the
codec really produced, and stops at ``max_output`` bytes. Codec packages are imported when
a codec is first used, so a missing one hurts only those who need it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from kclient.errors import ConfigError, CorruptRecord, MissingCodec, UnsupportedVersion

Data = bytes | bytearray | memoryview
"""What every codec here takes."""

DEFAULT_MAX_OUTPUT = 128 * 1024 * 1024
"""Largest decompressed batch, in bytes, unless the caller says otherwise."""


class Codec(IntEnum):
    """Compression codecs by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Compression(NamedTuple):
    """A codec and its level; ``None`` is our default for that codec."""

    codec: Codec
    level: int | None = None


_LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}


@lru_cache(maxsize=64)
def parse_compression(text: str | None) -> Compression:
    """Read ``None``, ``"none"``, ``"lz4"`` or ``"zstd:3"`` (codec and level).

    Raises ConfigError for an unknown codec, or a level that the codec does not have.
    """
    name, colon, level = (text or "none").lower().partition(":")
    try:
        codec = Codec[name.upper()]
    except KeyError:
        raise ConfigError(
            f"unknown compression {text!r}: use None, 'gzip', 'snappy', 'lz4' or 'zstd'"
        ) from None
    if not colon:
        return Compression(codec)
    if codec not in _LEVELS:
        raise ConfigError(f"compression {text!r}: {name} has no levels")
    low, high = _LEVELS[codec]
    try:
        number = int(level)
    except ValueError:
        raise ConfigError(f"compression {text!r}: the level must be a number") from None
    if not low <= number <= high:
        raise ConfigError(f"compression {text!r}: {name} levels are {low} to {high}")
    return Compression(codec, number)


def compress(data: Data, codec: Codec, *, level: int | None = None, magic: int = 2) -> bytes:
    """Compress a batch's payload the way readers of message format ``magic`` expect.

    Raises MissingCodec if the codec's package is not installed, UnsupportedVersion for zstd
    before format 2 (KIP-110).
    """
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return stream.compress(data) + stream.flush()
    if codec == Codec.SNAPPY:
        return _snappy_compress(data)
    if codec == Codec.LZ4:
        return _lz4_compress(data, level or 0, magic)
    if magic < 2:
        raise UnsupportedVersion(f"zstd needs message format 2, not {magic} (KIP-110)")
    return _zstd_compress(data, _ZSTD_LEVEL if level is None else level)


def decompress(
    data: Data, codec: int, *, magic: int = 2, max_output: int = DEFAULT_MAX_OUTPUT
) -> bytes:
    """Decompress a batch's payload; at most ``max_output`` bytes come out.

    Raises CorruptRecord if the data is damaged, has an unknown codec or would grow larger
    than that, MissingCodec if the codec's package is not installed.
    """
    if codec == Codec.NONE:
        return bytes(data)
    view = memoryview(data)
    if codec == Codec.GZIP:
        return _gzip_decompress(view, max_output)
    if codec == Codec.SNAPPY:
        return _snappy_decompress(view, max_output)
    if codec == Codec.LZ4:
        return _lz4_decompress(_mend_lz4_header(view) if magic == 0 else view, max_output)
    if codec == Codec.ZSTD and magic >= 2:
        return _zstd_decompress(view, max_output)
    raise CorruptRecord(f"message format {magic} has no compression codec {codec}")


def _missing(codec: str, package: str) -> MissingCodec:
    return MissingCodec(
        f"{codec} needs the package {package}, which is not installed: pip install {package}",
        codec=codec,
        package=package,
    )


def _damaged(codec: str, why: object) -> CorruptRecord:
    return CorruptRecord(f"damaged {codec} data: {why}")


def _too_large(codec: str, max_output: int) -> CorruptRecord:
    return CorruptRecord(f"{codec} data decompresses to more than the limit of {max_output} bytes")


def _collect(read: Callable[[int], bytes], first: int, max_output: int, codec: str) -> bytes:
    """Join what ``read(limit)`` yields until it is empty; each limit doubles the total."""
    parts: list[bytes] = []
    total, step = 0, first
    while part := read(min(step, max_output - total + 1)):
        parts.append(part)
        total += len(part)
        if total > max_output:
            raise _too_large(codec, max_output)
        step = max(step, total)
    return b"".join(parts)


def _first_step(view: memoryview) -> int:
    return max(8 * len(view), 1 << 16)


# --- gzip --------------------------------------------------------------------------------

_GZIP_WINDOW = 31  # 32 KiB window, with gzip's header and trailer
_GZIP_FEED = 16 * 1024  # zlib copies what is left of its input at each member: keep that small


def _gzip_decompress(view: memoryview, max_output: int) -> bytes:
    parts: list[bytes] = []
    room = max_output + 1
    pos, size = 0, len(view)
    member = zlib.decompressobj(_GZIP_WINDOW)
    try:
        while pos < size:
            if member.eof:  # members may follow each other
                member = zlib.decompressobj(_GZIP_WINDOW)
            chunk = view[pos : pos + _GZIP_FEED]
            part = member.decompress(chunk, room)
            pos += len(chunk) - len(member.unused_data)
            room -= len(part)
            if room <= 0:
                raise _too_large("gzip", max_output)
            parts.append(part)
    except zlib.error as error:
        raise _damaged("gzip", error) from None
    if not member.eof:
        raise _damaged("gzip", "it is cut short")
    return b"".join(parts)


# --- snappy ------------------------------------------------------------------------------

# Java clients wrap snappy in the block format of the library snappy-java ("xerial").
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_AGAIN = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
_XERIAL_BLOCK = 32 * 1024  # snappy-java's own block size; 64 KiB compressed no better
_SNAPPY_MAX_RATIO = 22  # three bytes can copy at most 64
_INT32 = Struct(">i")


def _snappy() -> Any:
    try:
        import snappy
    except ImportError:
        raise _missing("snappy", "python-snappy") from None
    return snappy


def _snappy_compress(data: Data) -> bytes:
    snappy = _snappy()
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for pos in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[pos : pos + _XERIAL_BLOCK])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(view: memoryview, max_output: int) -> bytes:
    snappy = _snappy()
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _snappy_block(snappy, view, max_output, 0)
    parts: list[bytes] = []
    total = 0
    pos, size = len(_XERIAL_HEADER), len(view)
    while pos != size:
        if size - pos < 4:
            raise _damaged("snappy", "it is cut short")
        (length,) = _INT32.unpack_from(view, pos)
        if length == _XERIAL_AGAIN:  # two streams, one after the other
            pos += len(_XERIAL_HEADER)
            continue
        pos += 4
        if not 0 < length <= size - pos:
            raise _damaged("snappy", f"a block of {length} bytes where {size - pos} are left")
        parts.append(_snappy_block(snappy, view[pos : pos + length], max_output, total))
        total += len(parts[-1])
        pos += length
    return b"".join(parts)


def _snappy_block(snappy: Any, block: memoryview, max_output: int, total: int) -> bytes:
    """Decompress one raw block, after judging the length it claims; ``total`` came before."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _damaged("snappy", "a block without a length")
    if length > max_output - total:
        raise _too_large("snappy", max_output)
    if length > _SNAPPY_MAX_RATIO * len(block):
        raise _damaged("snappy", f"{len(block)} bytes cannot hold {length}")
    try:
        out: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise _damaged("snappy", error.__cause__ or error) from None
    return out


# --- lz4 ---------------------------------------------------------------------------------

_LZ4_HEADER = 4 + 2  # magic number, flags, block descriptor: then the header checksum
_LZ4_CONTENT_SIZE, _LZ4_DICTIONARY = 0x08, 0x01


def _lz4() -> Any:
    try:
        import lz4.frame
    except ImportError:
        raise _missing("lz4", "lz4") from None
    return lz4.frame


def _lz4_compress(data: Data, level: int, magic: int) -> bytes:
    # Java reads only frames of independent blocks. Blocks of up to 4 MiB (the library takes
    # the smallest that holds the data) then cost no compression: JSON records, 256 KiB:
    # ratio 2.81, as with linked blocks; 2.66 with independent blocks of 64 KiB.
    lz4 = _lz4()
    frame: bytes = lz4.compress(
        data,
        compression_level=level,
        block_size=lz4.BLOCKSIZE_MAX4MB,
        block_linked=False,
        store_size=False,
    )
    if magic > 0:
        return frame
    # KAFKA-3160: writers of format 0 hashed the magic number too, and old readers check it.
    checksum = _xxh32_short(frame[:_LZ4_HEADER]) >> 8 & 0xFF
    return frame[:_LZ4_HEADER] + bytes((checksum,)) + frame[_LZ4_HEADER + 1 :]


def _lz4_decompress(view: memoryview, max_output: int) -> bytes:
    lz4 = _lz4()
    context = lz4.create_decompression_context()
    pos, size = 0, len(view)
    at_end = False

    def read(limit: int) -> bytes:
        nonlocal pos, at_end
        part = b""
        while pos < size and not part:
            try:
                part, used, at_end = lz4.decompress_chunk(context, view[pos:], max_length=limit)
            except RuntimeError as error:
                raise _damaged("lz4", error) from None
            pos += used
        return part

    out = _collect(read, _first_step(view), max_output, "lz4")
    if not at_end:
        raise _damaged("lz4", "it is cut short")
    return out


def _mend_lz4_header(view: memoryview) -> memoryview:
    """Give a format 0 frame the right header checksum (KAFKA-3160), whatever it has.

    Java ignores the checksum there too; the message's CRC covers the frame.
    """
    flags = view[4] if len(view) > _LZ4_HEADER else 0
    pos = _LZ4_HEADER + 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY)
    if pos >= len(view):
        return view
    frame = bytearray(view)
    frame[pos] = _xxh32_short(frame[4:pos]) >> 8 & 0xFF
    return memoryview(frame)


def _xxh32_short(data: Data) -> int:
    """Hash less than 16 bytes with xxHash32 and seed 0."""
    mask = 0xFFFFFFFF
    value = 374761393 + len(data)
    words = len(data) // 4 * 4
    for pos in range(0, words, 4):
        value = value + int.from_bytes(data[pos : pos + 4], "little") * 3266489917 & mask
        value = (value << 17 | value >> 15) * 668265263 & mask
    for byte in data[words:]:
        value = value + byte * 374761393 & mask
        value = (value << 11 | value >> 21) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return value ^ value >> 16


# --- zstd --------------------------------------------------------------------------------

# Records of 64 to 256 KiB: level 1 packs JSON, log lines and binary readings as well as
# level 3 or better (text 4 % worse) at 1.1 to 1.7 times its speed.
_ZSTD_LEVEL = 1
_ZSTD_MAX_WINDOW = 1 << 27  # what level 22 asks for, and Java's limit

# Contexts are dear to make and serve one call at a time: whoever needs one takes it out.
_zstd_compressors: dict[int, list[Any]] = {}
_zstd_decompressors: list[Any] = []


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise _missing("zstd", "zstandard") from None
    return zstandard


def _zstd_compress(data: Data, level: int) -> bytes:
    zstandard = _zstd()
    idle = _zstd_compressors.setdefault(level, [])
    try:
        context = idle.pop()
    except IndexError:
        context = zstandard.ZstdCompressor(level=level)
    out: bytes = context.compress(data)
    idle.append(context)
    return out


def _zstd_decompress(view: memoryview, max_output: int) -> bytes:
    zstandard = _zstd()
    try:
        context = _zstd_decompressors.pop()
    except IndexError:
        context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
    try:
        # -1: Java streams, so its frames do not say how much they hold.
        declared = zstandard.frame_content_size(view)
        with context.stream_reader(view, read_across_frames=True) as reader:
            plausible = 0 < declared < 64 * len(view)
            first = declared if plausible else _first_step(view)
            out = _collect(reader.read, first, max_output, "zstd")
    except zstandard.ZstdError as error:
        raise _damaged("zstd", error) from None
    if len(out) < declared:
        raise _damaged("zstd", "it is cut short")
    _zstd_decompressors.append(context)
    return out
