"""Databases by their `jdbc:` URLs, and their columns as Connect's schemas."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from sqlalchemy import Column, Engine, create_engine, event, exc, types
from sqlalchemy.pool import NullPool

from barnabas.pipelines.connect.config import Setting
from barnabas.pipelines.connect.data.schema import (
    BITS,
    BOOLEAN,
    BYTES,
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    Type,
    decimal_schema,
    from_ms,
    to_ms,
    validate,
)
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, RetriableError

DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "sqlite": "sqlite"}
CONNECTION = [
    Setting("connection.url", doc="JDBC connection URL.", group="Database"),
    Setting("connection.user", "STRING", None, doc="JDBC connection user.", group="Database"),
    Setting("connection.password", "PASSWORD", None, doc="JDBC connection password.", group="Database"),
]


def engine_url(jdbc: str, user: str | None, password: str | None) -> str:
    text = jdbc.strip().removeprefix("jdbc:")
    kind, _, rest = text.partition(":")
    if not jdbc.strip().startswith("jdbc:") or kind not in DRIVERS:
        known = ", ".join(f"jdbc:{each}:" for each in DRIVERS)
        raise ConfigError(f"must begin with one of {known}", "connection.url", jdbc.partition("?")[0])
    if kind == "sqlite":
        return f"sqlite:///{rest}"
    parts = urlsplit(rest)
    query = dict(parse_qsl(parts.query))
    user, password = user or query.get("user"), password or query.get("password")
    secret = ":" + quote(password, safe="") if password else ""
    login = f"{quote(user, safe='')}{secret}@" if user else ""
    return f"{DRIVERS[kind]}://{login}{parts.netloc}{parts.path}"


def connect(values: Mapping[str, Any]) -> Engine:
    url = engine_url(values["connection.url"], values["connection.user"], values["connection.password"])
    engine = create_engine(url, poolclass=NullPool)
    if engine.dialect.driver == "pymysql":
        from barnabas.pipelines.connect.connectors.mysql_client import MySqlConnection

        event.listen(engine, "do_connect", lambda _dialect, _record, args, rest: MySqlConnection(*args, **rest))
    return engine


@contextmanager
def told() -> Any:
    """A database that is away may come back; what it refuses is the connector's failure."""
    try:
        yield
    except (exc.OperationalError, exc.InterfaceError, exc.DisconnectionError) as error:
        text = str(getattr(error, "orig", None) or error).strip()
        missing = any(sign in text.lower() for sign in ("no such table", "no such column", "syntax error"))
        raise (ConnectError if missing else RetriableError)(f"the database answers: {text}") from error
    except exc.NoSuchTableError as error:
        raise ConnectError(f"table {error} is not there") from error
    except exc.SQLAlchemyError as error:
        raise ConnectError(f"the database refuses: {str(getattr(error, 'orig', None) or error).strip()}") from error


def column_schema(column: Mapping[str, Any]) -> Schema:
    """As Confluent's connector maps SQL types."""
    kind = column["type"]
    schema = STRING
    if isinstance(kind, types.Boolean):
        schema = BOOLEAN
    elif isinstance(kind, types.BigInteger):
        schema = INT64
    elif isinstance(kind, types.SmallInteger):
        schema = INT16
    elif isinstance(kind, types.Integer):
        schema = INT32
    elif isinstance(kind, types.Float):
        schema = FLOAT32 if type(kind).__name__ == "REAL" else FLOAT64
    elif isinstance(kind, types.Numeric):
        schema = decimal_schema(kind.scale or 0)
    elif isinstance(kind, types.DateTime):
        schema = TIMESTAMP_SCHEMA
    elif isinstance(kind, types.Date):
        schema = DATE_SCHEMA
    elif isinstance(kind, types.Time):
        schema = TIME_SCHEMA
    elif isinstance(kind, types.LargeBinary):
        schema = BYTES
    return schema.but(optional=bool(column.get("nullable", True)))


def from_database(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.name == TIMESTAMP:
        return as_utc(value)
    if schema.name == DATE:
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if schema.name == TIME:
        found = (
            value
            if isinstance(value, timedelta)
            else timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
        )
        return from_ms(found // timedelta(milliseconds=1))
    if schema.name == DECIMAL:
        scale = int((schema.parameters or {}).get("scale", "0"))
        return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-scale))
    if schema.type is Type.BYTES:
        return bytes(value)
    if schema.type is Type.STRING:
        return value if isinstance(value, str) else str(value)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(value)
    return bool(value) if schema.type is Type.BOOLEAN else value


def column_reader(name: str, schema: Schema) -> Callable[[Any], Any]:
    """`from_database` for a field, made once for many rows; values that are as they should be are not looked at."""

    def read(value: Any) -> Any:
        found = from_database(schema, value)
        validate(schema, found, name)
        return found

    if schema.name is not None:
        return read
    if schema.type in BITS:
        bound = 1 << BITS[schema.type] - 1
        return lambda value: value if type(value) is int and -bound <= value < bound else read(value)
    kind = {Type.STRING: str, Type.BOOLEAN: bool, Type.FLOAT64: float}.get(schema.type)
    return read if kind is None else lambda value: value if type(value) is kind else read(value)


def as_utc(value: Any) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    found: datetime = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    aware = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return from_ms(to_ms(aware))


def guessed_schema(value: Any) -> Schema:
    """Of a query's column: by its values."""
    found = STRING
    for kinds, schema in (
        (bool, BOOLEAN),
        (int, INT64),
        (float, FLOAT64),
        (decimal.Decimal, None),
        (datetime, TIMESTAMP_SCHEMA),
        (date, DATE_SCHEMA),
        ((time, timedelta), TIME_SCHEMA),
        ((bytes, bytearray, memoryview), BYTES),
    ):
        if isinstance(value, kinds):
            exponent = value.as_tuple().exponent if isinstance(value, decimal.Decimal) else 0
            found = schema or decimal_schema(-exponent if isinstance(exponent, int) else 0)
            break
    return found.as_optional()


def sql_column(name: str, schema: Schema, *, primary: bool) -> Column[Any]:
    """A column for a field, when a sink creates or alters tables."""
    kinds: dict[Type, Any] = {
        Type.INT8: types.SmallInteger,
        Type.INT16: types.SmallInteger,
        Type.INT32: types.Integer,
        Type.INT64: types.BigInteger,
        Type.FLOAT32: types.Float,
        Type.FLOAT64: types.Double,
        Type.BOOLEAN: types.Boolean,
        Type.STRING: types.String(255) if primary else types.Text,
        Type.BYTES: types.LargeBinary,
    }
    named = {TIMESTAMP: types.DateTime, DATE: types.Date, TIME: types.Time}
    if schema.name == DECIMAL:
        kind: Any = types.Numeric(38, int((schema.parameters or {}).get("scale", "0")))
    elif schema.name in named:
        kind = named[schema.name or ""]
    elif schema.type in kinds:
        kind = kinds[schema.type]
    else:
        raise ConnectError(f"field {name} is a {schema.type}: no column holds it")
    nullable = not primary and (schema.optional or schema.default is not None)
    return Column(name, kind, primary_key=primary, nullable=nullable, autoincrement=False)


def to_database(schema: Schema | None, value: Any) -> Any:
    if schema is None or value is None:
        return value
    if schema.name == DATE:
        return value.date()
    if schema.name == TIME:
        return value.time()
    return value.replace(tzinfo=None) if schema.name == TIMESTAMP else value
