"""``kclient doctor`` in this process: what it prints, with and without the package for tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kclient.cli.__main__ import main
from kclient.cluster.diagnosis import Outcome, Stage, diagnose
from kclient.testing import FakeCluster
from kclient.testing.fake import error_code


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as running:
        yield running


def doctor(*arguments: str) -> int:
    return main(["doctor", *arguments])


def test_a_table_of_plain_text(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("--bootstrap-servers", f"{cluster.address(1)},nowhere.invalid") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["step", "with", "ms", "what", "was", "found"]
    assert [line.split()[:2] for line in lines if line.startswith("failed")] == [["failed", "DNS"]]
    assert any("-> try `getent hosts nowhere.invalid`" in line for line in lines)
    assert lines[-1] == "1 step failed."
    assert max(map(len, lines)) <= 100


def test_json_for_scripts(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("--bootstrap-servers", cluster.address(1), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["healthy"] is True
    assert [step["stage"] for step in found["steps"]][-4:] == [
        *("Metadata", "Listener", "Listener", "Coordinator")
    ]
    assert {"stage", "target", "outcome", "milliseconds", "detail", "advice"} == set(
        found["steps"][0]
    )


@pytest.mark.parametrize("has_rich", [True, False])
def test_on_a_terminal(
    cluster: FakeCluster,
    has_rich: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    assert doctor("--bootstrap-servers", cluster.address(1)) == 0
    shown = capsys.readouterr().out
    assert ("\u2503" in shown) == has_rich
    for part in ("ApiVersions", "APIs; Metadata in v13", "All is well."):
        assert part in shown


def test_options_of_the_file_then_x_then_arguments(
    cluster: FakeCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=nowhere.invalid:1\nlinger.ms=5\nclient.id=from-the-file\n")
    assert doctor("--properties", str(file), "-X", f"bootstrap.servers={cluster.address(1)}") == 0
    assert {seen.client_id for seen in cluster.requests()} == {"from-the-file"}
    assert doctor("--properties", str(file), "--bootstrap-servers", cluster.address(2)) == 0
    capsys.readouterr()


def test_a_login_that_is_refused_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster(sasl={"alice": "right"}) as cluster:
        arguments = ["--bootstrap-servers", cluster.address(1)]
        for pair in ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"):
            arguments += ["-X", pair]
        arguments += ["-X", "sasl.username=alice", "-X", "sasl.password=Sw0rdfish"]
        assert doctor(*arguments) == 1
        assert doctor(*arguments, "--json") == 1
        shown = capsys.readouterr()
        assert "Sw0rdfish" not in shown.out + shown.err
        assert "SASL" in shown.out
        assert doctor(*arguments[:-1], "sasl.password=right") == 0
        assert "logged in by PLAIN" in capsys.readouterr().out


def test_wrong_options_are_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("--bootstrap-servers", "x", "-X", "sasl.mechanism=NONE") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("kclient: sasl_mechanism must be one of 'PLAIN'")


def test_the_steps_as_values(cluster: FakeCluster) -> None:
    cluster.on("FindCoordinator", error_code(30), times=None)
    found = diagnose([cluster.address(1), cluster.address(2)])
    assert not found.is_healthy
    (failed,) = found.failures
    assert (failed.stage, failed.outcome) == (Stage.COORDINATOR, Outcome.FAILED)
    assert "GROUP_AUTHORIZATION_FAILED" in failed.detail
    assert "__consumer_offsets" in failed.advice
    assert all(step.milliseconds >= 0 for step in found.steps)
