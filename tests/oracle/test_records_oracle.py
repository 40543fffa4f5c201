"""Records against the Java client's own writer and reader, both ways, in all formats."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kclient.records import batches, control_type, decode, encode, open_batch, read_batch
from kclient.records.batch import ControlType, RecordBatch
from kclient.types import Header, Record, TimestampType

from .java import run_java

JAVA_VERSIONS = ("3.9.1", "4.3.1")
SOURCE = Path(__file__).with_name("RecordOracle.java")
CODECS: dict[int, tuple[str, ...]] = {
    0: ("none", "gzip", "snappy", "lz4"),
    1: ("none", "gzip", "snappy", "lz4"),
}
CODECS[2] = (*CODECS[0], "zstd")
LEVELS = ("gzip:1", "gzip:9", "lz4:1", "lz4:9", "lz4:17", "zstd:-5", "zstd:3", "zstd:19")
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS[magic]]
LAST = (1 << 63) - 1
NOW = 1_700_000_000_000

Spec = dict[str, Any]


class Row(NamedTuple):
    """A record to write; the offset counts from the batch's own."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NOW
    headers: tuple[Header, ...] = ()
    delta: int = -1


class Case(NamedTuple):
    name: str
    task: Spec
    ours: bytes | None = None
    """What we write for the same task, if the writer is offered to users."""


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


SHAPES = [
    Row(b"key", b"value"),
    Row(None, b"no key"),
    Row(b"no value", None),
    Row(None, None),
    Row(b"", b""),
    Row(b"", None),
    *(Row(noise(size), b"v" * size) for size in (1, 62, 63, 64, 65, 127, 128, 8191, 8192)),
    Row(b"k" * 20_000, b"last"),
]
HEADERS = [
    Row(b"k", b"v", headers=(("one", b"1"),)),
    Row(None, None, headers=(("twice", b"1"), ("twice", b"2"), ("twice", b"1"))),
    Row(b"k", b"v", headers=(("null", None), ("empty", b""), ("", b"no name"))),
    Row(b"k", b"v", headers=(("Grüße, 世界 🚀 \0", noise(300)),)),
    Row(b"k", b"v", headers=tuple((f"h{n}", b"%d" % n) for n in range(200))),
    Row(b"k", b"v"),
]
TIMES = {
    "rising": (NOW, NOW + 1, NOW + 63, NOW + 64, NOW + 8191, NOW + 8192, NOW + (1 << 40)),
    "falling": (NOW, NOW - 1, NOW - 64, NOW - 65, NOW - 8193, 0),
    "unknown": (-1, -1, -1),
    "mixed": (-1, NOW, -1, 0),
    "extreme": (LAST, 0, -1, LAST, 1, LAST - 1),
    "from zero": (0, LAST, -1, 1 << 62),
}


def rows_for(name: str) -> list[Row]:
    if name in TIMES:
        return [Row(b"k", b"%d" % time, time) for time in TIMES[name]]
    return {
        "one": SHAPES[:1],
        "shapes": SHAPES,
        "headers": HEADERS,
        "many": [Row(b"%d" % n, b"v%d" % n, NOW + n) for n in range(200)],
        "large": [Row(None, noise(40_000) * 9), *([Row(None, bytes(1 << 20))] * 5)],
    }[name]


def spec(magic: int, codec: str, rows: list[Row], **more: Any) -> Spec:
    base = more.get("base_offset", 0)
    records = [
        {
            "offset": base + (index if row.delta < 0 else row.delta),
            "timestamp": row.timestamp if magic else -1,
            "key": None if row.key is None else row.key.hex(),
            "value": None if row.value is None else row.value.hex(),
            "headers": [[key, None if v is None else v.hex()] for key, v in row.headers],
        }
        for index, row in enumerate(rows)
    ]
    return {"magic": magic, "codec": codec, "records": records, **more}


def write(magic: int, codec: str, rows: list[Row], **more: Any) -> bytes:
    """Let kclient write; by ``encode`` or ``open_batch``, which must agree."""
    kind = TimestampType.CREATE_TIME
    records = [Record("", -1, -1, r.timestamp, kind, r.key, r.value, r.headers) for r in rows]
    writer = open_batch(codec, magic=magic)
    for row in rows:
        writer.append(row.key, row.value, row.headers, row.timestamp)
    written = writer.seal(**more)
    assert encode(records, magic=magic, compression=codec, **more) == written
    return written


def both(name: str, magic: int, codec: str, rows: list[Row], **more: Any) -> Case:
    """A case for both writers."""
    plain = codec.partition(":")[0]
    ours = write(magic, codec, rows, **more)
    name = f"{name}, format {magic}, {codec}"
    return Case(name, {"batches": [spec(magic, plain, rows, **more)]}, ours)


def cases() -> tuple[Case, ...]:
    return (*user_cases(), *broker_cases())


def user_cases() -> Iterator[Case]:
    """What producers write."""
    for magic, codec in FORMATS:
        for name in ("one", "shapes", "many", *TIMES):
            yield both(name, magic, codec, rows_for(name))
        for base in (1, 12_345, 1 << 40):
            yield both(f"from offset {base}", magic, codec, rows_for("shapes"), base_offset=base)
    for codec in CODECS[2]:
        yield both("headers", 2, codec, HEADERS)
        for transactional in (False, True):
            state = {"producer_id": LAST, "producer_epoch": 32767, "base_sequence": (1 << 31) - 1}
            state["transactional"] = transactional
            yield both(f"producer's last, {transactional}", 2, codec, HEADERS, **state)
            state |= {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0}
            yield both(f"producer's first, {transactional}", 2, codec, HEADERS, **state)
    for codec in LEVELS:
        for name, magic in product(("shapes", "many"), (1, 2)):
            if magic == 2 or "zstd" not in codec:
                yield both(name, magic, codec, rows_for(name))
    for codec in CODECS[2]:  # several blocks of every codec; offsets of three bytes
        yield both("large", 2, codec, rows_for("large"))
        yield both("numerous", 2, codec, [Row(b"k", None, NOW + n % 9) for n in range(8300)])


def broker_cases() -> Iterator[Case]:
    """What only brokers write: their clock, epochs, markers, and logs after compaction."""
    gaps = [row._replace(delta=3 * index + 2) for index, row in enumerate(SHAPES)]
    for magic, codec in FORMATS:
        name = f"format {magic}, {codec}"
        stamped = spec(magic, codec, SHAPES, append_time=NOW + 5)
        if magic:
            yield Case(f"broker's clock, {name}", {"batches": [stamped]})
        old = spec(magic, codec, gaps, base_offset=1000)
        yield Case(f"gaps, {name}", {"batches": [old]})
        row = [spec(magic, codec, SHAPES[:9], base_offset=base) for base in (7, 16, 40)]
        yield Case(f"several, {name}", {"batches": row})
        for keep in ([7, 9, 16, 41], [15, 48], [10], []):
            yield Case(f"compacted to {keep}, {name}", {"batches": row, "keep": keep})
    for pair in product(FORMATS, repeat=2):
        mix = [
            spec(magic, codec, SHAPES[:3], base_offset=3 * index)
            for index, (magic, codec) in enumerate((*pair, pair[0]))
        ]
        yield Case(f"mixed: {pair}", {"batches": mix})
    yield from transaction_cases()


def transaction_cases() -> Iterator[Case]:
    for codec, marker in product(CODECS[2], ("COMMIT", "ABORT")):
        state = {"producer_id": 77, "producer_epoch": 3, "leader_epoch": 9}
        data = [
            spec(2, codec, HEADERS, base_offset=base, base_sequence=base, transactional=True)
            for base in (10, 20)
        ]
        end = {"marker": marker, "base_offset": 30, "append_time": NOW}
        log = [{**part, **state} for part in (*data, end)]
        yield Case(f"{marker}, {codec}", {"batches": log})
        for keep in ([12, 20, 30], [20, 30], [30], [10], []):
            yield Case(f"{marker}, {codec}, keep {keep}", {"batches": log, "keep": keep})
    leader = {"marker": "LEADER_CHANGE", "base_offset": 5, "append_time": NOW, "leader_epoch": 4}
    yield Case("leader change", {"batches": [leader]})


# --- what Java says ------------------------------------------------------------------------


class Oracle:
    """Java's answers to all cases."""

    def __init__(self, version: str, folder: Path, cases: tuple[Case, ...]) -> None:
        self.cases = cases
        self.ours = [case for case in self.cases if case.ours is not None]
        tasks = [case.task for case in self.cases]
        tasks += [{"bytes": case.ours.hex()} for case in self.ours if case.ours]
        stdin = "\n".join(json.dumps(task) for task in tasks)
        lines = run_java(version, source_for(version, folder), stdin)
        answers: list[Spec] = [json.loads(line) for line in lines]
        self.written = answers[: len(self.cases)]
        self.read = answers[len(self.cases) :]
        assert len(self.read) == len(self.ours)


def source_for(version: str, folder: Path) -> Path:
    if not version.startswith("4."):
        return SOURCE
    # These classes moved, all but TimestampType.
    text = SOURCE.read_text().replace(".common.record.", ".common.record.internal.")
    source = folder / SOURCE.name
    source.write_text(text.replace("internal.TimestampType", "TimestampType"))
    return source


asked: dict[str, Oracle] = {}
"""By version of Java's client, which is asked once: the twins write the same."""


@pytest.fixture(scope="module", params=JAVA_VERSIONS)
def java(
    request: pytest.FixtureRequest, twin: str, tmp_path_factory: pytest.TempPathFactory
) -> Oracle:
    version, ours = request.param, cases()
    if version not in asked:
        asked[version] = Oracle(version, tmp_path_factory.mktemp("oracle"), ours)
    assert ours == asked[version].cases, f"{twin} does not write what the other twin wrote"
    return asked[version]


# --- what we say ---------------------------------------------------------------------------


def describe(data: bytes) -> list[Spec]:
    """Say what kclient reads, the way the oracle does."""
    return [node for batch in batches(data) for node in describe_batch(batch)]


def describe_batch(batch: RecordBatch) -> list[Spec]:
    node: Spec = {
        "magic": batch.magic,
        "codec": batch.codec,
        "last_offset": batch.last_offset,
        "max_timestamp": batch.max_timestamp,
        "timestamp_type": batch.timestamp_type,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "records": [describe_record(record, batch) for record in read_batch(batch)],
    }
    if batch.magic == 2:
        return [{**node, "base_offset": batch.base_offset, "record_count": batch.record_count}]
    if batch.codec:
        return [node]
    # To Java every plain old message is a batch; to us a run of them is one.
    assert len(node["records"]) == batch.record_count
    return [
        {**node, "last_offset": one["offset"], "max_timestamp": one["timestamp"], "records": [one]}
        for one in node["records"]
    ]


def describe_record(record: Record, batch: RecordBatch) -> Spec:
    assert record.leader_epoch == batch.leader_epoch
    assert record.timestamp_type == batch.timestamp_type
    node: Spec = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[key, None if v is None else v.hex()] for key, v in record.headers],
    }
    if batch.is_control:
        node["control"] = ControlType(control_type(record)).name
    return node


def test_reads_what_java_writes(java: Oracle) -> None:
    for case, answer in zip(java.cases, java.written, strict=True):
        assert "error" not in answer, (case.name, answer["error"])
        assert describe(bytes.fromhex(answer["bytes"])) == answer["batches"], case.name


def test_records_are_those_that_java_was_given(java: Oracle) -> None:
    for case, answer in zip(java.cases, java.written, strict=True):
        given = [row for batch in case.task["batches"] for row in batch.get("records", ())]
        kept = [row for row in given if row["offset"] in case.task.get("keep", [row["offset"]])]
        if "append_time" not in case.task["batches"][0]:
            records = decode(bytes.fromhex(answer["bytes"]))
            assert [(r.offset, r.timestamp) for r in records] == [
                (row["offset"], row["timestamp"]) for row in kept
            ], case.name


def test_java_reads_what_we_write(java: Oracle) -> None:
    for case, answer in zip(java.ours, java.read, strict=True):
        assert "error" not in answer, (case.name, answer["error"])
        (batch,) = case.task["batches"]
        found = [record for one in answer["batches"] for record in one["records"]]
        assert found == batch["records"], case.name
        assert case.ours is not None
        assert answer["batches"] == describe(case.ours), case.name


def test_java_reads_ours_as_its_own(java: Oracle) -> None:
    theirs = {c.name: answer for c, answer in zip(java.cases, java.written, strict=True)}
    for case, answer in zip(java.ours, java.read, strict=True):
        assert answer["batches"] == theirs[case.name]["batches"], case.name


def test_writes_the_bytes_that_java_writes(java: Oracle) -> None:
    compared = 0
    for case, answer in zip(java.cases, java.written, strict=True):
        if case.ours is not None and case.task["batches"][0]["codec"] == "none":
            assert case.ours.hex() == answer["bytes"], case.name
            compared += 1
    assert compared > 40


def test_every_format_and_codec_is_covered(java: Oracle) -> None:
    for answers in (java.written, java.read):
        found = {(b["magic"], b["codec"]) for answer in answers for b in answer["batches"]}
        assert len(found) == len(FORMATS)
    controls = [b for a in java.written for b in a["batches"] if b["is_control"]]
    assert {b["records"][0]["control"] for b in controls if b["records"]} == {
        "COMMIT",
        "ABORT",
        "LEADER_CHANGE",
    }
    assert any(b.get("record_count") == 0 for a in java.written for b in a["batches"])
