"""A consumer inside a transaction: its positions are committed with it, or it goes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition


class Transacting(Protocol):
    """What ``transaction(consumer)`` needs of a consumer."""

    def assignment(self) -> Iterable[TopicPartition]:
        """The partitions it reads."""

    def position(self, tp: TopicPartition) -> int:
        """The offset it reads next."""

    def committed(
        self, tps: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        """The offsets its group has committed."""

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Read from another offset on."""

    def seek_to_beginning(self, tps: Iterable[TopicPartition]) -> None:
        """Read from the first offset on."""

    def group_metadata(self) -> GroupMetadata:
        """Its membership."""


def positions(consumer: Transacting) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a consumer has read, as offsets to commit."""
    return {tp: OffsetAndMetadata(consumer.position(tp)) for tp in consumer.assignment()}


def rewind(consumer: Transacting) -> None:
    """Let a consumer read again what its group has not committed."""
    for tp, committed in consumer.committed(list(consumer.assignment())).items():
        if committed is None:
            consumer.seek_to_beginning([tp])
        else:
            consumer.seek(tp, committed.offset)
