"""What the driver asks the cluster: which partitions there are, and where they begin and end."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from types import TracebackType

from kclient.admin import Admin
from kclient.config import AdminOptions, declared
from kclient.errors import ConfigError, OffsetOutOfRange, PartialFailure, TopicNotFound
from kclient.spark.offsets import Offsets
from kclient.spark.options import EARLIEST, LATEST, Bound, ReadOptions
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
_SPECS = {EARLIEST: "earliest", LATEST: "latest"}


class SourceTopics:
    """The topics of a read, as the cluster knows them. Keeps its connections until ``close``."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        known = declared(AdminOptions)
        client = {name: value for name, value in options.client.items() if name in known}
        self._admin = Admin(**client)
        self._isolation = options.client["isolation_level"]

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def __enter__(self) -> SourceTopics:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def partitions(self) -> list[TopicPartition]:
        """Every partition to read now, sorted. Raises TopicNotFound for a missing one."""
        topics = self._options.topics
        names: Iterable[str] = topics.names or {tp.topic for tp in topics.partitions}
        if topics.pattern is not None:
            pattern = re.compile(topics.pattern)
            names = [name for name in self._admin.list_topics() if pattern.fullmatch(name)]
            if not names:
                return []
        found = self._described(names)
        if topics.partitions:
            for tp in topics.partitions:
                if tp not in found:
                    raise TopicNotFound(
                        f"the option assign names {tp.topic}[{tp.partition}], which does not exist",
                        topic=tp.topic,
                    )
            return sorted(topics.partitions)
        return sorted(found)

    def _described(self, names: Iterable[str]) -> set[TopicPartition]:
        try:
            described = self._admin.describe_topics(names)
        except PartialFailure as error:
            raise next(iter(error.failures.values())) from None
        return {
            TopicPartition(name, each.partition)
            for name, topic in described.items()
            for each in topic.partitions
        }

    def at(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Real offsets for those that may be EARLIEST or LATEST."""
        marks = {tp: _SPECS[offset] for tp, offset in wanted.items() if offset in _SPECS}
        found = self._listed(marks)
        return {
            tp: offset if tp not in marks else (found[tp] or 0) for tp, offset in wanted.items()
        }

    def earliest(self, tps: Iterable[TopicPartition]) -> Offsets:
        """The first offset of each partition."""
        return self.at(dict.fromkeys(tps, EARLIEST))

    def latest(self, tps: Iterable[TopicPartition]) -> Offsets:
        """The offset behind the last record of each partition that may be read."""
        return self.at(dict.fromkeys(tps, LATEST))

    def start(self, tps: list[TopicPartition]) -> Offsets:
        """Where reading starts. Raises ConfigError if that is not said of every partition."""
        bound = self._options.start
        times = _times(bound, tps, "startingOffsetsByTimestamp")
        if times is None:
            return self.at(_offsets(bound, tps, "startingOffsets"))
        found = self._listed(times)
        late = [tp for tp in tps if found[tp] is None]
        if late and not self._options.latest_if_no_time:
            tp = late[0]
            raise OffsetOutOfRange(
                f"{tp.topic}[{tp.partition}] has no record at or after timestamp {times[tp]}; "
                "set startingOffsetsByTimestampStrategy to latest to start at its end",
                topic=tp.topic,
            )
        return {**self.latest(late), **_known(found)}

    def end(self, tps: list[TopicPartition]) -> Offsets:
        """Where reading ends; a time without records so late means the end."""
        bound = self._options.end
        times = _times(bound, tps, "endingOffsetsByTimestamp")
        if times is None:
            return self.at(_offsets(bound, tps, "endingOffsets"))
        found = self._listed(times)
        return {**self.latest([tp for tp in tps if found[tp] is None]), **_known(found)}

    def _listed(
        self, specs: Mapping[TopicPartition, str | int]
    ) -> dict[TopicPartition, int | None]:
        if not specs:
            return {}
        try:
            found = self._admin.list_offsets(specs, isolation_level=self._isolation)
        except PartialFailure as error:
            raise next(iter(error.failures.values())) from None
        return {tp: each.offset for tp, each in found.items()}

    def commit(self, offsets: Offsets) -> None:
        """Note offsets for the group of kclient.commitGroup, where lag tools look for them."""
        if self._options.commit_group is not None:
            self._admin.alter_group_offsets(self._options.commit_group, offsets)

    def tell_loss(self, what: str) -> None:
        """Records are gone that should have been read: raise, or warn if that was asked for.

        Raises OffsetOutOfRange unless the option failOnDataLoss is false.
        """
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRange(f"{what}; {LOSS_ADVICE}")
        _log.warning("%s", what)


LOSS_ADVICE = (
    "some data may have been lost, because it aged out or its topic was deleted; set the option "
    "failOnDataLoss to false to read on with what is left"
)


def _known(found: Mapping[TopicPartition, int | None]) -> Offsets:
    return {tp: offset for tp, offset in found.items() if offset is not None}


def _times(
    bound: Bound, tps: Iterable[TopicPartition], option: str
) -> dict[TopicPartition, int] | None:
    if bound.time_ms is not None:
        return dict.fromkeys(tps, bound.time_ms)
    if bound.times_ms is None:
        return None
    return _exactly(bound.times_ms, tps, option)


def _offsets(bound: Bound, tps: Iterable[TopicPartition], option: str) -> dict[TopicPartition, int]:
    if bound.offsets is None:
        return dict.fromkeys(tps, bound.offset)
    return _exactly(bound.offsets, tps, option)


def _exactly(
    given: Mapping[TopicPartition, int], tps: Iterable[TopicPartition], option: str
) -> dict[TopicPartition, int]:
    wanted = set(tps)
    for tp in sorted(wanted ^ set(given)):
        why = "is missing" if tp in wanted else "is not read or does not exist"
        raise ConfigError(
            f"the option {option} must name every partition that is read, and no other: "
            f"{tp.topic}[{tp.partition}] {why}"
        )
    return dict(given)
