"""The options of ``format("kclient")``: those of Spark's own Kafka connector, read and checked.

Spark hands options over with their names in lower case; messages use the names as they are
documented. Nothing here shows a value that might be a secret.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kclient.config import (
    AdminOptions,
    ConsumerOptions,
    ProducerOptions,
    declared,
    from_properties,
)
from kclient.errors import ConfigError
from kclient.types import TopicPartition

T = TypeVar("T")
PREFIX = "kafka."
EARLIEST, LATEST = -2, -1
"""Offsets that stand for the first and the next one, as in the connector's JSON."""
LOSS_ADVICE = (
    "some data may have been lost, because it aged out or its topic was deleted; set the option "
    "failOnDataLoss to false to read on with what is left"
)
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"

_READ = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "kclient.commitGroup",
)
_WRITE = ("topic", "includeHeaders", "kclient.delivery", "kclient.transactionalId")
# What the connector has for its cached consumers, and what Spark puts among a sink's options.
_WITHOUT_MEANING = (
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "checkpointLocation",
    "queryName",
    "path",
)
_RESERVED = {
    "auto.offset.reset": "use the option startingOffsets",
    "enable.auto.commit": "Spark keeps the offsets; see the option kclient.commitGroup",
    "transactional.id": "use the options kclient.delivery and kclient.transactionalId",
}
_LARGE_FETCH = 4 << 20
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, None: 0.001}


@dataclass(frozen=True)
class Topics:
    """Which topics are read: names, a pattern for names, or partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class Bound:
    """Where reading starts or ends: an offset or a time for all partitions, or for each.

    ``offset`` may be EARLIEST or LATEST, as may the values of ``offsets``; times are in ms.
    """

    offset: int = LATEST
    offsets: Mapping[TopicPartition, int] | None = None
    time_ms: int | None = None
    times_ms: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True)
class ReadOptions:
    """How to read. It pickles, for Spark takes it to the executors."""

    topics: Topics
    start: Bound
    end: Bound
    client: Mapping[str, Any] = field(repr=False)
    """Keyword arguments for a client; secrets may be among them."""
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_seconds: float = 900.0
    latest_if_no_time: bool = False
    include_headers: bool = False
    commit_group: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """How to write. It pickles, for Spark takes it to the executors."""

    client: Mapping[str, Any] = field(repr=False)
    topic: str | None = None
    is_exactly_once: bool = False
    transactional_id: str | None = None


def read_options(given: Mapping[str, str], *, is_streaming: bool | None) -> ReadOptions:
    """The options of a read. Raises ConfigError for what is unknown, malformed or forbidden.

    ``is_streaming`` None checks only what holds for both: Spark asks for the schema before
    it says which.
    """
    named, properties = _split(given, _READ, _WRITE)
    if is_streaming:
        _forbid(named, "a stream has no end", _names_like("ending"))
    client = _client(ConsumerOptions, properties)
    client.setdefault("isolation_level", "read_committed")
    client.setdefault("max_partition_fetch_bytes", _LARGE_FETCH)
    client.setdefault("client_id", "kclient-spark")
    poll = _whole(named, "kafkaConsumer.pollTimeoutMs")
    if poll is not None:
        client["default_api_timeout_ms"] = poll
    return ReadOptions(
        topics=_topics(named),
        start=_start(named, is_streaming=is_streaming),
        end=_end(named),
        client=client,
        fail_on_data_loss=_flag(named, "failOnDataLoss", default=True),
        min_partitions=_whole(named, "minPartitions"),
        max_records_per_partition=_whole(named, "maxRecordsPerPartition"),
        max_offsets_per_trigger=_whole(named, "maxOffsetsPerTrigger"),
        min_offsets_per_trigger=_whole(named, "minOffsetsPerTrigger"),
        max_trigger_seconds=_seconds(named, "maxTriggerDelay", 900.0),
        latest_if_no_time=_choice(named, "startingOffsetsByTimestampStrategy", ("error", "latest"))
        == "latest",
        include_headers=_flag(named, "includeHeaders", default=False),
        commit_group=named.get("kclient.commitGroup"),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write. Raises ConfigError for what is unknown or malformed."""
    named, properties = _split(given, _WRITE, _READ)
    client = _client(ProducerOptions, properties)
    client.setdefault("client_id", "kclient-spark")
    delivery = _choice(named, "kclient.delivery", (AT_LEAST_ONCE, EXACTLY_ONCE))
    if "kclient.transactionalId" in named and delivery != EXACTLY_ONCE:
        raise ConfigError(
            f"kclient.transactionalId is for option('kclient.delivery', '{EXACTLY_ONCE}')"
        )
    return WriteOptions(
        client=client,
        topic=named.get("topic"),
        is_exactly_once=delivery == EXACTLY_ONCE,
        transactional_id=named.get("kclient.transactionalId"),
    )


def common_options(client: Mapping[str, Any]) -> dict[str, Any]:
    """Of a client's keyword arguments, those that every client has."""
    known = declared(AdminOptions)
    return {name: value for name, value in client.items() if name in known}


# --- names ---


def _split(
    given: Mapping[str, str], known: tuple[str, ...], elsewhere: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """Our options by their documented names, and Kafka's without their prefix."""
    proper = {name.lower(): name for name in (*known, *_WITHOUT_MEANING)}
    named: dict[str, str] = {}
    properties: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower.startswith(PREFIX):
            properties[lower.removeprefix(PREFIX)] = value
        elif lower in proper:
            named[proper[lower]] = value
        else:
            raise _unknown(name, known, elsewhere)
    return named, properties


def _unknown(name: str, known: tuple[str, ...], elsewhere: tuple[str, ...]) -> ConfigError:
    if name.lower() in {each.lower() for each in elsewhere}:
        side = "reading" if "subscribe" in elsewhere else "writing"
        return ConfigError(f"the option {name!r} is for {side} only", option=name)
    candidates = {each.lower(): each for each in (*known, "kafka.bootstrap.servers")}
    close = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    hint = (
        f"did you mean {candidates[close[0]]!r}?"
        if close
        else "options for the client itself begin with 'kafka.'"
    )
    return ConfigError(f"unknown option {name!r} of format('kclient'); {hint}", option=name)


def _client(kind: type, properties: Mapping[str, str]) -> dict[str, Any]:
    for name, advice in _RESERVED.items():
        if name in properties:
            raise ConfigError(f"the option {PREFIX}{name} cannot be set here: {advice}")
    if not properties.get("bootstrap.servers"):
        raise ConfigError(
            "the option kafka.bootstrap.servers is required: host:port of a broker or several"
        )
    try:
        return from_properties(kind, properties)
    except ConfigError as error:
        raise ConfigError(f"among the options {PREFIX}*: {error}") from None


def _forbid(named: Mapping[str, str], why: str, names: tuple[str, ...]) -> None:
    for name in names:
        if name in named:
            raise ConfigError(f"the option {name} is not for streams: {why}")


def _names_like(beginning: str) -> tuple[str, ...]:
    return tuple(name for name in _READ if name.startswith(beginning))


# --- values ---


def _flag(named: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = named.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"the option {name} is true or false, not {named[name]!r}")
    return text == "true"


def _whole(named: Mapping[str, str], name: str) -> int | None:
    text = named.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"the option {name} is a whole number above 0, not {text!r}")
    return int(text)


def _choice(named: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = named.get(name, choices[0])
    if text.lower() not in choices:
        raise ConfigError(f"the option {name} is one of {', '.join(choices)}, not {text!r}")
    return text.lower()


def _seconds(named: Mapping[str, str], name: str, default: float) -> float:
    if name not in named:
        return default
    found = _DURATION.fullmatch(named[name].strip().lower())
    if found is None:
        raise ConfigError(f"the option {name} is a time as in '15m', not {named[name]!r}")
    return int(found[1]) * _UNITS[found[2]]


# --- topics and offsets ---


def _topics(named: Mapping[str, str]) -> Topics:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name in named]
    if len(ways) != 1:
        said = f"not {' and '.join(ways)}" if ways else "and none was given"
        raise ConfigError(
            f"one of the options subscribe, subscribePattern and assign says what to read, {said}"
        )
    text = named[ways[0]].strip()
    if ways[0] == "subscribe":
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not names:
            raise ConfigError("the option subscribe names no topic")
        return Topics(names=names)
    if ways[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigError(
                f"the option subscribePattern is no regular expression: {error}"
            ) from None
        return Topics(pattern=text)
    return Topics(partitions=tuple(_read_assign(text)))


def _start(named: Mapping[str, str], *, is_streaming: bool | None) -> Bound:
    default = "earliest" if is_streaming is False else "latest"
    bound = _bound(named, "starting", default)
    found = [bound.offset, *(bound.offsets or {}).values()]
    is_timed = bound.time_ms is not None or bound.times_ms is not None
    if is_streaming is False and not is_timed and LATEST in found:
        raise ConfigError("the option startingOffsets cannot be latest (-1) in a batch read")
    return bound


def _end(named: Mapping[str, str]) -> Bound:
    bound = _bound(named, "ending", "latest")
    if EARLIEST in (bound.offset, *(bound.offsets or {}).values()):
        raise ConfigError("the option endingOffsets cannot be earliest (-2)")
    return bound


def _bound(named: Mapping[str, str], side: str, default: str) -> Bound:
    """The connector's order: one time for all, times, offsets."""
    timestamp, times = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    offsets = f"{side}Offsets"
    if timestamp in named:
        text = named[timestamp].strip()
        if not text.isdecimal():
            raise ConfigError(f"the option {timestamp} is a time in ms, not {text!r}")
        return Bound(time_ms=int(text))
    if times in named:
        return Bound(times_ms=_read_partitions(times, named[times], at_least=0))
    text = named.get(offsets, default).strip()
    if text.lower() in ("earliest", "latest"):
        return Bound(EARLIEST if text.lower() == "earliest" else LATEST)
    return Bound(offset=0, offsets=_read_partitions(offsets, text, at_least=EARLIEST))


def _read_partitions(name: str, text: str, *, at_least: int) -> dict[TopicPartition, int]:
    """Read ``{"topic": {"0": 12}}``."""
    example = '{"topic": {"0": 12, "1": -2}}'
    found: dict[TopicPartition, int] = {}
    topics = _json(name, text, dict, example)
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise _malformed(name, text, f"{topic!r} has no partitions", example)
        for number, offset in partitions.items():
            is_whole = isinstance(offset, int) and not isinstance(offset, bool)
            if not number.isdecimal() or not is_whole or offset < at_least:
                raise _malformed(name, text, f"{topic!r} has {number!r}: {offset!r}", example)
            found[TopicPartition(topic, int(number))] = offset
    if not found:
        raise _malformed(name, text, "it names no partition", example)
    return found


def _read_assign(text: str) -> list[TopicPartition]:
    """Read ``{"topic": [0, 1]}``."""
    example = '{"topic": [0, 1]}'
    found = []
    for topic, numbers in _json("assign", text, dict, example).items():
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise _malformed("assign", text, f"{topic!r} has {numbers!r}", example)
        found += [TopicPartition(topic, number) for number in numbers]
    if not found:
        raise _malformed("assign", text, "it names no partition", example)
    return found


def _json(name: str, text: str, kind: type[T], example: str) -> T:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _malformed(name, text, str(error), example) from None
    if not isinstance(found, kind):
        raise _malformed(name, text, "it is no object", example)
    return found


def _malformed(name: str, text: str, why: str, example: str) -> ConfigError:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return ConfigError(f"the option {name} is malformed ({why}): {shown!r}; expected as {example}")
