"""Whether a producer may be used, and by whom."""

from __future__ import annotations

import copy

from kclient.delivery.sender import Sender
from kclient.delivery.transaction import Transaction
from kclient.errors import ClientClosedError
from kclient.net.pool import Pool


class Gate:
    """Asked at the start of every call."""

    def __init__(self, pool: Pool, sender: Sender, transaction: Transaction | None) -> None:
        self.is_closed = False
        self.is_forked = False
        """Whether this is a child of the process that made the producer."""
        self._pool = pool
        self._sender = sender
        self._transaction = transaction

    def check(self) -> None:
        """Raise ClientClosedError, ForkedClientError, or what the sender thread died of."""
        if self.is_closed:
            raise ClientClosedError("the producer is closed")
        self._pool.check_usable()
        death = self._sender.death
        if death is not None:
            raise copy.copy(death) from death.__cause__

    def check_sending(self) -> None:
        """As ``check``; raises TransactionFailed too, when records need a transaction."""
        if self.is_closed or self.is_forked or self._sender.death is not None:
            self.check()
        if self._transaction is not None:
            self._transaction.check_open()
