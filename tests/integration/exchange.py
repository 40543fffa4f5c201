"""The least that speaks to a broker: a plain socket, and the codecs under test."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar
from uuid import UUID

from kclient.protocol import Message, request_header_version, response_header_version
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kclient.protocol.messages.headers import RequestHeader, ResponseHeader
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kclient.records import decode
from kclient.types import Record

R = TypeVar("R", bound=Message)
TIMEOUT = 30.0
NO_ID = UUID(int=0)
# UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID
NOT_YET = (3, 5, 6, 100)


class Wire:
    """One connection to a broker. ``timeout`` is in seconds, for each read."""

    def __init__(self, address: str, timeout: float = TIMEOUT) -> None:
        host, port = address.split(",")[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self._stream = self.socket.makefile("rb")
        self._sent = 0

    def ask(self, request: Message, answer: type[R], version: int) -> R:
        """One round trip."""
        self.send(request, version)
        return self.receive(answer, version, self._sent)

    def send(self, request: Message, version: int, *, says: int | None = None) -> None:
        """Send a request; ``says`` is the version to claim, if not the true one."""
        assert request.API_KEY is not None
        self._sent += 1
        header = RequestHeader(
            request_api_key=request.API_KEY,
            request_api_version=version if says is None else says,
            correlation_id=self._sent,
            client_id="kclient-tests",
        )
        frame = header.encode(request_header_version(request.API_KEY, version))
        frame += request.encode(version)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, answer: type[R], version: int, correlation_id: int) -> R:
        """Read the next answer, which must be that to the request of this number."""
        assert answer.API_KEY is not None
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        header_version = response_header_version(answer.API_KEY, version)
        header, pos = ResponseHeader.decode_at(frame, 0, header_version)
        assert header.correlation_id == correlation_id
        return answer.decode(frame[pos:], version)

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionResetError("the broker closed the connection")
        return data


def until(done: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    """Wait for what a broker does in its own time."""
    deadline = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.05)


def new_name(prefix: str = "topic") -> str:
    """A name no other test has: the cluster may be one that lives longer than the run."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def now_ms() -> int:
    """A timestamp for records: much older ones fall to the broker's retention at once."""
    return time.time_ns() // 1_000_000


def api_versions(address: str, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="kclient", client_software_version="0")
    with Wire(address) as wire:
        return wire.ask(request, ApiVersionsResponse, version)


def metadata(address: str, version: int, topics: Sequence[str] = ()) -> MetadataResponse:
    """Ask about brokers and ``topics``; old versions create topics that do not exist."""
    wanted = [MetadataRequestTopic(name=name) for name in topics]
    with Wire(address) as wire:
        return wire.ask(MetadataRequest(topics=wanted), MetadataResponse, version)


def brokers(address: str) -> set[int]:
    """The nodes that a broker lists, none if it does not answer (yet)."""
    try:
        return {broker.node_id for broker in metadata(address, 4).brokers}
    except OSError:
        return set()


def create_topic(
    address: str, topic: str, *, partitions: int = 1, replicas: int = 1, version: int = 7
) -> UUID:
    """Create a topic, and return its id once partition 0 has a leader."""
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
    with Wire(address) as wire:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        (made,) = wire.ask(request, CreateTopicsResponse, version).topics
    assert (made.error_code, made.error_message) == (0, None)
    until(lambda: leader(address, topic) >= 0, f"{topic} has a leader")
    return made.topic_id


def leader(address: str, topic: str, version: int = 4) -> int:
    """The node that leads partition 0, or -1."""
    (found,) = metadata(address, version, [topic]).topics
    return found.partitions[0].leader_id if found.partitions else -1


def leader_address(address: str, topic: str) -> str:
    """Where partition 0 is written and read: a cluster of several may put it anywhere."""
    answer = metadata(address, 4, [topic])
    wanted = answer.topics[0].partitions[0].leader_id
    (found,) = (f"{each.host}:{each.port}" for each in answer.brokers if each.node_id == wanted)
    return found


def produce(
    address: str, topic: str, batch: bytes, version: int, *, topic_id: UUID = NO_ID
) -> PartitionProduceResponse:
    """Write a batch to partition 0, acknowledged by all replicas.

    The metadata may name a leader a moment before that one knows of its office: asked
    again, as any client would.
    """
    partition = PartitionProduceData(index=0, records=batch)
    data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    deadline = time.monotonic() + TIMEOUT
    with Wire(address) as wire:
        while True:
            answer = wire.ask(request, ProduceResponse, version)
            written = answer.responses[0].partition_responses[0]
            if written.error_code not in NOT_YET or time.monotonic() > deadline:
                return written
            time.sleep(0.05)


def fetch(
    address: str, topic: str, offset: int, version: int, *, topic_id: UUID = NO_ID
) -> list[Record]:
    """Read partition 0 from ``offset`` on."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=5_000,
        min_bytes=1,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )
    with Wire(address) as wire:
        answer = wire.ask(request, FetchResponse, version)
    found = answer.responses[0].partitions[0]
    assert (answer.error_code, found.error_code) == (0, 0)
    return decode(found.records or b"", topic=topic, partition=0, start_offset=offset)
