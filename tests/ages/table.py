"""The compatibility table of the README: written from what a run saw, read by a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN = "<!-- written by make test-ages: begin -->"
END = "<!-- written by make test-ages: end -->"
YES, NO = "yes", "-"
_CELLS = {YES: True, NO: False}

Rows = Mapping[str, Mapping[str, bool]]
"""By version of Kafka: which abilities were seen to work there."""


def render(rows: Rows) -> str:
    """A column for each Kafka, a line for each ability."""
    versions = list(rows)
    titles = list(next(iter(rows.values())))
    lines = [["Kafka", *versions], ["---"] * (len(versions) + 1)]
    lines += [
        [title, *(YES if rows[version][title] else NO for version in versions)] for title in titles
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def parse(text: str) -> Rows:
    """What a rendered table says. Raises KeyError for a cell that is neither yes nor no."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    head, _, *body = lines
    return {
        version: {line[0]: _CELLS[line[column]] for line in body}
        for column, version in enumerate(head[1:], 1)
    }


def block(text: str) -> str:
    """What is between the markers, which are there once, in this order."""
    before, begin, rest = text.partition(BEGIN + "\n\n")
    inside, end, after = rest.partition("\n" + END)
    assert begin, f"README.md has no {BEGIN}"
    assert end, f"README.md has no {END}"
    assert BEGIN not in before + after
    return inside


def rewrite(path: Path, rows: Rows) -> None:
    """Put the table in the place of the one that is there."""
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(block(text), render(rows)), encoding="utf-8")


def is_whole(rows: Rows, versions: Sequence[str], titles: Sequence[str]) -> bool:
    """Whether every ability was tried on every Kafka: only such a run is worth writing down."""
    return list(rows) == list(versions) and all(list(row) == list(titles) for row in rows.values())
