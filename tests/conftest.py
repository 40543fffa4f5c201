"""The record codec has two implementations, and tests of records run on both."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings

from kclient.errors import ConfigError
from kclient.records import interface

FORCED = os.environ.get("KCLIENT_IMPL")

# The same examples each time, however slow the machine: a run that fails can be repeated.
# HYPOTHESIS_PROFILE=wander looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("wander", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_report_header() -> str:
    built = "built" if find_spec("kclient.records._compiled") else "not built"
    why = f"KCLIENT_IMPL={FORCED}" if FORCED else "KCLIENT_IMPL is not set"
    return f"kclient: records in use: {interface.active.NAME} ({why}); compiled twin: {built}"


@pytest.fixture(scope="module", params=[FORCED] if FORCED else ["python", "c"])
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the tests of a module on this implementation, and again on the other."""
    before = interface.active
    interface.active = selected(request.param)
    yield request.param
    interface.active = before


@pytest.fixture(scope="session")
def twins() -> list[interface.Implementation]:
    """Both implementations, the pure one first."""
    if FORCED:
        pytest.skip(f"KCLIENT_IMPL={FORCED} wants only one implementation")
    return [selected("python"), selected("c")]


def selected(name: str) -> interface.Implementation:
    """The twin ``name``; missing is forgiven only where it cannot be built."""
    try:
        return interface.select(name)
    except ConfigError as error:
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        if shutil.which(compiler):
            pytest.fail(f"{error}; here is one, {compiler}: pip install --editable .")
        pytest.skip(f"no C compiler ({compiler}), so no compiled twin")
