"""The name by which Spark finds `format("barnabas")` by itself, once the package is installed."""

from barnabas.pipelines.spark.data_source import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
