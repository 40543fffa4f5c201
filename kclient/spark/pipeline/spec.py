"""What a pipeline is, as values, and how its TOML file is read; no Spark."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from kclient.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")
SINKS = ("kafka", "parquet", "console")


@dataclass(frozen=True)
class Source:
    """What is read. ``options`` are those of ``format("kclient")``, as they are."""

    topics: list[str]
    bootstrap_servers: str
    starting: str = "earliest"
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Watermark:
    """How late a row may be: ``delay`` as in ``"10 minutes"``, by the time in ``column``."""

    column: str
    delay: str


@dataclass(frozen=True)
class Transform:
    """What is done to the parsed rows, in this order; all of it may be left out.

    ``sql`` selects from the view ``input``; ``python`` is ``"module:function"``, from a
    DataFrame to a DataFrame.
    """

    watermark: Watermark | None = None
    deduplicate: list[str] = field(default_factory=list)
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Sink:
    """Where rows go. ``kafka`` needs ``topic``, ``parquet`` needs ``path``.

    Rows become JSON for Kafka, under the key in the column ``key``. ``delivery`` is
    ``at-least-once`` or ``exactly-once``.
    """

    type: str
    topic: str | None = None
    path: str | None = None
    key: str | None = None
    delivery: str = "at-least-once"
    output_mode: str = "append"
    bootstrap_servers: str | None = None
    """By default that of the source."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """What its checkpoint and its progress are called."""
        where = self.topic or Path(self.path or "").name
        return f"{self.type}-{where}" if where else self.type


@dataclass(frozen=True)
class Pipeline:
    """A job. ``fields`` is a schema in SQL's words; without it rows are Kafka's columns.

    ``trigger`` is ``available-now`` or a time between batches, as in ``"10 seconds"``.
    ``dead_letter`` is the topic for records that are not JSON of the schema, and ``metrics``
    a file that gets the progress of all batches as JSON.
    """

    name: str
    checkpoint: str
    source: Source
    sinks: list[Sink]
    fields: str | None = None
    transform: Transform = Transform()
    dead_letter: str | None = None
    trigger: str = "available-now"
    metrics: str | None = None


def read_pipeline(path: str | PathLike[str]) -> Pipeline:
    """Read a pipeline from a TOML file. Raises ConfigError for what is wrong with it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        given = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"the pipeline file {path} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    return make_pipeline(given)


def make_pipeline(given: Mapping[str, Any]) -> Pipeline:
    """A pipeline from nested mappings, as a TOML file has them. Raises ConfigError."""
    values = dict(given)
    sinks = values.pop("sink", [])
    if not isinstance(sinks, list):
        raise ConfigError("a sink is a table of an array: write [[sink]], not [sink]")
    values["sinks"] = [_made(Sink, each, "sink") for each in sinks]
    values["source"] = _made(Source, values.get("source", {}), "source")
    if "transform" in values:
        transform = dict(values["transform"])
        if "watermark" in transform:
            transform["watermark"] = _made(Watermark, transform["watermark"], "watermark")
        values["transform"] = _made(Transform, transform, "transform")
    pipeline = _made(Pipeline, values, "the file")
    _check(pipeline)
    return pipeline


def _made(kind: type[T], given: Any, where: str) -> T:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} is a table, not {given!r}")
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise ConfigError(f"unknown entry {name!r} in {where}; {hint}")
    for name, each in known.items():
        is_required = each.default is MISSING and each.default_factory is MISSING
        if is_required and name not in given:
            raise ConfigError(f"{where} lacks the entry {name!r}")
    return kind(**given)


def _check(pipeline: Pipeline) -> None:
    if not pipeline.sinks:
        raise ConfigError("a pipeline needs a [[sink]] at least")
    for sink in pipeline.sinks:
        if sink.type not in SINKS:
            raise ConfigError(f"a sink's type is one of {', '.join(SINKS)}, not {sink.type!r}")
        if sink.type == "kafka" and not sink.topic:
            raise ConfigError("a sink of type kafka needs a topic")
        if sink.type == "parquet" and not sink.path:
            raise ConfigError("a sink of type parquet needs a path")
    names = [sink.name for sink in pipeline.sinks]
    if len(set(names)) < len(names):
        raise ConfigError(f"sinks must differ in type, topic or path: {', '.join(names)}")
    transform = pipeline.transform
    if transform.sql and transform.python:
        raise ConfigError("transform has sql or python, not both")
    if pipeline.dead_letter and not pipeline.fields:
        raise ConfigError("dead_letter is for records that do not fit `fields`, which is missing")
    if transform.deduplicate and transform.watermark is None:
        raise ConfigError(
            "deduplicate needs a watermark: without one, all that was ever seen must be kept"
        )
