"""The transaction coordinators of a fake cluster (KIP-98, and KIP-890 for version 2).

Markers are written at once when a transaction ends, so none is ever seen half done; a
script says CONCURRENT_TRANSACTIONS where a test wants it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from kclient.records import ControlType
from kclient.testing.fake.codes import Code, Refusal
from kclient.types import TopicPartition

_LAST_EPOCH = 0x7FFF - 1  # the largest is kept for fencing
_MAX_TIMEOUT_MS = 900_000
_FIRST_PRODUCER_ID = 1000


class TransactionState(Enum):
    """As DescribeTransactions names them; the states in between are never seen."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


class ProducerIdentity(NamedTuple):
    """Which producer, and which of its lives."""

    id: int
    epoch: int


class Outcome(Protocol):
    """What ending a transaction does to logs and groups."""

    def mark(self, tp: TopicPartition, producer: ProducerIdentity, kind: ControlType) -> None:
        """Write a marker into a partition's log, if it still exists."""

    def settle(self, group_id: str, producer_id: int, *, commit: bool) -> None:
        """Take a group's pending offsets, or throw them away."""


@dataclass
class Transaction:
    """A transactional id: its producer, and what its current transaction touches."""

    producer: ProducerIdentity
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    previous: ProducerIdentity | None = None  # before the last bump, for repeated requests
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    started: float = 0.0


class Transactions:
    """By transactional id. Times are in seconds, but for ``timeout_ms``."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._transactions: dict[str, Transaction] = {}
        self._next_producer_id = _FIRST_PRODUCER_ID

    def find(self, transactional_id: str) -> Transaction | None:
        """What is known of a transactional id."""
        return self._transactions.get(transactional_id)

    def _new_producer(self) -> ProducerIdentity:
        self._next_producer_id += 1
        return ProducerIdentity(self._next_producer_id - 1, 0)

    # --- producers ----------------------------------------------------------------------------

    def init(
        self, transactional_id: str | None, timeout_ms: int, claimed: ProducerIdentity, fenced: int
    ) -> ProducerIdentity:
        """A producer id and epoch; older holders of the transactional id are fenced.

        A producer that ``claimed`` an identity gets the next epoch only if it is the
        current one, else a Refusal with the code ``fenced`` (KIP-360).
        """
        if transactional_id is None:
            return self._new_producer()
        if not transactional_id:
            raise Refusal(Code.INVALID_REQUEST)
        if not 0 < timeout_ms <= _MAX_TIMEOUT_MS:
            raise Refusal(Code.INVALID_TRANSACTION_TIMEOUT)
        known = self._transactions.get(transactional_id)
        if known is None:
            known = Transaction(self._new_producer(), timeout_ms)
            self._transactions[transactional_id] = known
            return known.producer
        if claimed.id >= 0 and claimed == known.previous:
            return known.producer  # its answer was lost, and it asks again
        if claimed.id >= 0 and claimed != known.producer:
            raise Refusal(fenced)
        if known.state is TransactionState.ONGOING:
            self._finish(known, self._bump(known), commit=False)
        self._bump(known)
        known.previous = claimed if claimed.id >= 0 else None
        known.timeout_ms = timeout_ms
        known.state = TransactionState.EMPTY
        return known.producer

    def _bump(self, transaction: Transaction) -> ProducerIdentity:
        """Give the producer its next epoch, or a new id; returns who ends its transaction."""
        producer = transaction.producer
        fence = ProducerIdentity(producer.id, producer.epoch + 1)
        transaction.previous = producer
        transaction.producer = self._new_producer() if fence.epoch > _LAST_EPOCH else fence
        return fence

    def check(self, transactional_id: str, producer: ProducerIdentity, fenced: int) -> Transaction:
        """The transaction of the producer that holds the id; or a Refusal."""
        known = self._transactions.get(transactional_id)
        if known is None or producer.id != known.producer.id:
            raise Refusal(Code.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != known.producer.epoch:
            raise Refusal(fenced)
        return known

    # --- transactions -------------------------------------------------------------------------

    def add(
        self,
        transaction: Transaction,
        now: float,
        *,
        partitions: Iterable[TopicPartition] = (),
        group: str | None = None,
    ) -> None:
        """Let the transaction touch partitions and a group; it begins if it had not."""
        if transaction.state is not TransactionState.ONGOING:
            transaction.state = TransactionState.ONGOING
            transaction.started = now
            transaction.partitions.clear()
            transaction.groups.clear()
        transaction.partitions.update(partitions)
        if group is not None:
            transaction.groups.add(group)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        *,
        commit: bool,
        bump: bool,
        fenced: int,
    ) -> ProducerIdentity:
        """Commit or abort; returns who the producer is from now on.

        With ``bump`` (transaction version 2) each transaction has an epoch of its own. A
        repeated request gets the same answer; one that contradicts it a Refusal.
        """
        done = TransactionState.COMMITTED if commit else TransactionState.ABORTED
        known = self._transactions.get(transactional_id)
        if bump and known is not None and known.previous == producer and known.state is done:
            return known.producer
        known = self.check(transactional_id, producer, fenced)
        if known.state is not TransactionState.ONGOING:
            if known.state is done and not bump:
                return known.producer
            if commit or not bump:
                raise Refusal(Code.INVALID_TXN_STATE)
        self._finish(known, self._bump(known) if bump else known.producer, commit=commit)
        return known.producer

    def _finish(self, transaction: Transaction, writer: ProducerIdentity, *, commit: bool) -> None:
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        for tp in sorted(transaction.partitions):
            self._outcome.mark(tp, writer, kind)
        for group in sorted(transaction.groups):
            self._outcome.settle(group, writer.id, commit=commit)
        transaction.partitions.clear()
        transaction.groups.clear()
        transaction.state = TransactionState.COMMITTED if commit else TransactionState.ABORTED

    def tick(self, now: float) -> bool:
        """Abort transactions that took too long, and fence their producers."""
        late = [
            transaction
            for transaction in self._transactions.values()
            if transaction.state is TransactionState.ONGOING
            and now - transaction.started > transaction.timeout_ms / 1000
        ]
        for transaction in late:
            self._finish(transaction, self._bump(transaction), commit=False)
            transaction.previous = None
        return bool(late)
