"""Any bytes whatsoever decode or raise ProtocolError."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from kclient.errors import ProtocolError
from kclient.protocol import REQUESTS, RESPONSES, Message

CLASSES = [*REQUESTS.values(), *RESPONSES.values()]


@st.composite
def message_and_version(draw: st.DrawFn) -> tuple[type[Message], int]:
    cls = draw(st.sampled_from(CLASSES))
    return cls, draw(st.integers(*cls.VERSIONS))


@settings(max_examples=1000, deadline=None)
@given(message_and_version(), st.binary(max_size=300))
def test_random_bytes(which: tuple[type[Message], int], data: bytes) -> None:
    cls, version = which
    with contextlib.suppress(ProtocolError):
        cls.decode(data, version)


@settings(max_examples=500, deadline=None)
@given(message_and_version(), st.data())
def test_defaults_with_one_byte_changed(
    which: tuple[type[Message], int], choices: st.DataObject
) -> None:
    cls, version = which
    try:
        wire = bytearray(cls().encode(version))
    except ProtocolError:  # a default that this version cannot carry
        return
    if wire:
        wire[choices.draw(st.integers(0, len(wire) - 1))] = choices.draw(st.integers(0, 255))
    with contextlib.suppress(ProtocolError):
        cls.decode(bytes(wire), version)
