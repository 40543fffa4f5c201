"""Transactions: the states a producer goes through, and the requests between them.

Two generations of the protocol. In the first, each partition and group is added to the
transaction before it is written to, and the epoch changes only after an error. In the second
(KIP-890; where the cluster's ``transaction.version`` is 2) writing adds, and every end of a
transaction raises the epoch, so that nothing late can slip into the next one.

    NEW -init-> IDLE -begin-> OPEN -commit-> COMMITTING -> IDLE
    OPEN, FAILED -abort-> ABORTING -> IDLE
    OPEN, COMMITTING -a batch or an offset fails-> FAILED
    any -fenced, not authorized-> LOST

COMMITTING can still turn to ABORTING until the coordinator has been asked to commit; from
then on only its answer tells how the transaction ended, and asking again is all one can do.
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
from kclient.delivery.batch import Batch
from kclient.delivery.identity import Identity, init_producer_id
from kclient.delivery.prepared import PreparedTransaction
from kclient.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeout,
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
_OLD_EPOCH, _INVALID_STATE, _INVALID_MAPPING, _ID_NOT_AUTHORIZED = 47, 48, 49, 53
_FEATURE = "transaction.version"


class State(Enum):
    """Where a transactional producer stands; see the module."""

    NEW = "not initialized"
    IDLE = "between transactions"
    OPEN = "in a transaction"
    FAILED = "in a transaction that can only be aborted"
    COMMITTING = "committing a transaction: call commit_transaction again to learn how it ended"
    ABORTING = "aborting a transaction: call abort_transaction again to complete that"
    LOST = "lost"


class Transaction:
    """The transactions of one producer, one after the other.

    ``_changed`` guards the fields; requests to the coordinator are made outside of it. The
    end waits until no partition is being added: one that is added later would begin another
    transaction.
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
        self.is_second_generation = False
        """Whether writing adds partitions by itself (KIP-890); it stays during a transaction."""
        self._timeout_ms = timeout_ms
        self._router = router
        self._pool = pool
        self._identity = identity
        self._changed = threading.Condition(threading.Lock())
        self._cause: KafkaError | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._is_adding = False
        self._has_offsets = False
        self._was_asked_to_end = False
        self._needs_epoch = False
        """Whether something of this epoch may still be under way, or is missing in its rows."""
        self._coordinator = Coordinator(CoordinatorKind.TRANSACTION, transactional_id)

    @property
    def is_new(self) -> bool:
        """Whether ``init`` has not been done."""
        return self.state is State.NEW

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction that can still be aborted."""
        with self._changed:
            return self._may_end(commit=False)

    # --- what the engine asks ---

    @property
    def refusal(self) -> KafkaError | None:
        """Why nothing that waits may be sent: the transaction failed, or is given up."""
        if self.state in (State.OPEN, State.COMMITTING, State.IDLE, State.NEW):
            return None
        return self._refusal("the transaction is being aborted")

    def admits(self, tp: TopicPartition) -> bool:
        """Whether a partition may be written to; if not yet, it is to be added."""
        with self._changed:
            if tp in self._added:
                return True
            if self.is_second_generation:
                self._added.add(tp)
                return True
            self._wanted.add(tp)
        return False

    def run_errands(self, tasks: Tasks) -> None:
        """Add the partitions that wait for it."""
        if self._wanted and self.state in (State.OPEN, State.COMMITTING):
            tasks.start(_ADD, self._add_wanted)

    def note_task(self, key: Hashable, result: object) -> None:
        """An errand has ended; a failed one fails the transaction."""
        if key == _ADD and isinstance(result, KafkaError):
            self._note(result, is_fatal=_is_fatal(result))

    def note_failure(self, error: KafkaError, batch: Batch) -> None:
        """A batch failed: the transaction can only be aborted, or all is lost."""
        with self._changed:
            self._needs_epoch = self._needs_epoch or batch.has_sequence
        # An old epoch in an answer to Produce is only reason to abort (KIP-588), and so is a
        # transaction that the broker has aborted meanwhile.
        code = getattr(error, "code", 0)
        self._note(error, is_fatal=code not in (_OLD_EPOCH, _INVALID_STATE) and _is_fatal(error))

    def _note(self, error: KafkaError, *, is_fatal: bool) -> None:
        with self._changed:
            if is_fatal:
                self.state, self._cause = State.LOST, error
            elif self.state in (State.OPEN, State.COMMITTING) and not self._was_asked_to_end:
                self.state, self._cause = State.FAILED, error

    def _add_wanted(self) -> None:
        with self._changed:
            wanted = self._wanted - self._added
            is_over = self.state not in (State.OPEN, State.COMMITTING) or self._was_asked_to_end
            if not wanted or is_over:
                return
            self._is_adding = True
        try:
            owner = self._identity.sequences.current
            call = calls.add_partitions(self.transactional_id, owner, wanted)
            seconds = self._timeout_ms / 1000
            self._router.ask(self._coordinator, call, Deadline(seconds), lane="transaction")
            with self._changed:
                self._added |= wanted
                self._wanted -= wanted
        finally:
            with self._changed:
                self._is_adding = False
                self._changed.notify_all()

    # --- what the user asks ---

    def check_open(self) -> None:
        """Raise unless records may be sent now."""
        if self.state is not State.OPEN:
            raise self._refusal("records are sent between begin_transaction and its end")

    def init(self, deadline: Deadline) -> None:
        """Get the id and epoch; whoever had the transactional id before is fenced.

        Raises NotAuthorized, UnsupportedVersion (Kafka before 0.11), KafkaTimeout.
        """
        if self.state not in (State.NEW, State.IDLE):
            raise self._refusal("a producer is initialized between transactions")
        call = init_producer_id(self.transactional_id, calls.NOBODY, self._timeout_ms)
        given = self._ask(call, deadline)
        self._identity.sequences.take(given)
        self._end_state()

    def begin(self) -> None:
        """Open a transaction. Raises TransactionFailed or TransactionLost in a wrong state."""
        with self._changed:
            if self.state is not State.IDLE:
                raise self._refusal("a transaction can only begin when none is open")
            self.is_second_generation = self._pool.features.get(_FEATURE, 0) >= 2
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
            with self._changed:
                self._has_offsets = True
            commit = calls.commit_offsets(
                self.transactional_id, owner, group, offsets, implicit=self.is_second_generation
            )
            target = Coordinator(CoordinatorKind.GROUP, group.group_id)
            self._router.ask(target, commit, deadline, lane="transaction")
        except KafkaError as error:
            self._note(error, is_fatal=_is_fatal(error))
            raise

    def prepared(self) -> PreparedTransaction:
        """What another process needs to end the open transaction. Raises if it has failed."""
        self.check_open()
        owner = self._identity.sequences.current
        return PreparedTransaction(
            self.transactional_id, owner.number, owner.epoch, self.is_second_generation
        )

    def start_end(self, *, commit: bool) -> None:
        """Let no more records in. Raises if the transaction cannot end this way."""
        with self._changed:
            if not self._may_end(commit=commit):
                raise self._refusal(f"there is nothing to {'commit' if commit else 'abort'}")
            if self.state is State.FAILED:
                self._needs_epoch = True
            self.state = State.COMMITTING if commit else State.ABORTING

    def _may_end(self, *, commit: bool) -> bool:
        if commit:
            return self.state in (State.OPEN, State.COMMITTING)
        if self.state is State.COMMITTING:
            return not self._was_asked_to_end
        return self.state in (State.OPEN, State.FAILED, State.ABORTING)

    def end(self, deadline: Deadline, *, commit: bool) -> None:
        """Commit or abort what was written. After KafkaTimeout the same may be tried again."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_adding, deadline.left()):
                raise KafkaTimeout(
                    f"transactional id {self.transactional_id!r}: the transaction could not be "
                    f"ended within {deadline.seconds:g} s: partitions are still being added to it"
                )
            if self.state is not (State.COMMITTING if commit else State.ABORTING):
                raise self._refusal("the transaction failed while its last records were sent")
            is_empty = not self._added and not self._has_offsets
            second, needs_epoch = self.is_second_generation, self._needs_epoch
            self._was_asked_to_end = True
        if not is_empty or (second and needs_epoch):
            owner = self._identity.sequences.current
            call = calls.end(self.transactional_id, owner, commit=commit, second=second)
            given = self._ask(call, deadline)
            if given.is_known:
                self._identity.sequences.take(given)
        if needs_epoch and not second:
            self._raise_epoch(deadline)
        self._end_state()

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
                with self._changed:
                    self.state, self._cause = State.LOST, error
            raise

    def _end_state(self) -> None:
        with self._changed:
            if self.state is not State.LOST:
                self.state, self._cause = State.IDLE, None
            self._added.clear()
            self._wanted.clear()
            self._has_offsets = self._was_asked_to_end = self._needs_epoch = False

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
    """Whether a coordinator's answer means the end of this producer."""
    if isinstance(error, NotAuthorized):
        return error.code == _ID_NOT_AUTHORIZED
    if isinstance(error, (ProducerFenced, UnsupportedVersion)):
        return True
    return isinstance(error, BrokerError) and error.code in (_INVALID_MAPPING, _INVALID_STATE)
