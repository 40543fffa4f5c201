"""Keys go to the partitions that Java's client gives them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.records import interface

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its files a deprecated way
    from kafka.partitioner import default as kafka_python

KNOWN = {  # from the tests of Apache Kafka's Utils
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_known_hashes() -> None:
    assert {key: interface.active.murmur2(key) for key in KNOWN} == KNOWN


@given(st.lists(st.binary(max_size=70), max_size=8), st.integers(1, (1 << 31) - 1))
def test_partitions(keys: list[bytes], count: int) -> None:
    theirs: Any = kafka_python.murmur2
    hashes = [theirs(key) for key in keys]
    assert [interface.active.murmur2(key) & 0xFFFFFFFF for key in keys] == hashes
    wanted = [(value & 0x7FFFFFFF) % count for value in hashes]
    assert interface.active.murmur2_partitions(keys, count) == wanted


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_no_partition_of_nothing(count: int) -> None:
    with pytest.raises(ValueError, match="partitions"):
        interface.active.murmur2_partitions([b"key"], count)
