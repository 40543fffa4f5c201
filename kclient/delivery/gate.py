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
        self.needs_look = transaction is not None
        """Whether ``check_sending`` has anything to say: asked for every record."""
        sender.on_death = self._look
        self._pool = pool
        self._sender = sender
        self._transaction = transaction

    def close(self) -> None:
        """Let nobody in any more."""
        self.is_closed = self.needs_look = True

    def note_fork(self) -> None:
        """Only a child of the process that made the producer calls this."""
        self.is_forked = self.needs_look = True

    def _look(self) -> None:
        self.needs_look = True

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
        self.check()
        if self._transaction is not None:
            self._transaction.check_open()
