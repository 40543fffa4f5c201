"""``spark-submit`` of a pipeline: ``python -m kclient.spark.pipeline job.toml``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from kclient.errors import ConfigError
from kclient.spark.pipeline import read_pipeline, run


def main(arguments: Sequence[str]) -> int:
    """Run the pipeline of a file; 0 when it ends well, 2 for wrong usage."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m kclient.spark.pipeline job.toml\n")
        return 2
    try:
        pipeline = read_pipeline(arguments[0])
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    spark = SparkSession.builder.appName(pipeline.name).getOrCreate()
    try:
        run(pipeline, spark, say=lambda line: sys.stdout.write(f"{line}\n"))
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
