"""Declared streaming jobs: topics in, SQL or a function, sinks out; bad records set aside.

``kclient pipeline run job.toml`` runs one on this machine; on a cluster,
``spark-submit -m kclient.spark.pipeline job.toml`` or a script that calls ``run``.
"""

from __future__ import annotations

from kclient.spark.pipeline.job import run
from kclient.spark.pipeline.spec import Pipeline, read_pipeline

__all__ = ["Pipeline", "read_pipeline", "run"]
