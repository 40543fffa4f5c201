"""What ``submit`` returns: a Future that costs next to nothing until somebody looks at it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kclient.errors import KafkaError
from kclient.types import RecordMetadata

if TYPE_CHECKING:
    from kclient.delivery.batch import Batch

_log = logging.getLogger(__name__)


class SendFuture(Future[RecordMetadata]):
    """The outcome of one record; a ``concurrent.futures.Future`` in every respect.

    An ordinary Future has a lock and lists of its own, which would cost more than encoding
    the record. This one keeps its batch and its place in it; the state that the inherited
    methods look at is the batch's, and so is the lock.
    """

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        # Future.__init__ is not called: each field it would set is a property here.
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    if not TYPE_CHECKING:  # the names and types of these are Future's own affair

        @property
        def _condition(self) -> Any:
            return self._batch.condition

        @property
        def _state(self) -> str:
            return "FINISHED" if self._batch.is_done else "RUNNING"

        @property
        def _result(self) -> RecordMetadata | None:
            outcome = self._batch.outcome(self._index, self._timestamp)
            return None if isinstance(outcome, KafkaError) else outcome

        @property
        def _exception(self) -> KafkaError | None:
            outcome = self._batch.outcome(self._index, self._timestamp)
            if not isinstance(outcome, KafkaError):
                return None
            self._batch.observed += 1
            return outcome

        @property
        def _waiters(self) -> list[Any]:
            return self._lasting("waiters")

        @property
        def _done_callbacks(self) -> list[Callable[[Any], object]]:
            return self._lasting("callbacks")

    def _lasting(self, name: str) -> list[Any]:
        """A list that is made at first use, and then the batch knows of this future."""
        lists: dict[str, list[Any]] = self.__dict__.setdefault("_lists", {})
        if not lists and not self._batch.is_done:
            self._batch.interested.append(self)
        return lists.setdefault(name, [])

    def cancel(self) -> bool:
        """A record cannot be called back: always False."""
        return False

    def tell(self) -> None:
        """Wake those who wait in ``concurrent.futures.wait``, and run callbacks."""
        with self._condition:
            for waiter in self._waiters:
                if self._batch.outcome(self._index, self._timestamp).__class__ is RecordMetadata:
                    waiter.add_result(self)
                else:
                    waiter.add_exception(self)
        for callback in self._lasting("callbacks"):
            _run(callback, self)


def _run(callback: Callable[[SendFuture], object], future: SendFuture) -> None:
    """Run a callback; what it raises is logged, as every Future does."""
    try:
        callback(future)
    except Exception:
        _log.exception("a callback of %r failed", future)
