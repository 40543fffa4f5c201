"""The checked-in messages are what the generator writes today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_generated_files_are_reproducible() -> None:
    spec = importlib.util.spec_from_file_location("gen", ROOT / "tools/gen_messages.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    for path, text in generator.generate().items():
        assert (ROOT / path).read_text() == text, f"{path}: run make messages"
