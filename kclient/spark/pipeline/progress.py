"""What a pipeline says of itself: a line for each batch, a file, and a chart; no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 60


@dataclass(frozen=True)
class BatchProgress:
    """One micro-batch of one sink's query, from Spark's own progress event.

    ``lag`` is how many offsets were left unread; ``rows_out`` is -1 where the sink does not
    say; seconds are how long the batch took.
    """

    sink: str
    batch_id: int
    at: str
    rows_in: int
    rows_out: int
    lag: int
    seconds: float

    @property
    def line(self) -> str:
        """For the terminal."""
        out = "?" if self.rows_out < 0 else str(self.rows_out)
        return (
            f"{self.sink:24} batch {self.batch_id:5}  in {self.rows_in:9}  out {out:>9}  "
            f"lag {self.lag:9}  {self.seconds:7.2f} s"
        )


def read_progress(sink: str, event: Mapping[str, Any]) -> BatchProgress:
    """The progress that one of Spark's events tells."""
    return BatchProgress(
        sink=sink,
        batch_id=event["batchId"],
        at=str(event["timestamp"]),
        rows_in=event["numInputRows"],
        rows_out=event.get("sink", {}).get("numOutputRows", -1),
        lag=sum(_lag(source) for source in event["sources"]),
        seconds=event.get("batchDuration", 0) / 1000,
    )


def _lag(source: Mapping[str, Any]) -> int:
    latest, read = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    return sum(max(0, end - read.get(place, 0)) for place, end in latest.items())


def _offsets(told: Any) -> dict[tuple[str, str], int]:
    found = json.loads(told) if isinstance(told, str) else told
    if not isinstance(found, Mapping):
        return {}
    return {
        (topic, number): offset
        for topic, numbers in found.items()
        for number, offset in numbers.items()
    }


def metrics(name: str, batches: Sequence[BatchProgress]) -> dict[str, Any]:
    """Totals by sink, and every batch."""
    sinks = {}
    for sink in dict.fromkeys(batch.sink for batch in batches):
        some = [batch for batch in batches if batch.sink == sink]
        seconds = sum(batch.seconds for batch in some)
        rows = sum(batch.rows_in for batch in some)
        sinks[sink] = {
            "batches": len(some),
            "rows_in": rows,
            "rows_out": sum(max(0, batch.rows_out) for batch in some),
            "seconds": round(seconds, 3),
            "rows_per_second": round(rows / seconds, 1) if seconds else 0.0,
            "lag": some[-1].lag,
        }
    return {"pipeline": name, "sinks": sinks, "batches": [asdict(batch) for batch in batches]}


def chart(batches: Sequence[BatchProgress]) -> str:
    """Throughput and lag of each sink over its last batches, a line each."""
    lines = []
    for sink in dict.fromkeys(batch.sink for batch in batches):
        some = [batch for batch in batches if batch.sink == sink][-_WIDTH:]
        rates = [batch.rows_in / batch.seconds if batch.seconds else 0.0 for batch in some]
        lags = [float(batch.lag) for batch in some]
        lines.append(f"{sink}: rows/s {_bars(rates)} up to {max(rates):.0f}")
        lines.append(f"{' ' * len(sink)}  lag    {_bars(lags)} up to {max(lags):.0f}")
    return "\n".join(lines)


def _bars(values: Sequence[float]) -> str:
    top = max(values) or 1.0
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] for value in values)
