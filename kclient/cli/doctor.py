"""``kclient doctor``: what works and what does not between here and a cluster."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kclient.cluster.diagnosis import DEFAULT_SECONDS, Diagnosis, Outcome, Step, diagnose
from kclient.config import (
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    declared,
    from_properties,
)
from kclient.errors import ConfigError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_HEADERS = ("", "step", "with", "ms", "what was found")
_WIDTH = 100
_STYLES = {Outcome.OK: "green", Outcome.FAILED: "bold red", Outcome.SKIPPED: "dim"}


class _AnyOptions(ProducerOptions, ConsumerOptions, total=False):
    """Whatever a properties file may hold: it is often that of a producer or consumer."""


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    about = "walk every step to a cluster: DNS, TCP, TLS, versions, login, brokers, coordinator"
    parser = commands.add_parser("doctor", help=about, description=about)
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT,...")
    parser.add_argument("--properties", metavar="FILE", help="a Java or librdkafka client's file")
    parser.add_argument(
        "-X",
        dest="given",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option by its dotted name, as -X security.protocol=SSL",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help="for each step (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Diagnose and print; 0 if no step failed, else 1. Raises ConfigError."""
    options = _options(given)
    servers = options.pop("bootstrap_servers", None)
    if not servers:
        raise ConfigError("say where the cluster is: --bootstrap-servers host:9092")
    found = diagnose(servers, timeout=given.timeout, **options)
    if given.json:
        sys.stdout.write(_as_json(found))
    elif not (sys.stdout.isatty() and _print_rich(found)):
        sys.stdout.write(_as_text(found))
    return 0 if found.is_healthy else 1


def _options(given: argparse.Namespace) -> dict[str, Any]:
    """Options of the file, then of ``-X``, then of the arguments; later ones win."""
    pairs = dict(pair.partition("=")[::2] for pair in given.given)
    found: dict[str, Any] = {}
    if given.properties:
        found |= from_properties(_AnyOptions, given.properties)
    found |= from_properties(_AnyOptions, pairs)
    if given.bootstrap_servers:
        found["bootstrap_servers"] = given.bootstrap_servers
    return {name: value for name, value in found.items() if name in declared(ClientOptions)}


def _verdict(found: Diagnosis) -> str:
    if found.is_healthy:
        return "All is well."
    count = len(found.failures)
    return f"{count} step{'s' if count > 1 else ''} failed."


def _as_json(found: Diagnosis) -> str:
    return json.dumps({"healthy": found.is_healthy, **asdict(found)}, indent=2) + "\n"


def _cells(step: Step) -> tuple[str, str, str, str, str]:
    took = "" if step.outcome is Outcome.SKIPPED else f"{step.milliseconds:.1f}"
    return step.outcome.value, step.stage.value, step.target, took, step.detail


def _as_text(found: Diagnosis) -> str:
    rows = [_HEADERS, *map(_cells, found.steps)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for row, step in zip(rows, (None, *found.steps), strict=True):
        start = "  ".join(
            cell.rjust(width) if column == 3 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row[:4], widths, strict=True))
        )
        advice = [f"-> {step.advice}"] if step is not None and step.advice else []
        indent = " " * (len(start) + 2)
        for number, text in enumerate((row[4], *advice)):
            wrapped = textwrap.wrap(text, max(40, _WIDTH - len(indent))) or [""]
            for count, line in enumerate(wrapped):
                lead = f"{start}  " if number == count == 0 else indent
                lines.append((lead + line).rstrip())
    return "\n".join([*lines, "", _verdict(found), ""])


def _print_rich(found: Diagnosis) -> bool:
    """A table in colours, if the package for it is here (extra ``cli``)."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(*_HEADERS)
    for step in found.steps:
        outcome, stage, target, took, detail = map(Text, _cells(step))
        outcome.stylize(_STYLES[step.outcome])
        took.justify = "right"
        if step.advice:
            detail.append(f"\n{step.advice}", style="yellow")
        table.add_row(outcome, stage, target, took, detail)
    console = Console()
    console.print(table)
    console.print(_verdict(found), style="green" if found.is_healthy else "bold red")
    return True
