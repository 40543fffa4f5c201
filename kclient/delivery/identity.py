"""Who the producer is for the brokers, and whether a batch may leave under that name now."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Mapping
from typing import Protocol

from kclient.cluster import ANY, Call, Router
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.compression import parse_compression
from kclient.config import ProducerOptions
from kclient.deadline import Deadline
from kclient.delivery.accumulator import Partition
from kclient.delivery.batch import Batch
from kclient.delivery.sequences import ProducerId, Sequences
from kclient.errors import ConfigError, KafkaError, UnsupportedVersion, broker_error
from kclient.protocol import Message
from kclient.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kclient.protocol.wire import NEWEST
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
_INIT = "producer-id"
_CLUSTER_AUTHORIZATION_FAILED = 31
_IDS_SINCE = 3  # the first version of Produce whose batches have producer ids
FIRST_PRODUCE = 11
"""The newest version of Produce for the first generation of transactions."""


class Membership(Protocol):
    """What a transaction has to say about batches."""

    @property
    def is_second_generation(self) -> bool:
        """Whether Produce of the newest versions may be used (KIP-890)."""

    @property
    def refusal(self) -> KafkaError | None:
        """Why nothing that waits may be sent any more, if so."""

    def admits(self, tp: TopicPartition) -> bool:
        """Whether a partition is part of the transaction; if not, it is to be added."""

    def run_errands(self, tasks: Tasks) -> None:
        """Have partitions added that wait for it."""

    def note_failure(self, error: KafkaError, batch: Batch) -> None:
        """A batch of the transaction failed: it can only be aborted."""

    def note_task(self, key: Hashable, result: object) -> None:
        """An errand has ended."""


class Identity:
    """The producer's id, its epoch, and the order of what is sent under it."""

    def __init__(
        self, options: ProducerOptions, router: Router, *, is_wanted: bool, is_default: bool
    ) -> None:
        """``is_default`` says that the user did not ask for idempotence by name."""
        self.sequences = Sequences(is_on=is_wanted)
        self.transaction: Membership | None = None
        self.not_before = 0.0
        """When an id may be asked for again, by time.monotonic(); 0 while one is asked for."""
        self.trouble: KafkaError | None = None
        """What went wrong when an id was last asked for."""
        self._is_default = is_default
        self._router = router
        self._backoff = Backoff(options)
        self._failures = 0
        self._seconds = options["request_timeout_ms"] / 1000

    @property
    def newest_produce(self) -> int:
        """The highest version of Produce to use: newer ones imply newer transactions."""
        if self.transaction is None or self.transaction.is_second_generation:
            return NEWEST
        return FIRST_PRODUCE

    @property
    def refusal(self) -> KafkaError | None:
        """Why nothing that waits may be sent any more, None if it may."""
        return None if self.transaction is None else self.transaction.refusal

    def is_ready(self, tasks: Tasks) -> bool:
        """Whether anything may be sent; if an id is missing, it is being asked for."""
        if not self.sequences.needs_id:
            return True
        if self.transaction is None and time.monotonic() >= self.not_before:
            self.not_before = 0.0
            tasks.start(_INIT, self._ask)
        return False

    def may_send(self, partition: Partition, batch: Batch) -> bool:
        """Whether the first batch of a queue may leave now; then it has its number.

        A batch that failed goes alone: what was sent behind it comes back first, and nothing
        follows until it has an outcome. A broker tells a repeat only from its last five.
        """
        if any(batch.attempts or each.attempts > 1 for each in partition.in_flight):
            return False
        if self.transaction is not None and not self.transaction.admits(batch.tp):
            return False
        if not self.sequences.is_on or batch.has_sequence:
            return True
        if not partition.row.may_number(self.sequences.current, partition.unsettled()):
            return False
        partition.row.number(batch, self.sequences.current)
        return True

    def run_errands(self, tasks: Tasks) -> None:
        """Do what ``may_send`` found missing."""
        if self.transaction is not None:
            self.transaction.run_errands(tasks)

    def note_task(self, key: Hashable, result: object) -> None:
        """Take the result of an errand of ours."""
        if key != _INIT:
            if self.transaction is not None:
                self.transaction.note_task(key, result)
        elif isinstance(result, ProducerId):
            self.sequences.take(result)
            self._failures, self.trouble = 0, None
        elif isinstance(result, UnsupportedVersion) and self._is_default:
            _log.info("the broker is older than 0.11: sending without idempotence")
            self.sequences.is_on = False
        elif isinstance(result, KafkaError):
            self._failures += 1
            self.not_before = time.monotonic() + self._backoff.seconds(self._failures)
            self.trouble = result

    def _ask(self) -> ProducerId:
        return ask_producer_id(self._router, Deadline(self._seconds))


def check_options(options: ProducerOptions, given: Mapping[str, object]) -> bool:
    """Whether idempotence is on. Raises ConfigError for options that contradict each other."""
    parse_compression(options["compression_type"])  # raises
    is_asked = given.get("enable_idempotence") is True or options["transactional_id"] is not None
    caps = options["api_version_caps"]
    can = (
        options["acks"] in ("all", -1)
        and options["max_in_flight_requests_per_connection"] <= 5
        and caps.get("Produce", _IDS_SINCE) >= _IDS_SINCE
    )
    if is_asked and not can:
        raise ConfigError(
            "idempotence (and transactional_id) needs acks='all', at most 5 "
            "max_in_flight_requests_per_connection, and Produce not capped below "
            f"v{_IDS_SINCE} by api_version_caps"
        )
    if options["transactional_id"] is not None and not options["enable_idempotence"]:
        raise ConfigError("transactional_id needs enable_idempotence")
    if options["delivery_timeout_ms"] < options["linger_ms"]:
        raise ConfigError("delivery_timeout_ms is shorter than linger_ms")
    return options["enable_idempotence"] and can


def ask_producer_id(router: Router, deadline: Deadline) -> ProducerId:
    """A new id, from any broker; for producers without transactions."""
    return router.ask(ANY, init_producer_id(None, ProducerId(), 2**31 - 1), deadline)


def init_producer_id(
    transactional_id: str | None, current: ProducerId, timeout_ms: int
) -> Call[ProducerId]:
    """Ask for an id, or for the next epoch of ``current`` (KIP-360, since 2.5)."""

    def build(version: int) -> InitProducerIdRequest:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        if version >= 3:
            request.producer_id, request.producer_epoch = current
        return request

    def read(answer: Message) -> ProducerId:
        assert isinstance(answer, InitProducerIdResponse)
        if answer.error_code:
            raise broker_error(answer.error_code, _describe(transactional_id, answer.error_code))
        return ProducerId(answer.producer_id, answer.producer_epoch)

    return Call(InitProducerIdRequest, build, read)


def _describe(transactional_id: str | None, code: int) -> str:
    if transactional_id is not None:
        return f"asking for the producer id of transactional id {transactional_id!r}"
    if code == _CLUSTER_AUTHORIZATION_FAILED:
        return (
            "asking for a producer id (grant this user IdempotentWrite on the cluster, or set "
            "enable_idempotence=False)"
        )
    return "asking for a producer id"
