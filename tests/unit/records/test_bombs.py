"""Small input that decompresses to a lot: refused soon, and without the memory it asks for."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import cache

import lz4.frame
import pytest
import snappy
import zstandard

from kclient.compression import DEFAULT_MAX_OUTPUT, Codec, decompress
from kclient.errors import CorruptRecord
from kclient.records import decode, encode
from kclient.types import ProducerRecord

MIB = 1 << 20
SIZE = DEFAULT_MAX_OUTPUT + MIB
CAP = 2 * MIB
BLOCK = bytes(MIB)


def gzip_bomb() -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(stream.compress(BLOCK) for _ in range(SIZE // MIB)) + stream.flush()


def gzip_members() -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    return (stream.compress(BLOCK) + stream.flush()) * (SIZE // MIB)


def snappy_raw() -> bytes:
    packed: bytes = snappy.compress(bytes(SIZE))
    return packed


def snappy_framed() -> bytes:
    block: bytes = snappy.compress(BLOCK)
    head = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
    return head + (len(block).to_bytes(4, "big") + block) * (SIZE // MIB)


def lz4_bomb(store_size: bool = False) -> bytes:
    packed: bytes = lz4.frame.compress(bytes(SIZE), store_size=store_size)
    return packed


def lz4_frames() -> bytes:
    packed: bytes = lz4.frame.compress(BLOCK)
    return packed * (SIZE // MIB)


def zstd_bomb() -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return b"".join(stream.compress(BLOCK) for _ in range(SIZE // MIB)) + stream.flush()


def zstd_honest() -> bytes:
    return zstandard.ZstdCompressor().compress(bytes(SIZE))


def zstd_frames() -> bytes:
    return zstandard.ZstdCompressor().compress(BLOCK) * (SIZE // MIB)


BOMBS: dict[str, tuple[Codec, Callable[[], bytes]]] = {
    "gzip": (Codec.GZIP, gzip_bomb),
    "gzip members": (Codec.GZIP, gzip_members),
    "snappy raw": (Codec.SNAPPY, snappy_raw),
    "snappy framed": (Codec.SNAPPY, snappy_framed),
    "lz4": (Codec.LZ4, lz4_bomb),
    "lz4 that tells its size": (Codec.LZ4, lambda: lz4_bomb(True)),
    "lz4 frames": (Codec.LZ4, lz4_frames),
    "zstd": (Codec.ZSTD, zstd_bomb),
    "zstd that tells its size": (Codec.ZSTD, zstd_honest),
    "zstd frames": (Codec.ZSTD, zstd_frames),
}


@cache
def bomb(name: str) -> tuple[Codec, bytes]:
    codec, make = BOMBS[name]
    return codec, make()


@pytest.mark.parametrize("name", BOMBS)
def test_the_default_limit_holds(name: str) -> None:
    codec, data = bomb(name)
    began = time.process_time()
    with pytest.raises(CorruptRecord, match="limit of 134217728 bytes"):
        decompress(data, codec)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", BOMBS)
def test_memory_follows_the_limit(name: str) -> None:
    codec, data = bomb(name)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match=f"limit of {CAP} bytes"):
            decompress(data, codec, max_output=CAP)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * CAP + 2 * len(data)


@pytest.mark.parametrize("name", BOMBS)
def test_exactly_the_limit_is_allowed(name: str) -> None:
    codec, data = bomb(name)
    assert len(decompress(data, codec, max_output=SIZE)) == SIZE
    with pytest.raises(CorruptRecord, match="limit"):
        decompress(data, codec, max_output=SIZE - 1)


CHILD = """
import resource, sys
from kclient.compression import decompress
from kclient.errors import CorruptRecord
codec, data = int(sys.argv[1]), sys.stdin.buffer.read()
try:
    decompress(b"", codec)  # loads the codec's package
except CorruptRecord:
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(data, codec, max_output=1 << 21)
except CorruptRecord as error:
    assert "limit" in str(error)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("name", ["gzip", "snappy framed", "lz4", "zstd"])
def test_memory_of_the_process_follows_the_limit(name: str) -> None:
    """As above, with the memory that C libraries allocate themselves."""
    codec, data = bomb(name)
    command = [sys.executable, "-c", CHILD, str(int(codec))]
    done = subprocess.run(command, input=data, capture_output=True, check=True, timeout=60)
    assert int(done.stdout) * 1024 < 8 * CAP + 2 * len(data)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("magic", [1, 2])
def test_records_have_the_limit_too(codec: str, magic: int) -> None:
    if magic == 2 or codec != "zstd":
        data = encode([ProducerRecord("t", bytes(100_000))], magic=magic, compression=codec)
        assert len(decode(data, max_output=101_000)) == 1
        with pytest.raises(CorruptRecord, match="limit of 99000 bytes"):
            decode(data, max_output=99_000)


@pytest.mark.parametrize("claim", [1 << 20, 1 << 31, (1 << 32) - 1])
def test_a_claim_alone_costs_nothing(claim: int) -> None:
    """Snappy writes its length in front; nothing is set aside for it."""
    varint = bytearray()
    while claim > 0x7F:
        varint.append(claim & 0x7F | 0x80)
        claim >>= 7
    varint.append(claim)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord):
            decompress(bytes(varint) + b"\0x", Codec.SNAPPY)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 19
