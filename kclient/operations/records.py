"""Records of partitions: where they begin and end, and those that are to go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kclient.cluster.call import Call
from kclient.cluster.target import Leader
from kclient.errors import InvalidRequest
from kclient.operations.given import by_topic, code_of, need, partitions
from kclient.operations.many import LEADER_CODES, CallFor, Many, Results, failed, reading
from kclient.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.types import TopicPartition

OffsetSpec = (
    Literal[
        "earliest",
        "latest",
        "max_timestamp",
        "earliest_local",
        "latest_tiered",
        "earliest_pending_upload",
    ]
    | int
)
"""Which offset to look up; a number is a timestamp in ms, for the first record not before it."""
IsolationLevel = Literal["read_uncommitted", "read_committed"]

_SPECS = {
    "latest": -1,
    "earliest": -2,
    "max_timestamp": -3,
    "earliest_local": -4,
    "latest_tiered": -5,
    "earliest_pending_upload": -6,
}
_SPEC_SINCE = {-3: (7, "3.0"), -4: (8, "3.6"), -5: (9, "3.9"), -6: (11, "4.2")}
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_TO_THE_END = -1
_CONSUMER = -1


@dataclass(frozen=True)
class ListedOffset:
    """An offset that was looked up, None if no record is as new as that.

    ``timestamp`` (ms) is that of the record found, None where none was looked for.
    """

    offset: int | None
    timestamp: int | None = None
    leader_epoch: int | None = None


# --- delete ---


def delete(given: Mapping[TopicPartition, int | Literal["latest"]]) -> Many[TopicPartition, int]:
    """Delete the records before an offset; the result is the first offset that is left."""
    partitions(given)
    offsets = {tp: _TO_THE_END if offset == "latest" else offset for tp, offset in given.items()}
    for tp, offset in offsets.items():
        if not isinstance(offset, int) or offset < _TO_THE_END:
            raise InvalidRequest(
                f"{tp}: records are deleted before an offset from 0, or 'latest' for all, "
                f"not {offset!r}"
            )

    def call(items: Sequence[TopicPartition], timeout_ms: int) -> CallFor[TopicPartition, int]:
        def build(version: int) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=tp.partition, offset=offsets[tp])
                            for tp in group
                        ],
                    )
                    for topic, group in by_topic(items).items()
                ],
                timeout_ms=timeout_ms,
            )

        return Call(DeleteRecordsRequest, build, reading(DeleteRecordsResponse, _deleted))

    return Many("deleting records", list(offsets), call, Leader)


def _deleted(answer: DeleteRecordsResponse) -> Results[TopicPartition, int]:
    results: Results[TopicPartition, int] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            what = f"records of {tp.topic}[{tp.partition}] were not deleted"
            results[tp] = (
                failed(row.error_code, what, again=LEADER_CODES)
                if row.error_code
                else row.low_watermark
            )
    return results


# --- look up ---


def read_specs(
    given: Mapping[TopicPartition, OffsetSpec] | Iterable[TopicPartition],
) -> dict[TopicPartition, int]:
    """What to look up, as Kafka numbers it; partitions alone ask for the latest."""
    specs = given if isinstance(given, Mapping) else dict.fromkeys(given, "latest")
    partitions(specs)
    return {tp: _spec(tp, spec) for tp, spec in specs.items()}


def _spec(tp: TopicPartition, spec: object) -> int:
    if isinstance(spec, str):
        return code_of(_SPECS, spec, "offset to look up")
    if not isinstance(spec, int) or spec < 0:
        raise InvalidRequest(f"{tp}: give a timestamp in ms or one of {list(_SPECS)}, not {spec!r}")
    return spec


def list_offsets(
    specs: Mapping[TopicPartition, int], isolation_level: IsolationLevel
) -> Many[TopicPartition, ListedOffset]:
    """Look up an offset in each partition."""
    isolation = code_of(_ISOLATION, isolation_level, "isolation level")

    def call(
        items: Sequence[TopicPartition], timeout_ms: int
    ) -> CallFor[TopicPartition, ListedOffset]:
        def build(version: int) -> ListOffsetsRequest:
            _check_version(version, [specs[tp] for tp in items], isolation)
            return ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=isolation,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(partition_index=tp.partition, timestamp=specs[tp])
                            for tp in group
                        ],
                    )
                    for topic, group in by_topic(items).items()
                ],
                timeout_ms=timeout_ms,
            )

        return Call(ListOffsetsRequest, build, reading(ListOffsetsResponse, _listed))

    return Many("looking up offsets", list(specs), call, Leader)


def _check_version(version: int, specs: Iterable[int], isolation: int) -> None:
    if isolation:
        need(version, 2, "look only at committed records", "0.11")
    for spec in set(specs):
        least, kafka = _SPEC_SINCE.get(spec, (1, "0.10.1") if spec >= 0 else (0, "0.8"))
        name = next((name for name, code in _SPECS.items() if code == spec), "timestamp")
        need(version, least, f"look up an offset by {name}", kafka)


def _listed(answer: ListOffsetsResponse) -> Results[TopicPartition, ListedOffset]:
    results: Results[TopicPartition, ListedOffset] = {}
    for topic in answer.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            what = f"no offset of {tp.topic}[{tp.partition}] was found"
            results[tp] = (
                failed(row.error_code, what, again=LEADER_CODES) if row.error_code else _found(row)
            )
    return results


def _found(row: ListOffsetsPartitionResponse) -> ListedOffset:
    if row.old_style_offsets:  # v0 answers a list, the nearest first
        return ListedOffset(row.old_style_offsets[0])
    return ListedOffset(
        row.offset if row.offset >= 0 else None,
        row.timestamp if row.timestamp >= 0 else None,
        row.leader_epoch if row.leader_epoch >= 0 else None,
    )
