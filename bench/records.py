"""Record batches against kafka-python (pure Python) and aiokafka (C): encode and decode.

    python -m bench.records [--quick]

Batches of format 2 with 10,000 records of 100 bytes and an 8-byte key. Reading includes the
checksum, and touches key and value. Below the ratios: the pure-Python figures of PEERS.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from bench.ratio import compare
from kclient.records import decode, encode, implementation, open_batch
from kclient.types import ProducerRecord

COUNT = 10_000
NOW = 1_700_000_000_000
CODECS = {"none": 0, "lz4": 3}
PEERS = {"kafka-python 3.0.12 (Python)": "kafka", "aiokafka 0.14 (C)": "aiokafka"}
PROTOTYPE = "PEERS.md, us: read 1.50 (pure-Python tuple), 5.08 (kafka-python), 0.31 (aiokafka)"

Work = Callable[[], Any]


def payloads() -> list[tuple[bytes, bytes]]:
    """Keys and values that compress about as records of an application do."""
    text = '{{"id": {0:08d}, "name": "customer {1:05d}", "amount": {2:7d}, "currency": "EUR"}}'
    lines = (text.format(n, n * 7919 % 99_991, n * 104_729 % 9_999_991) for n in range(COUNT))
    return [(b"%08d" % n, line.encode().ljust(100)) for n, line in enumerate(lines)]


def our_writer(given: list[tuple[bytes, bytes]], codec: str) -> Work:
    def write() -> bytes:
        writer = open_batch(codec)
        append = writer.append
        for index, (key, value) in enumerate(given):
            append(key, value, (), NOW + index)
        return writer.seal()

    return write


def our_list_writer(given: list[tuple[bytes, bytes]], codec: str) -> Work:
    records = [
        ProducerRecord("t", value, key, (), 0, NOW + index)
        for index, (key, value) in enumerate(given)
    ]
    return lambda: encode(records, compression=codec)


def our_reader(data: bytes) -> Work:
    def read() -> None:
        for record in decode(data):
            _ = record.key, record.value

    return read


def peer_module(package: str, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(f"{package}.record.{name}")


def peer_writer(package: str, given: list[tuple[bytes, bytes]], codec: str) -> Work:
    builder_class = peer_module(package, "default_records").DefaultRecordBatchBuilder

    def write() -> bytes:
        builder = builder_class(
            magic=2,
            compression_type=CODECS[codec],
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=1 << 24,
        )
        append = builder.append
        for index, (key, value) in enumerate(given):
            append(index, timestamp=NOW + index, key=key, value=value, headers=[])
        return bytes(builder.build())

    return write


def peer_reader(package: str, data: bytes) -> Work:
    records_class = peer_module(package, "memory_records").MemoryRecords

    def read() -> None:
        found = records_class(data)
        while (batch := found.next_batch()) is not None:
            assert batch.validate_crc()
            for record in batch:
                _ = record.key, record.value

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher figures")
    rounds = 3 if parser.parse_args().quick else 15
    given = payloads()
    print(f"kclient ({implementation()}), CPU microseconds per record, best of {rounds} rounds")
    print(f"{'':34}{'peer':30}{'ours':>7}{'theirs':>8}{'times as fast':>15}")
    for codec in CODECS:
        data = our_writer(given, codec)()
        for title, package in PEERS.items():
            theirs = peer_writer(package, given, codec)
            pairs = {
                "encode, one call per record": (our_writer(given, codec), theirs),
                "encode, whole list": (our_list_writer(given, codec), theirs),
                "decode": (our_reader(data), peer_reader(package, data)),
            }
            for name, (one, other) in pairs.items():
                ratio = compare(one, other, rounds=rounds)
                micros = [1e6 * seconds / COUNT for seconds in ratio]
                label = f"{name}, {codec}"
                print(
                    f"{label:34}{title:30}{micros[0]:7.2f}{micros[1]:8.2f}"
                    f"{ratio.times_as_fast:15.2f}"
                )
    print(PROTOTYPE)


if __name__ == "__main__":
    main()
