"""Which version of each API to speak with one broker.

A broker since 0.10 tells by ApiVersions. One that does not know our newest ApiVersions
answers in v0, with the range it knows (since 2.4) or with nothing. Brokers before 0.10 do
not know the API at all: 0.8 hangs up, 0.9 never answers but goes on to the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kclient.errors import UnsupportedVersion, broker_error
from kclient.protocol import APIS, Message
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kclient.protocol.since import FIRST_KAFKA
from kclient.protocol.wire import Buffer

API_VERSIONS = 18
NEWEST = ApiVersionsRequest.VERSIONS[1]
_UNSUPPORTED_VERSION = 35
_NOT_IN_EVERY_0_8 = (8, 9, 10)  # OffsetCommit, OffsetFetch, FindCoordinator
_HEADER = 4  # responses to ApiVersions have header v0: a correlation id

VERSION_PROBE = MetadataRequest(topics=[MetadataRequestTopic(name="~")])
"""Sent in v0 behind ApiVersions where the broker may be a 0.9: its answer without one to
ApiVersions says so at once. A name that no topic can have makes it cheap and harmless."""


class Versions(NamedTuple):
    """What one broker speaks: (lowest, highest) by API key. ``kafka`` is our guess, if old."""

    ranges: Mapping[int, tuple[int, int]]
    kafka: str = ""
    features: Mapping[str, int] = {}
    """The cluster's finalized features (KIP-584) by name, e.g. ``transaction.version``."""

    def speaks(self, request: Message, version: int) -> bool:
        """Whether the broker takes this request in ``version``."""
        low, high = self.ranges.get(request.API_KEY or 0, (0, -1))
        return low <= version <= high

    def may_lack(self, request: type[Message]) -> bool:
        """Whether the broker, which cannot say, may be too old for what we think it speaks.

        0.8.0, 0.8.1 and 0.8.2 look alike until one of them hangs up.
        """
        return self.kafka == KAFKA_0_8.kafka and request.API_KEY in _NOT_IN_EVERY_0_8

    def choose(
        self, request: type[Message], *, at_most: int | None = None, unstable: bool = False
    ) -> int:
        """The highest version of ``request`` that both sides speak.

        Raises UnsupportedVersion, naming both ranges, if there is none. Versions that Kafka
        has not declared stable are left alone, except with ``unstable``.
        """
        api = APIS[request.API_KEY or 0]
        ours = api.versions[0], api.versions[1] if unstable else api.stable
        if at_most is not None:
            ours = ours[0], min(ours[1], at_most)
        theirs = self.ranges.get(api.key)
        if theirs is None:
            old = f" (it looks like Kafka {self.kafka})" if self.kafka else ""
            since = FIRST_KAFKA.get(api.key)
            have = f"Kafka has it since {since}" if since else "it is for brokers only"
            raise UnsupportedVersion(
                f"the broker does not have {api.name}{old}: {have}; "
                f"kclient speaks v{ours[0]} to v{ours[1]}"
            )
        version = min(ours[1], theirs[1])
        if version < max(ours[0], theirs[0]):
            raise UnsupportedVersion(
                f"no common version of {api.name}: the broker speaks v{theirs[0]} to v{theirs[1]}, "
                f"kclient v{ours[0]} to v{ours[1]}"
            )
        return version


def request(client_version: str) -> ApiVersionsRequest:
    """The question; brokers count clients by this name and version (KIP-511)."""
    return ApiVersionsRequest(
        client_software_name="kclient", client_software_version=client_version
    )


def read_answer(frame: Buffer, asked: int) -> Versions | int:
    """What the broker speaks, or the version of ApiVersions to ask in again.

    Raises ProtocolError if the frame is no such answer, BrokerError for another error.
    """
    body = bytes(frame[_HEADER:])
    refused = int.from_bytes(body[:2], "big") == _UNSUPPORTED_VERSION
    answer = ApiVersionsResponse.decode(body, 0 if refused else asked)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    if not answer.error_code:
        finalized = answer.finalized_features
        return Versions(ranges, features={each.name: each.max_version_level for each in finalized})
    if answer.error_code != _UNSUPPORTED_VERSION or asked == 0:
        raise broker_error(answer.error_code, "the broker would not tell what it speaks")
    return min(ranges.get(API_VERSIONS, (0, 0))[1], asked - 1)


KAFKA_0_8 = Versions(
    {0: (0, 0), 1: (0, 0), 2: (0, 0), 3: (0, 0), 8: (0, 1), 9: (0, 1), 10: (0, 0)}, "0.8"
)
"""Commits in ZooKeeper came with 0.8.1, those in Kafka and coordinators with 0.8.2."""

KAFKA_0_9 = Versions(
    {
        **dict.fromkeys((0, 1, 9), (0, 1)),
        **dict.fromkeys((2, 3, *range(10, 17)), (0, 0)),
        8: (0, 2),
    },
    "0.9",
)
