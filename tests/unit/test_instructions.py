"""The codec executes no more instructions per record than it is allowed to."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEEN = "3.11"  # the interpreter whose instructions the bounds count


@pytest.fixture(scope="module")
def instructions() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "bench.instructions", ROOT / "bench" / "instructions.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.skipif(
    f"{sys.version_info[0]}.{sys.version_info[1]}" != SEEN, reason=f"bounds are for Python {SEEN}"
)
@pytest.mark.parametrize("case", ["c append_pairs", "c decode", "python append", "python decode"])
def test_a_record_costs_no_more_than_its_bound(
    case: str, instructions: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    bounds = json.loads(instructions.BOUNDS.read_text())
    assert instructions.per_record(case) <= bounds[case]
