"""The README's table is one that a run wrote, of all Kafkas and all abilities there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kclient.testing.releases import RELEASES

from . import table
from .abilities import ABILITIES

VERSIONS = [release.version for release in RELEASES]
TITLES = [ability.title for ability in ABILITIES]


def test_the_table_is_whole_and_says_what_is_expected_of_each_kafka() -> None:
    written = table.block(table.README.read_text(encoding="utf-8"))
    rows = table.parse(written)
    assert table.is_whole(rows, VERSIONS, TITLES)
    assert table.render(rows) == written
    assert rows == {
        release.version: {each.title: release.number >= each.since for each in ABILITIES}
        for release in RELEASES
    }


def test_a_run_replaces_the_table_and_nothing_else(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# before\n\n{table.BEGIN}\n\nold\n\n{table.END}\nafter\n", "utf-8")
    rows = {"1": {"a": True, "b": False}, "2": {"a": True, "b": True}}
    table.rewrite(readme, rows)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("# before\n")
    assert text.endswith(f"{table.END}\nafter\n")
    assert table.parse(table.block(text)) == rows


def test_a_cell_that_somebody_made_up_is_refused() -> None:
    with pytest.raises(KeyError, match="maybe"):
        table.parse("| Kafka | 1 |\n| --- | --- |\n| a | maybe |\n")


def test_a_part_is_not_written_down() -> None:
    assert not table.is_whole({"0.8.0": dict.fromkeys(TITLES, True)}, VERSIONS, TITLES)
