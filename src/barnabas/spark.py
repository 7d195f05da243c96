"""Spark for pipelines: `session()`, and what they do with records that can't be read."""

from barnabas.pipelines.spark.java import JavaMissing
from barnabas.pipelines.spark.session import session

__all__ = ["JavaMissing", "session"]
