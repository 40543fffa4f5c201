"""``kclient pipeline run job.toml``: a declared Spark job on this machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from kclient.errors import ConfigError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Declare the command and its arguments."""
    about = "run a declared Spark job: topics in, SQL or a function, sinks out"
    parser = commands.add_parser("pipeline", help=about, description=about)
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    runner = actions.add_parser("run", help="run it until it ends, or for ever")
    runner.add_argument("file", help="a TOML file")
    runner.add_argument(
        "--master", default="local[*]", help="Spark's master (default: %(default)s)"
    )
    runner.add_argument("--json", action="store_true", help="only the metrics, at the end")
    runner.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the pipeline; 0 when it ends well. Raises ConfigError for a wrong file."""
    try:
        from pyspark.sql import SparkSession

        from kclient.spark import pipeline as pipelines
    except ImportError as error:
        raise ConfigError(
            f"a pipeline needs Spark: pip install 'kclient[spark]' ({error})"
        ) from None
    job = pipelines.read_pipeline(given.file)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(given.master).appName(job.name).getOrCreate()
    say = (lambda line: None) if given.json else (lambda line: print(line, flush=True))  # noqa: T201
    try:
        found = pipelines.run(job, spark, say=say)
    finally:
        spark.stop()
    if given.json:
        sys.stdout.write(f"{json.dumps(found)}\n")
    return 0
