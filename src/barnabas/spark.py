"""Spark for pipelines: `session()`, the lag of a query, and what is done with records that can't be read."""

from barnabas.pipelines.spark.dead_letters import parse_json, set_aside
from barnabas.pipelines.spark.java import JavaMissing
from barnabas.pipelines.spark.lag import Lag, lag
from barnabas.pipelines.spark.session import session

__all__ = ["JavaMissing", "Lag", "lag", "parse_json", "session", "set_aside"]
