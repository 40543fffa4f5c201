"""Emptying a producer: at a flush, at the end of a transaction, at its own end."""

from __future__ import annotations

import contextlib
from collections import deque

from kclient.deadline import Deadline
from kclient.delivery.accumulator import Accumulator
from kclient.delivery.batch import Batch
from kclient.delivery.carrier import Carrier
from kclient.delivery.engine import Engine
from kclient.delivery.sender import Sender
from kclient.errors import ClientClosedError, KafkaTimeout
from kclient.net.pool import Pool

HASTE_SECONDS = 10.0
"""How long things may take that should be over at once."""


class Drain:
    """Waits until what was taken has an outcome, or gives it one."""

    def __init__(
        self,
        pool: Pool,
        accumulator: Accumulator,
        engine: Engine,
        carrier: Carrier,
        sender: Sender,
    ) -> None:
        self.is_closed = False
        self._pool = pool
        self._accumulator = accumulator
        self._engine = engine
        self._carrier = carrier
        self._sender = sender

    def wait(self, batch: Batch, deadline: Deadline, what: str) -> None:
        """Wait until a batch has an outcome. Raises KafkaTimeout, saying what is in its way."""
        try:
            self._carrier.until(lambda: batch.is_done, deadline, what)
        except KafkaTimeout as error:
            raise self._explained(error, batch) from None

    def flush(self, deadline: Deadline) -> None:
        """Send everything that is queued, and wait for its outcome. Raises KafkaTimeout."""
        with self._accumulator.lock:
            waiting = deque(self._accumulator.close_all())

        def is_done() -> bool:
            while waiting and waiting[0].is_done:
                waiting.popleft()
            return not waiting

        try:
            self._carrier.until(is_done, deadline, "flushing")
        except KafkaTimeout as error:
            raise self._explained(error, waiting[0]) from None

    def close(self, deadline: Deadline) -> None:
        """Flush until the deadline, give up what is left, and give everything back.

        May be called again, to complete what an interrupt left undone.
        """
        with contextlib.ExitStack() as last:  # each of it, even if an interrupt ends the flush
            last.callback(self.release)
            last.callback(lambda: self._carrier.retire(Deadline(HASTE_SECONDS)))
            last.callback(self._sender.stop, HASTE_SECONDS)
            last.callback(self._give_up)
            with contextlib.suppress(KafkaTimeout, ClientClosedError):
                self.flush(deadline)
        self.is_closed = True

    def abandon(self) -> None:
        """Give everything back, when nobody is left to close the producer."""
        self._sender.abandon(self.release)

    def release(self) -> None:
        """Close the connections; nobody may use the engine any more."""
        self._engine.close()
        self._pool.close()

    def _give_up(self) -> None:
        with self._accumulator.lock:
            self._accumulator.is_closed = True
        if not self._accumulator.unsettled:
            return
        error = ClientClosedError("the producer was closed before the record was acknowledged")
        is_done = self._engine.order(lambda: self._engine.settlement.fail_all(error))
        with contextlib.suppress(ClientClosedError):  # an earlier call got further
            self._carrier.until(is_done, Deadline(HASTE_SECONDS), "closing")

    def _explained(self, error: KafkaTimeout, batch: Batch) -> KafkaTimeout:
        text = f"{error}; {self._engine.trouble(batch)} (it is still being tried)"
        return KafkaTimeout(text, topic=batch.tp.topic, partition=batch.tp.partition)
