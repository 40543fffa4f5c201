"""Parts of a producer, made without a network."""

from __future__ import annotations

from typing import Any

from kclient.config import ProducerOptions, resolve
from kclient.delivery.accumulator import RECORD_OVERHEAD, Accumulator
from kclient.delivery.batch import Batch
from kclient.types import TopicPartition

TP = TopicPartition("orders", 0)


def options(**given: Any) -> ProducerOptions:
    return resolve(ProducerOptions, {"bootstrap_servers": "localhost:1", **given})


def accumulator(**given: Any) -> Accumulator:
    return Accumulator(options(**given))


def append(
    where: Accumulator, value: bytes = b"", tp: TopicPartition = TP, *, is_urgent: bool = False
) -> Batch:
    with where.lock:
        size = RECORD_OVERHEAD + len(value)
        return where.append(tp, None, value, (), 1, size, is_urgent=is_urgent)


def batch(*values: bytes, order: tuple[int, ...] = (0,), tp: TopicPartition = TP) -> Batch:
    made = Batch(tp, order, None, 2)
    for value in values:
        made.writer.append(None, value, (), 1)
    return made
