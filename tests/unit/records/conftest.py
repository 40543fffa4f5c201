from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def every_twin(twin: str) -> None:
    """Run all tests of this folder on every implementation."""
