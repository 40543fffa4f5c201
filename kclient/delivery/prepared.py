"""Transactions that one process writes and another ends (as in two-phase commit).

Whoever knows a transaction's id, producer id and epoch may end it, so a worker can write and
leave, and a driver commit when all workers are done. Until then the broker holds it back from
read-committed readers, and aborts it when the writer's ``transaction_timeout_ms`` is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from kclient.cluster import Coordinator, Metadata, Router
from kclient.cluster.target import CoordinatorKind
from kclient.config import AdminKeywords, AdminOptions, resolve
from kclient.deadline import Deadline
from kclient.delivery import transaction_calls as calls
from kclient.delivery.sequences import ProducerId
from kclient.net.pool import Pool

if TYPE_CHECKING:
    from typing_extensions import Unpack


class PreparedTransaction(NamedTuple):
    """A transaction that waits for its end. It pickles."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_second_generation: bool
    """Whether it was written by the rules of KIP-890, by which it has to end too."""


class PreparedTransactions:
    """Ends transactions that others prepared. For one thread at a time.

    Options are those of every client; raises ConfigError for wrong ones.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str], **options: Unpack[AdminKeywords]
    ) -> None:
        given = {**options, "bootstrap_servers": bootstrap_servers}
        self._options = resolve(AdminOptions, given)
        self._pool = Pool(self._options)
        metadata = Metadata(self._options, self._pool)
        self._router = Router(self._options, self._pool, metadata)

    def commit(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Let everybody see what was written. May be repeated.

        ``timeout`` is in seconds. Raises ProducerFenced if somebody else has taken the id
        over, or the transaction's own timeout was over: then it is aborted; KafkaTimeout:
        the outcome is open, and the call may be repeated.
        """
        self._end(prepared, timeout, commit=True)

    def abort(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Let nobody see what was written. May be repeated. Raises as ``commit``."""
        self._end(prepared, timeout, commit=False)

    def _end(self, prepared: PreparedTransaction, timeout: float | None, *, commit: bool) -> None:
        name, producer_id, epoch, second = prepared
        seconds = self._options["default_api_timeout_ms"] / 1000 if timeout is None else timeout
        call = calls.end(name, ProducerId(producer_id, epoch), commit=commit, second=second)
        target = Coordinator(CoordinatorKind.TRANSACTION, name)
        self._router.ask(target, call, Deadline(seconds), lane="transaction")

    def close(self) -> None:
        """Close all connections. May be called again."""
        self._pool.close()

    def __enter__(self) -> PreparedTransactions:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
