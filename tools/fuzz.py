"""Coverage-guided fuzzing of every decoder, for a bounded time: ``make fuzz``.

    python tools/fuzz.py [--seconds 60]

Any input must give values or a ProtocolError, soon and within bounded memory; whatever else
happens stops the run, and libFuzzer keeps the input as a file ``crash-...``. Its last lines
count the inputs tried.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["kclient"]):
    from kclient import compression, records
    from kclient.errors import ConfigError, ProtocolError
    from kclient.kafka07 import Fetch, FetchSizeTooSmall, Kafka07Error, codec
    from kclient.protocol import REQUESTS, RESPONSES, Message, compiler
    from kclient.protocol.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )
    from kclient.records import interface
    from kclient.records.batch import decompressed
    from kclient.types import ProducerRecord

CAP = 1 << 20
"""Bytes a batch may decompress to: small, so that a lapse shows as memory."""


def message_decoders() -> Iterator[Callable[[bytes], object]]:
    """Every message in every version."""
    classes: list[type[Message]] = [
        *REQUESTS.values(),
        *RESPONSES.values(),
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    ]
    for cls in classes:
        lowest, highest = cls.VERSIONS
        for version in range(lowest, highest + 1):
            yield partial(cls.decode, version=version)


def record_decoders() -> Iterator[Callable[[bytes], object]]:
    """Batches and message sets; without the checksum, so that damage reaches the parser."""
    yield lambda data: records.decode(data, max_output=CAP, check_crc=False)
    yield lambda data: records.decode(data, max_output=CAP)
    for magic in (0, 1, 2):
        yield partial(_decode_as, magic)
    yield _decode_on_both_twins
    for number in compression.Codec:
        yield partial(compression.decompress, codec=number, max_output=CAP)


def kafka07_decoders() -> Iterator[Callable[[bytes], object]]:
    """Responses and message sets of Kafka 0.7."""
    fetches = [Fetch("a", 0, 0), Fetch("b", 1, 1 << 40)]
    yield lambda data: codec.decode_message_set(data, max_decompressed=CAP)
    yield lambda data: codec.decode_fetch_response(data, fetches[0], max_decompressed=CAP)
    yield lambda data: codec.decode_multifetch_response(data, fetches, max_decompressed=CAP)
    yield codec.decode_offsets_response


def _decode_as(magic: int, data: bytes) -> object:
    """Put the format's number where a batch has it: fuzzers take long to guess it."""
    named = data[:16] + bytes((magic,)) + data[17:]
    return records.decode(named, max_output=CAP, check_crc=False)


def _decode_on_both_twins(data: bytes) -> None:
    """Read batches v2 by every implementation; the pure one shows the fuzzer its branches."""
    named = data[:16] + b"\x02" + data[17:]
    for batch in records.batches(named, check_crc=False):
        section = decompressed(batch, batch.section, CAP)
        found = [_outcome(twin.read_records, section, batch) for twin in TWINS]
        assert all(one == found[0] for one in found), (batch, found)
        rows = _outcome(lambda b, s: TWINS[-1].read_arrow([(b, s)]).num_rows, batch, section)
        assert rows == (len(found[0]) if isinstance(found[0], list) else found[0]), (batch, rows)


def _outcome(work: Callable[..., Any], *args: Any) -> Any:
    try:
        return work(*args)
    except ProtocolError as error:
        return type(error)


def _twins() -> list[interface.Implementation]:
    """The pure implementation, and the compiled one if it is built."""
    try:
        return [interface.select("python"), interface.select("c")]
    except ConfigError as error:
        print(f"fuzzing the pure implementation only: {error}")
        return [interface.select("python")]


TWINS = _twins()
AREAS = [list(message_decoders()), list(record_decoders()), list(kafka07_decoders())]


def try_one(data: bytes) -> None:
    """Let the first three bytes choose a decoder, and give it the rest."""
    decoders = AREAS[data[0] % len(AREAS)] if data else AREAS[0]
    decode = decoders[int.from_bytes(data[1:3], "big") % len(decoders)]
    with contextlib.suppress(ProtocolError, Kafka07Error, FetchSizeTooSmall):
        decode(data[3:])


def write_corpus(folder: Path) -> None:
    """Begin with real batches of every format and codec, which no fuzzer would guess."""
    some = [ProducerRecord("t", b"value" * 20, key=b"key", timestamp_ms=1)] * 3
    for codec_ in compression.Codec:
        for magic in (0, 1, 2):
            if magic < 2 and codec_ is compression.Codec.ZSTD:
                continue
            batch = records.encode(some, magic=magic, compression=codec_.name.lower())
            (folder / f"batch-{magic}-{codec_.name}").write_bytes(b"\x01\0\0" + batch)
    for name in (None, "gzip", "snappy"):
        messages = codec.encode_message_set([b"payload" * 9] * 3, compression=name)
        (folder / f"kafka07-{name}").write_bytes(b"\x02\0\0" + messages)


def instrument_generated_code() -> None:
    """Let the fuzzer see branches of the functions that the compiler makes at run time."""
    build = compiler._compile

    def instrumented(*args: Any) -> Callable[..., Any]:
        function: Callable[..., Any] = atheris.instrument_func(build(*args))
        return function

    setattr(compiler, "_compile", instrumented)  # noqa: B010 - mypy forbids the plain way


def main() -> None:
    """Fuzz until the time is over, or something breaks."""
    parser = argparse.ArgumentParser(description="Fuzz every decoder of kclient.")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default 60)")
    options = parser.parse_args()
    instrument_generated_code()
    limits = [f"-max_total_time={options.seconds}", "-timeout=5", "-rss_limit_mb=1024"]
    with tempfile.TemporaryDirectory() as corpus:
        write_corpus(Path(corpus))
        flags = [*limits, "-max_len=2048", "-print_final_stats=1", "-verbosity=1"]
        atheris.Setup([sys.argv[0], *flags, corpus], try_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
