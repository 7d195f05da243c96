"""Spark for pipelines: `session()`, the lag of a query, and what is done with records that can't be read.

Importing it tells Spark which Python runs the program, where nobody has told it (`PYSPARK_PYTHON`).
"""

from barnabas.pipelines.spark.dead_letters import parse_json, set_aside
from barnabas.pipelines.spark.lag import Lag, lag
from barnabas.pipelines.spark.registry.columns import from_registry, to_registry
from barnabas.pipelines.spark.session import session
from barnabas.pipelines.spark.startup import workers_python
from barnabas.pipelines.spark.startup.java import JavaMissing

workers_python.choose()

__all__ = ["JavaMissing", "Lag", "from_registry", "lag", "parse_json", "session", "set_aside", "to_registry"]
