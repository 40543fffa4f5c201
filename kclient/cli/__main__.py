"""The program ``kclient``: one subcommand for each thing to do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kclient.cli import doctor, pipeline
from kclient.errors import ConfigError
from kclient.version import __version__

BAD_USAGE = 2
"""The exit code for wrong arguments or options, as argparse has it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code is 0 if all went well, 1 if not, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="kclient", description="A Kafka client.")
    parser.add_argument("--version", action="version", version=f"kclient {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    doctor.add_to(commands)
    pipeline.add_to(commands)
    given = parser.parse_args(arguments)
    try:
        code: int = given.run(given)
    except ConfigError as error:
        sys.stderr.write(f"kclient: {error}\n")
        return BAD_USAGE
    return code


if __name__ == "__main__":
    sys.exit(main())
