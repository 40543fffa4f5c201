"""Partitions of keys against the Java client's own choice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kclient.delivery.partitioner import choose_partitioner, murmur2_partition
from kclient.records import interface

from .java import run_java

SOURCE = Path(__file__).with_name("PartitionerOracle.java")


def test_keys_land_where_java_puts_them() -> None:
    rng = random.Random(794)
    keys = [rng.randbytes(length) for length in range(65) for _ in range(160)]
    keys += [b"\x00" * n for n in range(20)] + [b"\xff" * n for n in range(1, 20)]
    tasks = [(key, rng.choice((1, 2, 3, 7, 12, 100, 1000))) for key in keys]
    assert len(tasks) > 10_000
    answers = run_java("4.3.1", SOURCE, "\n".join(f"{key.hex()} {n}" for key, n in tasks))
    partitioner = choose_partitioner("murmur2")("orders")
    for (key, count), answer in zip(tasks, answers, strict=True):
        hashed, partition = map(int, answer.split())
        assert interface.active.murmur2(key) == hashed, key
        assert murmur2_partition(key, count) == partition, key
        assert partitioner.partition(key, count, ()) == partition, key


@pytest.mark.parametrize("name", ["murmur2", "murmur2_random"])
def test_no_key_is_left_to_the_sticky_choice(name: str) -> None:
    assert choose_partitioner(name)("orders").partition(None, 7, range(7)) is None
