"""Record batches: the twins side by side, and against kafka-python (Python) and aiokafka (C).

    python -m bench.records [--quick]

Batches of format 2 with records of 100 bytes and an 8-byte key. The first table is of both
twins, one batch of 64 KiB at a time, and of one of 10,000 records. The second compares the
twin in use with peers, on 10,000 records. Reading includes the checksum.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pyarrow as pa

from bench.ratio import compare, race
from kclient.compression import parse_compression
from kclient.records import (
    ArrowRows,
    decode,
    encode,
    implementation,
    interface,
    open_batch,
    to_arrow,
)
from kclient.types import ProducerRecord

COUNT = 10_000
NOW = 1_700_000_000_000
CODECS = {"none": 0, "lz4": 3}
PEERS = {"kafka-python 3.0.12 (Python)": "kafka", "aiokafka 0.14 (C)": "aiokafka"}
PROTOTYPE = "PEERS.md, us: read 1.50 (pure-Python tuple), 5.08 (kafka-python), 0.31 (aiokafka)"
SMALL = 560  # records that fill 64 KiB
FAR = 1 << 30

Work = Callable[[], Any]
Pairs = list[tuple["bytes | None", "bytes | None"]]


def payloads() -> Pairs:
    """Keys and values that compress about as records of an application do."""
    text = '{{"id": {0:08d}, "name": "customer {1:05d}", "amount": {2:7d}, "currency": "EUR"}}'
    lines = (text.format(n, n * 7919 % 99_991, n * 104_729 % 9_999_991) for n in range(COUNT))
    return [(b"%08d" % n, line.encode().ljust(100)) for n, line in enumerate(lines)]


def our_writer(given: Pairs, codec: str) -> Work:
    def write() -> bytes:
        writer = open_batch(codec)
        append = writer.append
        for index, (key, value) in enumerate(given):
            append(key, value, (), NOW + index)
        return writer.seal()

    return write


def our_list_writer(given: Pairs, codec: str) -> Work:
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


def peer_writer(package: str, given: Pairs, codec: str) -> Work:
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


# --- the twins -----------------------------------------------------------------------------


def twin_works(name: str, given: Pairs) -> dict[str, Work]:
    """What one twin does with a batch of these records, by name."""
    twin = interface.select(name)
    plain = parse_compression(None)
    values = [value for _, value in given]
    keys = [key for key, _ in given if key is not None]
    rows = ArrowRows(pa.array(values, pa.binary()), pa.array(keys, pa.binary()))
    data = our_writer(given, "none")()

    def one_by_one() -> bytes:
        writer = twin.open_batch(plain)
        append = writer.append
        for key, value in given:
            append(key, value, (), NOW)
        return writer.seal()

    def run(method: str, items: Any) -> Work:
        def write() -> bytes:
            writer = twin.open_batch(plain)
            getattr(writer, method)(items, 0, NOW, FAR)
            return writer.seal()

        return write

    def on_twin(work: Work) -> Work:
        def read() -> None:
            interface.active = twin
            work()

        return read

    return {
        "encode: append": one_by_one,
        "encode: append_values": run("append_values", values),
        "encode: append_pairs": run("append_pairs", given),
        "encode: append_arrow": run("append_arrow", rows),
        "decode: to a list": on_twin(lambda: decode(data)),
        "decode: key, value touched": on_twin(our_reader(data)),
        "decode: to Arrow": on_twin(lambda: to_arrow(data)),
        "murmur2: a list": lambda: twin.murmur2_partitions(keys, 12),
        "murmur2: Arrow": lambda: twin.murmur2_arrow(rows, 12),
    }


def peer_works(given: Pairs) -> dict[str, Work]:
    """The same by aiokafka, where it has that."""
    data = our_writer(given, "none")()
    return {
        "encode: append": peer_writer("aiokafka", given, "none"),
        "decode: to a list": peer_lister("aiokafka", data),
        "decode: key, value touched": peer_reader("aiokafka", data),
    }


def peer_lister(package: str, data: bytes) -> Work:
    records_class = peer_module(package, "memory_records").MemoryRecords

    def read() -> None:
        found = records_class(data)
        while (batch := found.next_batch()) is not None:
            assert batch.validate_crc()
            list(batch)

    return read


def print_twins(given: Pairs, rounds: int) -> None:
    """One interleaved run of everything."""
    sides = {name: twin_works(name, given) for name in ("python", "c")}
    sides["aiokafka (C)"] = peer_works(given)
    print(f"CPU nanoseconds per record, {len(given)} records a batch, best of {rounds} rounds")
    print(f"{'':30}" + "".join(f"{side:>14}" for side in sides))
    for name in sides["c"]:
        works = [works[name] for works in sides.values() if name in works]
        nanos = [1e9 * seconds / len(given) for seconds in race(works, rounds=rounds)]
        print(f"{name:30}" + "".join(f"{number:14.1f}" for number in nanos))


# --- the peers -----------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher figures")
    rounds = 3 if parser.parse_args().quick else 15
    given = payloads()
    chosen = interface.active
    for size in (SMALL, COUNT):
        print_twins(given[:size], rounds)
    interface.active = chosen
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
