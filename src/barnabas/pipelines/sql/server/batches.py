"""SELECT in batch by Spark SQL: streams are read from their topics by Spark's tasks, tables are what their views hold.

A query has a session of its own, where the streams and tables that it names are views. Their pseudo columns are there
if the statement names them. Functions and rules are Spark's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language.batches import files_in, names_in, spark_text
from barnabas.pipelines.sql.language.lexer import tokens_of
from barnabas.pipelines.sql.metastore import DataSource, Metastore
from barnabas.pipelines.sql.operators import ReadSource
from barnabas.pipelines.sql.relations import PSEUDO, WINDOWEND, WINDOWSTART
from barnabas.pipelines.sql.server.arrow import arrow_type, from_arrow, spark_type, sql_type, to_arrow
from barnabas.pipelines.sql.server.reach import Reach, check_batch
from barnabas.pipelines.sql.server.views import RecordPlace, Views, reader_of
from barnabas.pipelines.sql.types import BIGINT, INTEGER, SqlType
from barnabas.pipelines.streams.serdes import SerdeError

Rows = list[tuple[Any, ...]]
ROWS_MAX = 1_000_000


@dataclass(frozen=True)
class Chosen:
    """Columns of a source as the reader of its rows gives them, and which of them the statement can see."""

    names: tuple[str, ...]
    kinds: tuple[SqlType, ...]
    places: tuple[int, ...]

    def columns(self, rows: Rows) -> Any:
        import pyarrow as pa

        arrays = []
        for at, kind in zip(self.places, self.kinds, strict=True):
            convert = to_arrow(kind)
            given = [row[at] for row in rows]
            values = given if convert is None else [None if one is None else convert(one) for one in given]
            arrays.append(pa.array(values, arrow_type(kind)))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.names))


def chosen(source: DataSource, named: set[str]) -> Chosen:
    bounds = [(WINDOWSTART, BIGINT), (WINDOWEND, BIGINT)] if source.window is not None else []
    keys = [(one.name, one.kind) for one in source.keys]
    values = [(one.name, one.kind) for one in (*source.values, *source.headers)]
    always = [*keys, *bounds, *values]
    pseudo = list(zip(PSEUDO, (BIGINT, INTEGER, BIGINT), strict=True))
    found = [*enumerate(always), *((len(always) + at, one) for at, one in enumerate(pseudo) if one[0] in named)]
    return Chosen(
        tuple(name for _, (name, _) in found), tuple(kind for _, (_, kind) in found), tuple(at for at, _ in found)
    )


class BatchTask:
    """What a reader of rows asks of a topology's task."""

    def __init__(self, headers: Any, place: RecordPlace) -> None:
        self._headers, self._place = headers, place

    def headers(self, rank: int) -> tuple[tuple[str, bytes | None], ...]:
        return tuple((one["key"], one["value"]) for one in self._headers or ())

    def place(self, rank: int) -> RecordPlace:
        return self._place


@dataclass
class RowsOfRecords:
    """For mapInArrow, in Spark's workers. Records that can't be read are left out."""

    reader: ReadSource
    chosen: Chosen

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield self.chosen.columns(self.rows(batch))

    def rows(self, batch: Any) -> Rows:
        import pyarrow as pa

        columns = batch.to_pydict() | {"timestamp": batch.column("timestamp").cast(pa.int64()).to_pylist()}
        headers = columns.get("headers") or [None] * batch.num_rows
        found: Rows = []
        for at in range(batch.num_rows):
            place = RecordPlace(columns["topic"][at], columns["partition"][at], columns["offset"][at])
            task: Any = BatchTask(headers[at], place)
            try:
                row = self.reader.row(
                    task, columns["key"][at], columns["value"][at], columns["timestamp"][at] // 1000, 0
                )
            except (SerdeError, EvaluationError):
                continue
            if row is not None and row[1] is not None:
                found.append(row[1])
        return found


class Batches:
    def __init__(self, session: Callable[[], Any], options: dict[str, str], views: Views, reach: Reach) -> None:
        self._session, self._options, self._views, self._reach = session, options, views, reach

    def select(self, metastore: Metastore, text: str) -> tuple[tuple[str, ...], list[SqlType], Rows]:
        """Names, types and rows."""
        from pyspark.errors import PySparkException

        tokens = tokens_of(text)
        check_batch(tokens)
        files = {at: (name, self._reach.check_file(path)) for at, (name, path) in files_in(tokens).items()}
        named = names_in(tokens)
        sources = [one for name, one in metastore.sources.items() if name in named]
        spark = self._session().newSession()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.runSQLOnFiles", "false")
        for source in sources:
            frame = self._table(spark, source, named) if source.table else self._stream(spark, source, named)
            frame.createOrReplaceTempView(f"`{source.name}`")
        views = {at: f"`\u0001{name}_{at}`" for at, (name, _) in files.items()}
        try:
            for at, (name, path) in files.items():
                spark.read.format(name.lower()).load(path).createOrReplaceTempView(views[at])
        except PySparkException as error:
            raise SqlError(sentence(str(error))) from None
        return answered(spark, spark_text(tokens, views))

    def _table(self, spark: Any, source: DataSource, named: set[str]) -> Any:
        import pyarrow as pa

        columns = chosen(source, named)
        batch = columns.columns(self._views.of(source).all())
        return spark.createDataFrame(pa.Table.from_batches([batch]), schema_text(columns))

    def _stream(self, spark: Any, source: DataSource, named: set[str]) -> Any:
        columns = chosen(source, named)
        reader = spark.read.format("barnabas").options(**self._options).option("subscribe", source.topic)
        reader = reader.option("startingOffsets", "earliest").option("endingOffsets", "latest")
        if source.headers:
            reader = reader.option("includeHeaders", "true")
        return reader.load().mapInArrow(RowsOfRecords(reader_of(source), columns), schema_text(columns))


def schema_text(columns: Chosen) -> str:
    pairs = zip(columns.names, columns.kinds, strict=True)
    return ", ".join(f"`{name.replace('`', '``')}` {spark_type(kind)}" for name, kind in pairs)


def answered(spark: Any, text: str) -> tuple[tuple[str, ...], list[SqlType], Rows]:
    from pyspark.errors import PySparkException

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # the sentence goes to who asked
    try:
        table = spark.sql(text).limit(ROWS_MAX + 1).toArrow()
    except PySparkException as error:
        raise SqlError(sentence(str(error))) from None
    if table.num_rows > ROWS_MAX:
        raise SqlError(f"The query gives more than {ROWS_MAX} rows: add a LIMIT, or write them to a stream.")
    kinds = [sql_type(field.type) for field in table.schema]
    converted = []
    for column, kind in zip(table.columns, kinds, strict=True):
        convert = from_arrow(kind)
        values = column.to_pylist()
        converted.append(values if convert is None else [None if one is None else convert(one) for one in values])
    return tuple(table.schema.names), kinds, list(zip(*converted, strict=True)) if converted else []


def sentence(text: str) -> str:
    """The first sentence of what Spark says, without its name for the error."""
    first = text.strip().splitlines()[0] if text.strip() else "Spark could not run the query."
    if first.startswith("[") and "]" in first:
        first = first.partition("]")[2].strip()
    return first.partition(" SQLSTATE")[0].strip()
