"""Transactions: the states a producer goes through, and the requests between them.

Two generations of the protocol. In the first, each partition and group is added to the
transaction before it is written to, and the epoch changes only after an error. In the second
(KIP-890; where the cluster's ``transaction.version`` is 2) writing adds, and every end of a
transaction raises the epoch, so that nothing late can slip into the next one.

    NEW -init-> IDLE -begin-> OPEN -commit|abort-> ENDING -> IDLE
    OPEN -a batch or an offset fails-> FAILED -abort-> ENDING
    any -fenced, not authorized-> LOST
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Mapping
from enum import Enum

from kclient.cluster import Coordinator, Router
from kclient.cluster.target import CoordinatorKind
from kclient.cluster.tasks import Tasks
from kclient.deadline import Deadline
from kclient.delivery import transaction_calls as calls
from kclient.delivery.identity import Identity, init_producer_id
from kclient.errors import (
    BrokerError,
    KafkaError,
    NotAuthorized,
    ProducerFenced,
    TransactionFailed,
    TransactionLost,
    UnsupportedVersion,
)
from kclient.net.pool import Pool
from kclient.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)
_ADD = "add-partitions"
_INVALID_MAPPING, _INVALID_STATE = 49, 48
_FEATURE = "transaction.version"


class State(Enum):
    """Where a transactional producer stands; see the module."""

    NEW = "not initialized"
    IDLE = "between transactions"
    OPEN = "in a transaction"
    FAILED = "in a transaction that can only be aborted"
    ENDING = "ending a transaction"
    LOST = "lost"


class Transaction:
    """The transactions of one producer, one after the other.

    ``lock`` guards the fields; requests are made outside of it.
    """

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        router: Router,
        pool: Pool,
        identity: Identity,
    ) -> None:
        self.transactional_id = transactional_id
        self.state = State.NEW
        self._timeout_ms = timeout_ms
        self._router = router
        self._pool = pool
        self._identity = identity
        self._lock = threading.Lock()
        self._cause: KafkaError | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._has_offsets = False
        self._is_committing: bool | None = None
        self._was_failed = False
        self._seconds = timeout_ms / 1000
        self._coordinator = Coordinator(CoordinatorKind.TRANSACTION, transactional_id)

    @property
    def is_second_generation(self) -> bool:
        """Whether writing adds partitions by itself (KIP-890)."""
        return self._pool.features.get(_FEATURE, 0) >= 2

    @property
    def is_new(self) -> bool:
        """Whether ``init`` has not been done."""
        return self.state is State.NEW

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that can still be aborted."""
        is_aborting = self.state is State.ENDING and self._is_committing is False
        return self.state in (State.OPEN, State.FAILED) or is_aborting

    # --- what the engine asks ---

    def admits(self, tp: TopicPartition, tasks: Tasks) -> bool:
        """Whether a partition may be written to; if not yet, it is being added."""
        with self._lock:
            if tp in self._added:
                return True
            if self.is_second_generation:
                self._added.add(tp)
                return True
            self._wanted.add(tp)
        if self.state is State.OPEN:
            tasks.start(_ADD, self._add_wanted)
        return False

    def note_task(self, key: Hashable, result: object) -> None:
        """An errand has ended; a failed one fails the transaction."""
        if key == _ADD and isinstance(result, KafkaError):
            self.note_failure(result)

    def note_failure(self, error: KafkaError) -> None:
        """Something of the transaction failed: it can only be aborted, or all is lost."""
        with self._lock:
            if _is_fatal(error):
                self.state, self._cause = State.LOST, error
            elif self.state in (State.OPEN, State.ENDING) and self._is_committing is not False:
                self.state, self._cause = State.FAILED, error

    def _add_wanted(self) -> None:
        with self._lock:
            wanted = self._wanted - self._added
        if wanted:
            call = calls.add_partitions(
                self.transactional_id, self._identity.sequences.current, wanted
            )
            self._router.ask(self._coordinator, call, Deadline(self._seconds), lane="transaction")
        with self._lock:
            self._added |= wanted
            self._wanted -= wanted

    # --- what the user asks ---

    def check_open(self) -> None:
        """Raise unless records may be sent now."""
        if self.state is not State.OPEN:
            raise self._refusal("records are sent between begin_transaction and its end")

    def init(self, deadline: Deadline) -> None:
        """Get the id and epoch; whoever had the transactional id before is fenced.

        Raises NotAuthorized, UnsupportedVersion (Kafka before 0.11), KafkaTimeout.
        """
        call = init_producer_id(self.transactional_id, calls.NOBODY, self._timeout_ms)
        given = self._ask(call, deadline)
        self._identity.sequences.take(given)
        self._become(State.IDLE)

    def begin(self) -> None:
        """Open a transaction. Raises TransactionFailed or TransactionLost in a wrong state."""
        with self._lock:
            if self.state is not State.IDLE:
                raise self._refusal("a transaction can only begin when none is open")
            self.state = State.OPEN

    def add_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        deadline: Deadline,
    ) -> None:
        """Commit a group's offsets with the transaction (KIP-447)."""
        self.check_open()
        owner = self._identity.sequences.current
        try:
            if not self.is_second_generation:
                added = calls.add_offsets(self.transactional_id, owner, group.group_id)
                self._ask(added, deadline)
            with self._lock:
                self._has_offsets = True
            commit = calls.commit_offsets(
                self.transactional_id, owner, group, offsets, implicit=self.is_second_generation
            )
            target = Coordinator(CoordinatorKind.GROUP, group.group_id)
            self._router.ask(target, commit, deadline, lane="transaction")
        except KafkaError as error:
            self.note_failure(error)
            raise

    def start_end(self, *, commit: bool) -> None:
        """Let no more records in. Raises if the transaction cannot end this way."""
        with self._lock:
            allowed = (State.OPEN,) if commit else (State.OPEN, State.FAILED)
            again = self.state is State.ENDING and self._is_committing is commit
            if self.state not in allowed and not again:
                raise self._refusal(f"there is nothing to {'commit' if commit else 'abort'}")
            self._was_failed = self.state is State.FAILED
            self.state, self._is_committing = State.ENDING, commit

    def end(self, deadline: Deadline, *, commit: bool) -> None:
        """Commit or abort what was written. After KafkaTimeout the same may be tried again."""
        if self.state is not State.ENDING:
            raise self._refusal("the transaction failed while its last records were sent")
        is_empty = not self._added and not self._has_offsets
        second = self.is_second_generation
        if not is_empty or (second and self._was_failed):
            owner = self._identity.sequences.current
            call = calls.end(self.transactional_id, owner, commit=commit, second=second)
            given = self._ask(call, deadline)
            if given.is_known:
                self._identity.sequences.take(given)
        if self._was_failed and not second:
            self._raise_epoch(deadline)
        self._become(State.IDLE)

    def _raise_epoch(self, deadline: Deadline) -> None:
        """Start anew after a failure: batches that are still under way must not count."""
        current = self._identity.sequences.current
        call = init_producer_id(self.transactional_id, current, self._timeout_ms)
        self._identity.sequences.take(self._ask(call, deadline))

    def _ask(self, call: calls.IdCall, deadline: Deadline) -> calls.ProducerId:
        try:
            return self._router.ask(self._coordinator, call, deadline, lane="transaction")
        except KafkaError as error:
            if _is_fatal(error):
                with self._lock:
                    self.state, self._cause = State.LOST, error
            raise

    def _become(self, state: State) -> None:
        with self._lock:
            if self.state is not State.LOST:
                self.state, self._cause = state, None
            self._added.clear()
            self._wanted.clear()
            self._has_offsets = False
            self._is_committing = None

    def _refusal(self, rule: str) -> KafkaError:
        cause = f": {self._cause}" if self._cause is not None else ""
        if self.state is State.LOST:
            advice = "close this producer, and make a new one"
            return TransactionLost(f"the producer is lost; {advice}{cause}", cause=self._cause)
        if self.state is State.FAILED:
            return TransactionFailed(
                f"the transaction can only be aborted: call abort_transaction{cause}",
                cause=self._cause,
            )
        return TransactionFailed(f"{rule}; this producer is {self.state.value}")


def _is_fatal(error: KafkaError) -> bool:
    if isinstance(error, (ProducerFenced, UnsupportedVersion)):
        # An old epoch in an answer to Produce is only reason to abort (KIP-588).
        return getattr(error, "code", 0) != 47
    if isinstance(error, NotAuthorized):
        return error.code == 53
    return isinstance(error, BrokerError) and error.code in (_INVALID_MAPPING, _INVALID_STATE)
