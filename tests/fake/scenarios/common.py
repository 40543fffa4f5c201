"""What every row of requests needs: topics, coordinators, records."""

from __future__ import annotations

from collections.abc import Callable

from kclient import ProducerRecord, records
from kclient.deadline import Deadline
from kclient.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kclient.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

from ..raw import RawClient, only

# A real broker needs a moment for what the fake does at once.
_PASSING = (3, 5, 6, 14, 15, 16, 51, 78)


def settled(ask: Callable[[], int]) -> int:
    """The code that is left when what passes has passed."""
    deadline = Deadline(20)
    while (code := ask()) in _PASSING and not deadline.is_over:
        pass
    return code


def make_topic(client: RawClient, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)

    def first_problem() -> int:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        found = only(client.ask(request, 12, MetadataResponse).topics)
        return int(found.error_code or max(p.error_code for p in found.partitions))

    assert settled(first_problem) == 0
    # Metadata may know a leader that does not know it yet.
    wants = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wants)]
    )

    def first_refusal() -> int:
        found = only(client.ask(request, 8, ListOffsetsResponse).topics)
        return max(int(partition.error_code) for partition in found.partitions)

    assert settled(first_refusal) == 0


def find_coordinator(client: RawClient, key: str, key_type: int) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    assert (
        settled(
            lambda: only(client.ask(request, 4, FindCoordinatorResponse).coordinators).error_code
        )
        == 0
    )


def produce(
    client: RawClient, topic: str, data: bytes, *, acks: int = -1, version: int = 9
) -> tuple[int, int]:
    part = PartitionProduceData(records=data)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[part])],
    )
    answer = client.ask(request, version, ProduceResponse)
    done = only(only(answer.responses).partition_responses)
    return done.error_code, done.base_offset


def batch(count: int = 1, **options: int) -> bytes:
    made = [ProducerRecord("", b"x", timestamp_ms=1000 + n) for n in range(count)]
    return records.encode(made, **options)  # type: ignore[arg-type]
