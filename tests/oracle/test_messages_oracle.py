"""Every message and version against the Java client's own serializer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kclient.errors import ProtocolError
from kclient.protocol import APIS, REQUESTS, RESPONSES, Message, Struct
from kclient.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kclient.protocol.messages.headers import RequestHeader, ResponseHeader
from kclient.protocol.wire import Field

from .java import run_java

NEWEST, OLDER = "4.3.1", "3.9.1"
EMBEDDED: tuple[type[Message], ...] = (
    RequestHeader,
    ResponseHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
)


class Vector(NamedTuple):
    cls: type[Message]
    version: int
    fill: str
    wire: bytes
    values: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.cls.__name__} v{self.version} {self.fill}"


def java_name(cls: type[Message]) -> str:
    return cls.__name__ if cls.__name__.startswith("ConsumerProtocol") else f"{cls.__name__}Data"


def vectors_from(version: str, wanted: set[tuple[type[Message], int]]) -> Iterator[Vector]:
    by_name = {java_name(cls): cls for cls, _ in wanted}
    asked = sorted(f"{java_name(cls)} {number}" for cls, number in wanted)
    source = Path(__file__).with_name("MessageOracle.java")
    for line in run_java(version, source, "\n".join(asked)):
        name, number, fill, wire, values = line.split("\t")
        yield Vector(by_name[name], int(number), fill, bytes.fromhex(wire), json.loads(values))


@pytest.fixture(scope="module")
def vectors() -> list[Vector]:
    wanted = {
        (cls, version)
        for cls in (*REQUESTS.values(), *RESPONSES.values(), *EMBEDDED)
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
    }
    found = list(vectors_from(NEWEST, wanted))
    missing = wanted - {(vector.cls, vector.version) for vector in found}
    return [*found, *vectors_from(OLDER, missing)]


def build(cls: type[Struct], values: dict[str, Any]) -> Struct:
    """A message made in Python from the values Java printed."""
    given = {n: convert(f, values[n]) for n, f in cls.FIELDS.items() if n in values}
    unknown = values.keys() - cls.FIELDS.keys()
    assert not unknown, f"{cls.__name__} lacks {unknown}"
    return cls(**given)


def convert(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        if field.struct is not None:
            return [build(field.struct, item) for item in value]
        assert field.element is not None
        return [convert(field.element, item) for item in value]
    if field.kind == "struct":
        assert field.struct is not None
        return build(field.struct, value)
    if field.kind == "uuid":
        return UUID(value)
    return bytes.fromhex(value) if field.kind in ("bytes", "records") else value


def test_every_group_is_covered(vectors: list[Vector]) -> None:
    api_classes = {*REQUESTS.values(), *RESPONSES.values()}
    groups = {(v.cls, v.version) for v in vectors if v.cls in api_classes}
    assert sorted(APIS) == list(range(93))
    assert len(groups) == 722
    rest = {(v.cls.__name__, v.version) for v in vectors if v.cls not in api_classes}
    assert len(rest) == 3 + 2 + 4 + 4


def test_decodes_to_the_values_java_wrote(vectors: list[Vector]) -> None:
    for vector in vectors:
        decoded = vector.cls.decode(vector.wire, vector.version)
        assert decoded == build(vector.cls, vector.values), str(vector)


def test_encodes_what_it_decoded_to_the_same_bytes(vectors: list[Vector]) -> None:
    for vector in vectors:
        if vector.fill != "UNKNOWN_TAGS":  # skipped when read, so not there to be written
            decoded = vector.cls.decode(vector.wire, vector.version)
            assert decoded.encode(vector.version) == vector.wire, str(vector)


def test_encodes_messages_built_in_python_to_the_same_bytes(vectors: list[Vector]) -> None:
    for vector in vectors:
        if vector.fill != "UNKNOWN_TAGS":
            built = build(vector.cls, vector.values)
            assert isinstance(built, Message)
            assert built.encode(vector.version) == vector.wire, str(vector)


def test_decodes_from_any_buffer(vectors: list[Vector]) -> None:
    for vector in vectors:
        if vector.fill == "FULL":
            whole = vector.cls.decode(vector.wire, vector.version)
            framed = b"\x00" * 3 + vector.wire
            view = memoryview(bytearray(framed))
            assert vector.cls.decode_at(view, 3, vector.version) == (whole, len(framed))


def test_short_and_long_input_is_refused(vectors: list[Vector]) -> None:
    for vector in vectors:
        if vector.fill == "HIGHEST":
            for wrong in (vector.wire[:-1], vector.wire + b"\x00"):
                if vector.wire:
                    with pytest.raises(ProtocolError):
                        vector.cls.decode(wrong, vector.version)
