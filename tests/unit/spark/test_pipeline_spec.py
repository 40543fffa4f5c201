from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kclient.errors import ConfigError
from kclient.spark.pipeline.progress import chart, metrics, read_progress
from kclient.spark.pipeline.spec import Pipeline, Watermark, make_pipeline, read_pipeline

EXAMPLE = Path(__file__).parents[3] / "examples" / "revenue.toml"
LEAST: dict[str, Any] = {
    "name": "n",
    "checkpoint": "c",
    "source": {"topics": ["t"], "bootstrap_servers": "a:1"},
    "sink": [{"type": "console"}],
}


def made(**changes: Any) -> Pipeline:
    return make_pipeline({**LEAST, **changes})


def test_the_example() -> None:
    job = read_pipeline(EXAMPLE)
    assert job.transform.watermark == Watermark("at", "2 minutes")
    assert [sink.name for sink in job.sinks] == ["kafka-revenue", "parquet-parquet"]
    assert job.sinks[0].delivery == "exactly-once"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tigger": "x"}, "did you mean 'trigger'"),
        ({"source": {"topics": ["t"]}}, "source lacks the entry 'bootstrap_servers'"),
        ({"source": "orders"}, "source is a table"),
        ({"sink": []}, "needs a [[sink]]"),
        ({"sink": {"type": "console"}}, "write [[sink]]"),
        ({"sink": [{"type": "csv"}]}, "one of kafka, parquet, console"),
        ({"sink": [{"type": "kafka"}]}, "needs a topic"),
        ({"sink": [{"type": "parquet"}]}, "needs a path"),
        ({"sink": [{"type": "console"}, {"type": "console"}]}, "must differ"),
        ({"transform": {"sql": "select 1", "python": "a:b"}}, "not both"),
        ({"transform": {"deduplicate": ["id"]}}, "needs a watermark"),
        ({"transform": {"watermark": {"column": "at"}}}, "lacks the entry 'delay'"),
        ({"dead_letter": "bad"}, "`fields`, which is missing"),
    ],
)
def test_what_is_wrong_is_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(**changes)
    assert said in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_pipeline(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(ConfigError, match="no TOML"):
        read_pipeline(tmp_path / "bad.toml")


def event(batch: int, rows: int, end: int, latest: int) -> dict[str, Any]:
    return {
        "batchId": batch,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "numInputRows": rows,
        "batchDuration": 500,
        "sources": [
            {
                "endOffset": {"t": {"0": end, "1": 5}},
                "latestOffset": f'{{"t": {{"0": {latest}, "1": 5}}}}',
            }
        ],
        "sink": {"numOutputRows": rows - 1},
    }


def test_progress_from_sparks_events() -> None:
    batches = [
        read_progress("out", event(0, 10, 10, 40)),
        read_progress("out", event(1, 30, 40, 40)),
    ]
    assert [batch.lag for batch in batches] == [30, 0]
    assert batches[0].seconds == 0.5
    assert "lag        30" in batches[0].line
    found = metrics("n", batches)
    assert found["sinks"]["out"] == {
        "batches": 2,
        "rows_in": 40,
        "rows_out": 38,
        "seconds": 1.0,
        "rows_per_second": 40.0,
        "lag": 0,
    }
    assert chart(batches).splitlines() == ["out: rows/s ▃█ up to 60", "     lag    █  up to 30"]
