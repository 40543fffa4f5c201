"""A growing piece of Python source, and the constants that it refers to."""

from __future__ import annotations

import struct
from typing import Any

FORMATS = {
    "i8": "b",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "i64": "q",
    "f64": "d",
    "bool": "?",
    "uuid": "16s",
}
"""`struct` formats of the kinds whose size does not depend on their value."""


class Source:
    """Lines with indentation, plus the namespace they will run in."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = dict(names)
        self.depth = 1
        self._lines: list[str] = []
        self._fresh = 0

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self._lines.append("    " * self.depth + text)

    def variable(self, stem: str) -> str:
        """A local name nobody else has."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for ``value`` in the namespace, the same for the same value."""
        name = stem
        number = 0
        while name in self.names and self.names[name] is not value:
            number += 1
            name = f"{stem}_{number}"
        self.names[name] = value
        return name

    def packing(self, formats: str) -> tuple[str, struct.Struct]:
        """A `struct.Struct` for big-endian ``formats`` and the stem of its names."""
        return formats.replace("?", "t").replace("16s", "u"), struct.Struct(">" + formats)

    def text(self, head: str) -> str:
        """The whole function."""
        return "\n".join([head, *self._lines, ""])
