"""`from_registry` and `to_registry`: a topic's values as structs, and structs as a topic's values.

    orders = from_registry(frame, "http://localhost:8081", topic="orders")
    orders.select("data.id", "data.amount")

The type of the column is that of one schema, known before the query begins: the one that is given, or the subject's
latest. Records of other versions are read as that schema sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.pipelines.spark.dead_letters import set_aside
from barnabas.pipelines.spark.option_values import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.client.serdes import RegisteredSchema, Registry

DECODED = "_decoded"


def from_registry(
    frame: DataFrame,
    url: str,
    *,
    topic: str | None = None,
    subject: str | None = None,
    schema: str | None = None,
    schema_type: str = "AVRO",
    dead_letter: Mapping[str, str] | None = None,
    column: str = "data",
    properties: Mapping[str, str] | None = None,
) -> DataFrame:
    """The frame of a topic with its values, read with their schemas, in `column`; a value of null stays null.

    `topic` or `subject` say whose latest schema gives the column its type, unless `schema` is given. `dead_letter` is
    as in `parse_json`: without it a record that cannot be read stops the query.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    from barnabas.client.serdes import shared_registry
    from barnabas.pipelines.spark.registry.decoding import ERROR, RECORD, Decoding

    registry = shared_registry(url, properties)
    found = _schema_of(registry, topic, subject, schema, schema_type, register=False)
    decoding = Decoding(url, properties or {}, found.schema, found.id)
    kind = StructType([StructField(RECORD, from_arrow_type(decoding.type)), StructField(ERROR, StringType())])
    decode = arrow_udf(decoding.decode, kind)  # type: ignore[call-overload]
    decoded = frame.withColumn(DECODED, decode(f.col("value")))
    unreadable = f.col(f"{DECODED}.{ERROR}").isNotNull()
    readable = set_aside(decoded, unreadable, decoding.reason, dead_letter=dead_letter)
    return readable.withColumn(column, f.col(f"{DECODED}.{RECORD}")).drop(DECODED)


def to_registry(
    frame: DataFrame,
    url: str,
    *,
    topic: str | None = None,
    subject: str | None = None,
    schema: str | None = None,
    schema_type: str = "AVRO",
    message: str = "",
    column: str = "data",
    into: str = "value",
    properties: Mapping[str, str] | None = None,
) -> DataFrame:
    """The structs of `column` as bytes in `into`, with the id of the schema: the one that is given, which is registered
    now, or the subject's latest. A struct that does not fit the schema stops the query."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    from barnabas.client.serdes import codec_of, shared_registry
    from barnabas.client.serdes.framing import id_prefix
    from barnabas.client.serdes.serializer import message_path
    from barnabas.pipelines.spark.registry.decoding import Encoding

    registry = shared_registry(url, properties)
    found = _schema_of(registry, topic, subject, schema, schema_type, register=True)
    references = registry.resolved(found.schema)
    mark = id_prefix(found.id) + message_path(codec_of(found.schema, references, message=message))
    encoding = Encoding(found.schema, references, mark, message)
    encode = arrow_udf(encoding.encode, "binary")  # type: ignore[call-overload]
    return frame.withColumn(into, encode(f.col(column)))


def _schema_of(
    registry: Registry,
    topic: str | None,
    subject: str | None,
    schema: str | None,
    schema_type: str,
    *,
    register: bool,
) -> RegisteredSchema:
    from barnabas.client.serdes import RegisteredSchema, RegistryRefused, Schema

    name = subject or (f"{topic}-value" if topic else None)
    if schema is not None:
        given = Schema(schema, schema_type)
        if register:
            if name is None:
                raise OptionError("a subject is needed to register the schema: name it with subject= or topic=")
            return registry.register(name, given)
        if name is not None:
            try:
                return registry.lookup(name, given)  # its id lets records be read by columns
            except RegistryRefused as error:
                if error.status != 404:
                    raise
        return RegisteredSchema(-1, given)
    if name is None:
        raise OptionError("the type of the column is not known: name topic=, subject= or schema=")
    return registry.latest(name)
