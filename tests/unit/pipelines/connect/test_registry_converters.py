"""AvroConverter: what goes through the registry comes back with the same schema and values."""

from __future__ import annotations

import decimal
from datetime import UTC, datetime

import pytest

from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    BYTES,
    DATE_SCHEMA,
    FLOAT32,
    FLOAT64,
    INT8,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Struct,
    array,
    decimal_schema,
    map_of,
    single,
    struct,
)
from barnabas.pipelines.connect.errors import ConfigError, DataError
from barnabas.pipelines.connect.plugins import make_converter

NAME = "io.confluent.connect.avro.AvroConverter"
URL = {"schema.registry.url": "mock://connect"}
INNER = struct([("x", INT64)], name="shop.Inner")
ALL = struct(
    [
        ("byte", INT8), ("long", INT64), ("float", FLOAT32), ("double", FLOAT64), ("flag", BOOLEAN), ("text", STRING),
        ("maybe", OPTIONAL_STRING), ("data", BYTES), ("price", decimal_schema(2)), ("day", DATE_SCHEMA),
        ("hour", TIME_SCHEMA), ("at", TIMESTAMP_SCHEMA), ("list", array(INT64)), ("map", map_of(STRING, INT64)),
        ("inner", INNER),
    ],
    name="shop.Order",
)  # fmt: skip


def test_every_type_comes_back_as_it_went() -> None:
    converter = make_converter(NAME, URL)
    value = Struct(
        ALL,
        {
            "byte": 1, "long": 2, "float": single(0.5), "double": 1.25, "flag": True, "text": "é", "maybe": None,
            "data": b"\x00", "price": decimal.Decimal("-1.25"), "day": datetime(2024, 3, 1, tzinfo=UTC),
            "hour": datetime(1970, 1, 1, 10, 30, tzinfo=UTC), "at": datetime(2024, 3, 1, 10, 30, 1, tzinfo=UTC),
            "list": [1, 2], "map": {"a": 1}, "inner": Struct(INNER, {"x": 7}),
        },
    )  # fmt: skip
    data = converter.to_bytes("orders", ALL, value)
    assert data is not None
    assert data[0] == 0
    found = make_converter(NAME, URL).to_connect("orders", data)
    assert found.schema == ALL
    assert found.value == value


def test_what_cannot_be_written_or_read_is_a_data_error() -> None:
    converter = make_converter(NAME, URL)
    with pytest.raises(DataError, match="needs a schema"):
        converter.to_bytes("t", None, {"a": 1})
    with pytest.raises(DataError):
        converter.to_connect("t", b"no frame")
    assert converter.to_connect("t", None) == (None, None)
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        make_converter(NAME, {})
