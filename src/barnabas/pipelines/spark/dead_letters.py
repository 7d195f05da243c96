"""Records that can't be read: to a topic of their own with the reason, or the query stops with the same words.

    readings = parse_json(frame, "id string, celsius double", dead_letter={
        "kafka.bootstrap.servers": "localhost:9092", "topic": "plant.dead-letters"})

Spark tells which rows are unreadable; only those travel to a Python worker, the others as nulls. Dead letters are
delivered before their batch goes on, at least once: a task that is tried again sends them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.pipelines.spark.option_values import OptionError, kafka_properties

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

NEEDED_COLUMNS = ("key", "value", "topic", "partition", "offset")
CORRUPT = "_unreadable"
PARSED = "_parsed"
REFUSED_PROPERTIES = {"transactional.id": "dead letters are written outside of transactions"}

Reason = Callable[[bytes | None], str]


def parse_json(
    frame: DataFrame,
    schema: StructType | str,
    *,
    dead_letter: Mapping[str, str] | None = None,
    column: str = "data",
) -> DataFrame:
    """The frame of a topic with its values, parsed, in `column`; a value of null stays null.

    `dead_letter` has the `topic` for what is no JSON or does not fit the schema, and `kafka.*` settings as a sink has
    them. Without it such a record stops the query.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    wanted = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    if not isinstance(wanted, StructType):
        raise OptionError(f"a schema of JSON has fields, as 'id string, celsius double'; '{schema}' has none")
    with_corrupt = StructType([*wanted.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    parsed = frame.withColumn(PARSED, f.from_json(f.col("value").cast("string"), with_corrupt, options))
    unreadable = f.col("value").isNotNull() & (f.col(PARSED).isNull() | f.col(f"{PARSED}.{CORRUPT}").isNotNull())
    readable = set_aside(parsed, unreadable, _JsonReason(wanted.simpleString()), dead_letter=dead_letter)
    fields = f.struct(*[f.col(f"{PARSED}.`{field.name}`").alias(field.name) for field in wanted.fields])
    return readable.withColumn(column, f.when(f.col(PARSED).isNotNull(), fields)).drop(PARSED)


def set_aside(
    frame: DataFrame, unreadable: Column, reason: Reason, *, dead_letter: Mapping[str, str] | None = None
) -> DataFrame:
    """The rows of a topic's frame that are readable. `reason` says of a value why it is not."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    from barnabas.pipelines.spark.dead_letter_post import Post

    missing = [name for name in NEEDED_COLUMNS if name not in frame.columns]
    if missing:
        raise OptionError(f"dead letters need the columns {', '.join(NEEDED_COLUMNS)}; {', '.join(missing)} is missing")
    letter_columns = [*NEEDED_COLUMNS, *(["headers"] if "headers" in frame.columns else [])]
    post = Post(reason, None if dead_letter is None else _address(dead_letter))
    deliver = arrow_udf(post.deliver, "boolean").asNondeterministic()  # type: ignore[call-overload]
    letter = f.when(unreadable, f.struct(*letter_columns))
    kept = "_readable"
    return frame.withColumn(kept, deliver(letter)).where(kept).drop(kept)


def _address(dead_letter: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    options = {name.lower(): str(value) for name, value in dead_letter.items()}
    topic = options.get("topic", "").strip()
    if not topic:
        raise OptionError("the topic of dead letters is missing: name it with topic")
    return topic, kafka_properties(options, REFUSED_PROPERTIES)


class _JsonReason:
    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __call__(self, value: bytes | None) -> str:
        try:
            json.loads(value or b"")
        except UnicodeDecodeError:
            return "it is no UTF-8"
        except json.JSONDecodeError as error:
            return f"it is no JSON: {error.msg} at character {error.pos}"
        return f"it does not fit {self._schema}"
