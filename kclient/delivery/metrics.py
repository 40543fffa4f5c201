"""What a producer counts: records, bytes, batches, answers, retries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kclient.delivery.batch import Batch

_SAMPLES = 1024


class Metrics:
    """Counters of one producer; written by the thread that carries the engine."""

    def __init__(self) -> None:
        self.records = self.batches = self.requests = self.retries = self.errors = 0
        self.raw_bytes = self.sent_bytes = self.throttle_ms = 0
        self._latencies: list[float] = []
        self._answers = 0

    def note_request(self, batches: Sequence[Batch]) -> None:
        """Count a request as it leaves."""
        self.requests += 1
        for batch in batches:
            if batch.attempts > 1:
                self.retries += 1
            self.raw_bytes += batch.size
            self.sent_bytes += len(batch.sealed())

    def note_answer(self, seconds: float, throttle_ms: int) -> None:
        """Count an answer. Of the times, a random sample is kept."""
        self._answers += 1
        self.throttle_ms += throttle_ms
        if len(self._latencies) < _SAMPLES:
            self._latencies.append(seconds)
        elif (place := int(random.random() * self._answers)) < _SAMPLES:
            self._latencies[place] = seconds

    def note_done(self, batch: Batch) -> None:
        """Count a batch that has an outcome."""
        if batch.error is not None:
            self.errors += batch.count
        else:
            self.records += batch.count
            self.batches += 1

    def snapshot(self) -> dict[str, Any]:
        """The figures so far; latencies are in ms, from request to answer."""
        times = sorted(self._latencies)

        def percentile(part: float) -> float:
            return round(times[int(part * (len(times) - 1))] * 1000, 3) if times else 0.0

        return {
            "records": self.records,
            "batches": self.batches,
            "requests": self.requests,
            "retries": self.retries,
            "errors": self.errors,
            "bytes": self.sent_bytes,
            "records_per_batch": round(self.records / self.batches, 2) if self.batches else 0.0,
            "compression_ratio": round(self.raw_bytes / max(1, self.sent_bytes), 3),
            "throttle_ms": self.throttle_ms,
            "request_latency_ms_p50": percentile(0.5),
            "request_latency_ms_p95": percentile(0.95),
            "request_latency_ms_p99": percentile(0.99),
        }
