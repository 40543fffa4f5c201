"""Batches of kafka-python and aiokafka: we read theirs, and they read ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from itertools import product
from typing import Any

import pytest

from kclient.records import batches, decode, encode
from kclient.types import Header, ProducerRecord

NOW = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FORMATS = [
    (magic, codec)
    for magic, codec in product((0, 1, 2), CODECS)
    # zstd came with format 2; lz4 in format 0 is beyond aiokafka, and takes kafka-python xxhash.
    if magic == 2 or codec not in (("lz4", "zstd") if magic == 0 else ("zstd",))
]

Row = tuple[int, int, "bytes | None", "bytes | None", list[Header]]
"""Offset, timestamp, key, value, headers."""

KEYS_AND_VALUES: list[tuple[bytes | None, bytes | None]] = [
    (b"key", b"value"),
    (None, b"no key"),
    (b"no value", None),
    (None, None),
    (b"", b""),
    (b"k" * 300, b"v" * 9000),
    (b"long", bytes(range(256)) * 400),
]
HEADERS: list[Header] = [("a", b"1"), ("a", b""), ("Grüße", b"\xff" * 70)]


def rows(magic: int) -> list[Row]:
    return [
        (index, NOW + 70 * index if magic else -1, key, value, HEADERS[: index % 4 * (magic == 2)])
        for index, (key, value) in enumerate(KEYS_AND_VALUES * 3)
    ]


class Peer:
    """The record modules of a client; both descend from one design."""

    def __init__(self, package: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kafka-python reads its files a deprecated way
            self.default: Any = import_module(f"{package}.record.default_records")
            self.legacy: Any = import_module(f"{package}.record.legacy_records")
            self.memory: Any = import_module(f"{package}.record.memory_records")

    def write(self, magic: int, codec: str, given: list[Row]) -> bytes:
        number = CODECS.index(codec)
        builder: Any
        if magic == 2:
            builder = self.default.DefaultRecordBatchBuilder(
                magic=2,
                compression_type=number,
                is_transactional=1,
                producer_id=77,
                producer_epoch=3,
                base_sequence=9,
                batch_size=1 << 24,
            )
        else:
            builder = self.legacy.LegacyRecordBatchBuilder(
                magic=magic, compression_type=number, batch_size=1 << 24
            )
        for offset, timestamp, key, value, headers in given:
            time = timestamp if magic else None
            assert builder.append(offset, timestamp=time, key=key, value=value, headers=headers)
        return bytes(builder.build())

    def read(self, data: bytes) -> Iterator[Row]:
        found = self.memory.MemoryRecords(data)
        while (batch := found.next_batch()) is not None:
            assert batch.validate_crc()
            for record in batch:
                timestamp = -1 if record.timestamp is None else record.timestamp
                yield (
                    record.offset,
                    timestamp,
                    record.key,
                    record.value,
                    list(record.headers or ()),
                )


PEERS = {"kafka-python": Peer("kafka"), "aiokafka": Peer("aiokafka")}


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> Peer:
    return PEERS[request.param]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_we_read_theirs(peer: Peer, magic: int, codec: str) -> None:
    data = peer.write(magic, codec, rows(magic))
    found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in decode(data)]
    assert found == rows(magic)
    if magic == 2:
        (batch,) = batches(data)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 9)
        assert batch.is_transactional


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_they_read_ours(peer: Peer, magic: int, codec: str) -> None:
    given = [ProducerRecord("t", v, k, h, timestamp_ms=t) for _, t, k, v, h in rows(magic)]
    for base in (0, 500):
        data = encode(given, magic=magic, compression=codec, base_offset=base)
        assert list(peer.read(data)) == [(base + row[0], *row[1:]) for row in rows(magic)]
        if codec == "none" and base == 0 and magic < 2:
            assert data == peer.write(magic, codec, rows(magic))
