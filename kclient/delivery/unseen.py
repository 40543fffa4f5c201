"""Failures that nobody has looked at: ``flush`` and ``close`` tell of them."""

from __future__ import annotations

import threading

from kclient.delivery.batch import Batch
from kclient.delivery.bulk import Failure, delivery_error


class Unseen:
    """Batches that failed with records of ``submit``, until somebody was told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the one below
        self._batches: dict[Batch, None] = {}

    def note(self, batch: Batch) -> None:
        """Keep a batch that failed, if a future stands for any of its records."""
        if batch.submitted:
            with self._lock:
                self._batches[batch] = None

    def clear(self) -> None:
        """Forget them: something else tells that they failed."""
        with self._lock:
            self._batches.clear()

    def tell(self) -> None:
        """Raise DeliveryError if there are failures whose futures nobody has looked at."""
        with self._lock:
            batches, self._batches = self._batches, {}
        failures = [
            Failure(*batch.tp, count, batch.error)
            for batch in batches
            if batch.error is not None
            and (count := min(batch.failed(), batch.submitted) - batch.observed) > 0
        ]
        if failures:
            raise delivery_error(failures)
