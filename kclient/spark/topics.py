"""What the driver asks the cluster: which partitions there are, and where they begin and end."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from types import TracebackType

from kclient.cluster import Metadata, Router
from kclient.config import AdminOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import ConfigError, OffsetOutOfRange, TopicNotFound
from kclient.fetch.lookup import find_offsets
from kclient.net.pool import Pool
from kclient.spark.offsets import Offsets
from kclient.spark.options import EARLIEST, LATEST, LOSS_ADVICE, Bound, ReadOptions, common_options
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)


class SourceTopics:
    """The topics of a read, as the cluster knows them. Keeps its connections until ``close``.

    It speaks with the cluster layer, not by an ``Admin``: a driver makes a process for each
    plan, and most of its time would go into importing what is not needed.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        client = resolve(AdminOptions, common_options(options.client))
        self._seconds = client["default_api_timeout_ms"] / 1000
        self._pool = Pool(client)
        self._metadata = Metadata(client, self._pool)
        self._router = Router(client, self._pool, self._metadata)
        self._is_committed = options.client["isolation_level"] == "read_committed"

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

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
        topics, deadline = self._options.topics, Deadline(self._seconds)
        if topics.pattern is not None:
            view = self._metadata.refresh(deadline, None)
            pattern = re.compile(topics.pattern)
            names: Iterable[str] = [
                name
                for name, topic in view.topics.items()
                if pattern.fullmatch(name) and not topic.is_internal
            ]
        else:
            names = topics.names or {tp.topic for tp in topics.partitions}
            self._metadata.refresh(deadline, list(names))
        found = {
            TopicPartition(name, number)
            for name in names
            for number in self._metadata.topic(name, deadline).partitions
        }
        for tp in topics.partitions:
            if tp not in found:
                raise TopicNotFound(
                    f"the option assign names {tp.topic}[{tp.partition}], which does not exist",
                    topic=tp.topic,
                )
        return sorted(topics.partitions or found)

    def at(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Real offsets for those that may be EARLIEST or LATEST."""
        marks = {tp: mark for tp, mark in wanted.items() if mark in (EARLIEST, LATEST)}
        return {**wanted, **self._listed(marks)}

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
        late = [tp for tp in tps if found[tp] < 0]
        if late and not self._options.latest_if_no_time:
            tp = late[0]
            raise OffsetOutOfRange(
                f"{tp.topic}[{tp.partition}] has no record at or after timestamp {times[tp]}; "
                "set startingOffsetsByTimestampStrategy to latest to start at its end",
                topic=tp.topic,
            )
        return {**found, **self.latest(late)}

    def end(self, tps: list[TopicPartition]) -> Offsets:
        """Where reading ends; a time without records so late means the end."""
        bound = self._options.end
        times = _times(bound, tps, "endingOffsetsByTimestamp")
        if times is None:
            return self.at(_offsets(bound, tps, "endingOffsets"))
        found = self._listed(times)
        return {**found, **self.latest([tp for tp in tps if found[tp] < 0])}

    def _listed(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The first offset at or after a time (ms), -1 if there is none; also of marks."""
        if not times:
            return {}
        found = find_offsets(
            self._router, times, Deadline(self._seconds), read_committed=self._is_committed
        )
        return {tp: each.offset for tp, each in found.items()}

    def commit(self, offsets: Offsets) -> None:
        """Note offsets for the group of kclient.commitGroup, where lag tools look for them."""
        if self._options.commit_group is not None:
            from kclient.admin import Admin

            with Admin(**common_options(self._options.client)) as admin:
                admin.alter_group_offsets(self._options.commit_group, offsets)

    def tell_loss(self, what: str) -> None:
        """Records are gone that should have been read: raise, or warn if that was asked for.

        Raises OffsetOutOfRange unless the option failOnDataLoss is false.
        """
        if self._options.fail_on_data_loss:
            raise OffsetOutOfRange(f"{what}; {LOSS_ADVICE}")
        _log.warning("%s", what)


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
