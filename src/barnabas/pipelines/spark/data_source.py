"""`format("barnabas")`: what Spark asks for a reader or a writer.

Spark makes this object in a Python process of its own, pickles it and calls it by keyword in others; every room behind
it is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from barnabas.pipelines.spark.options import OptionError, SourceOptions
from barnabas.pipelines.spark.schema import COLUMNS, HEADERS, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter


class BarnabasDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType:
        return spark_schema(SourceOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from barnabas.pipelines.spark.batch_reader import BatchReader

        return BatchReader(SourceOptions.parse(self.options), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from barnabas.pipelines.spark.stream_reader import StreamReader

        return StreamReader(SourceOptions.parse(self.options), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from barnabas.pipelines.spark.sink.writers import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.pipelines.spark.sink.writers import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)


def columns_of(schema: StructType) -> tuple[str, ...]:
    """A schema given by the user selects columns: what is not in it is not built."""
    names = tuple(schema.fieldNames())
    for field in schema.fields:
        if field.name not in (*COLUMNS, HEADERS):
            raise OptionError(f"'{field.name}' is no column of a topic: they are {', '.join((*COLUMNS, HEADERS))}")
        expected = spark_schema([field.name])[0].dataType
        if field.dataType != expected:
            raise OptionError(
                f"column {field.name} is of type {expected.simpleString()}, not {field.dataType.simpleString()}"
            )
    return names
