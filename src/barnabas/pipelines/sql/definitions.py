"""CREATE STREAM and CREATE TABLE: from columns and WITH properties to what the metastore keeps."""

from __future__ import annotations

from typing import Any

from barnabas.pipelines.sql.errors import SqlError, nearest
from barnabas.pipelines.sql.formats.codecs import REGISTRY_FORMATS, check_format
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.cursor import Cursor
from barnabas.pipelines.sql.language.queries import duration
from barnabas.pipelines.sql.metastore import HEADERS, KEY, VALUE, DataSource, FormatInfo, SourceColumn, WindowInfo
from barnabas.pipelines.sql.relations import PSEUDO, WINDOWEND, WINDOWSTART, check_key
from barnabas.pipelines.sql.types import BYTES, STRING, SqlType, array, fits, struct

PROPERTIES = {
    "KAFKA_TOPIC",
    "VALUE_FORMAT",
    "KEY_FORMAT",
    "FORMAT",
    "PARTITIONS",
    "REPLICAS",
    "TIMESTAMP",
    "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE",
    "VALUE_DELIMITER",
    "KEY_DELIMITER",
    "WINDOW_TYPE",
    "WINDOW_SIZE",
    "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID",
    "KEY_SCHEMA_FULL_NAME",
    "VALUE_SCHEMA_FULL_NAME",
    "VALUE_AVRO_SCHEMA_FULL_NAME",
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
    "RETENTION_MS",
    "CLEANUP_POLICY",
    "SOURCED_BY_CONNECTOR",
}
WRAPS, WRAPPING = "ksql.persistence.wrap.single.values", ("JSON", "AVRO", "JSON_SR")
ALL_HEADERS = array(struct(("KEY", STRING), ("VALUE", BYTES)))
Settings = dict[str, Any]


def check_properties(given: tree.Properties) -> dict[str, Any]:
    found = {name.upper(): value for name, value in given.items()}
    unknown = sorted(set(found) - PROPERTIES)
    if unknown:
        hint = nearest(unknown[0], sorted(PROPERTIES))
        raise SqlError(f"Invalid config variable(s) in the WITH clause: {','.join(unknown)}.{hint}")
    if "FORMAT" in found:
        for name in ("KEY_FORMAT", "VALUE_FORMAT"):
            if name in found:
                raise SqlError(f"Cannot supply both '{name}' and 'FORMAT' properties, as 'FORMAT' sets both.")
            found[name] = found["FORMAT"]
    return found


def format_info(
    name: str, columns: list[SourceColumn], properties: Settings, settings: Settings, what: str
) -> FormatInfo:
    """`what` is KEY or VALUE."""
    upper = check_format(name, columns, what.lower())
    given: dict[str, Any] = {}
    if (delimiter := properties.get(f"{what}_DELIMITER")) is not None:
        if upper != "DELIMITED":
            raise SqlError(f"{what}_DELIMITER is supported by format DELIMITED only, not by {upper}.")
        check_delimiter(str(delimiter), what)
        given["DELIMITER"] = delimiter
    if what == "VALUE" and (wrap := properties.get("WRAP_SINGLE_VALUE")) is not None:
        if len(columns) != 1:
            raise SqlError("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")
        wraps = wrap if isinstance(wrap, bool) else str(wrap).lower() == "true"
        if upper not in WRAPPING and wraps != upper.startswith("PROTOBUF"):
            raise SqlError(f"Format '{upper}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wraps).lower()}'.")
        given["WRAP_SINGLE_VALUE"] = wraps
    elif what == "VALUE" and len(columns) == 1 and upper in WRAPPING and WRAPS in settings:
        given["WRAP_SINGLE_VALUE"] = str(settings[WRAPS]).lower() == "true"
    if upper in REGISTRY_FORMATS:
        given["REGISTRY"] = settings.get("ksql.schema.registry.url")
        if (schema_id := properties.get(f"{what}_SCHEMA_ID")) is not None:
            given["SCHEMA_ID"] = int(schema_id)
    if (nulls := properties.get(f"{what}_PROTOBUF_NULLABLE_REPRESENTATION")) is not None:
        if not upper.startswith("PROTOBUF"):
            raise SqlError(f"{what}_PROTOBUF_NULLABLE_REPRESENTATION is for PROTOBUF, and {what}_FORMAT is {upper}.")
        if str(nulls).upper() not in ("OPTIONAL", "WRAPPER"):
            raise SqlError(f"{what}_PROTOBUF_NULLABLE_REPRESENTATION is OPTIONAL or WRAPPER, not {nulls}.")
        given["NULLABLE"] = str(nulls).upper()
    if (full_name := full_schema_name(properties, what)) is not None:
        if upper not in ("AVRO", "PROTOBUF"):
            raise SqlError(f"{what}_SCHEMA_FULL_NAME is for AVRO and PROTOBUF, and {what}_FORMAT is {upper}.")
        if not full_name.strip():
            raise SqlError(f"{what}_SCHEMA_FULL_NAME cannot be empty.")
        given["SCHEMA_NAME"] = full_name
    return FormatInfo(upper, tuple(given.items()))


def check_delimiter(delimiter: str, what: str) -> None:
    if not delimiter.strip():
        raise SqlError(f"{what}_DELIMITER can't be empty nor a blank: SPACE and TAB are written as words.")
    if len(delimiter) > 1 and delimiter.upper() not in ("SPACE", "TAB"):
        raise SqlError(f"{what}_DELIMITER is one character, or SPACE or TAB, not '{delimiter}'.")


def full_schema_name(properties: Settings, what: str) -> str | None:
    found = properties.get(f"{what}_SCHEMA_FULL_NAME")
    if found is None and what == "VALUE":
        found = properties.get("VALUE_AVRO_SCHEMA_FULL_NAME")
    return None if found is None else str(found)


def window_info(properties: Settings) -> WindowInfo | None:
    kind, size = properties.get("WINDOW_TYPE"), properties.get("WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("'WINDOW_SIZE' should be set only if 'WINDOW_TYPE' is.")
        return None
    upper = str(kind).upper()
    if upper not in ("TUMBLING", "HOPPING", "SESSION"):
        raise SqlError(f"Invalid value '{kind}' for WINDOW_TYPE: Must be one of TUMBLING, HOPPING, SESSION.")
    if upper == "SESSION":
        if size is not None:
            raise SqlError("'WINDOW_SIZE' should not be set for SESSION windows.")
        return WindowInfo(upper, None)
    if size is None:
        raise SqlError(
            f"{upper} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example: '10 SECONDS'"
        )
    return WindowInfo(upper, duration(Cursor(str(size))))


def columns_of(statement: tree.CreateSource) -> list[SourceColumn]:
    found: list[SourceColumn] = []
    wanted = "PRIMARY KEY" if statement.table else "KEY"
    for one in statement.columns:
        if one.name in (*PSEUDO, WINDOWSTART, WINDOWEND):
            raise SqlError(f"'{one.name}' is a reserved column name. You cannot use it as a name for a column.")
        if any(other.name == one.name for other in found):
            raise SqlError(f"Duplicate column names: {one.name}")
        if one.role in ("KEY", "PRIMARY KEY") and one.role != wanted:
            raise SqlError(
                f"Column `{one.name}` is a '{one.role}' column: please use '{wanted}' for "
                f"{'tables' if statement.table else 'streams'}."
            )
        role = {"KEY": KEY, "PRIMARY KEY": KEY, "HEADERS": HEADERS}.get(one.role, VALUE)
        if role == HEADERS and one.header is None and one.kind != ALL_HEADERS:
            raise SqlError(f"Invalid type for HEADERS column: expected {ALL_HEADERS}, got {one.kind}")
        found.append(SourceColumn(one.name, one.kind, role, one.header))
    headers = [one.header for one in found if one.role == HEADERS]
    if None in headers and len(headers) > 1:
        raise SqlError("Schema already contains a HEADERS column.")
    if twice := next((one for one in headers if headers.count(one) > 1), None):
        raise SqlError(f"Schema already contains a HEADER('{twice}') column.")
    order = {KEY: 0, VALUE: 1, HEADERS: 2}
    return sorted(found, key=lambda one: order[one.role])


def defined(statement: tree.CreateSource, settings: Settings) -> DataSource:
    properties = check_properties(statement.properties)
    topic = properties.get("KAFKA_TOPIC")
    if not topic:
        topic = statement.name
    columns = columns_of(statement)
    keys = [one for one in columns if one.role == KEY]
    values = [one for one in columns if one.role == VALUE]
    value_format = properties.get("VALUE_FORMAT") or settings.get("ksql.persistence.default.format.value")
    if not value_format:
        raise SqlError(
            "Statement is missing the 'VALUE_FORMAT' property from the WITH clause. Either provide one or set a "
            "default via the 'ksql.persistence.default.format.value' config."
        )
    default_key = str(settings.get("ksql.persistence.default.format.key", "KAFKA"))
    key_format = str(properties.get("KEY_FORMAT") or default_key)
    for what, name in ((KEY, key_format), (VALUE, str(value_format))):
        format_info(name, [], {one: properties[one] for one in properties if one == f"{what}_DELIMITER"}, {}, what)
    keys, values = inferred((keys, values), str(topic), (key_format, str(value_format)), properties, settings)
    columns = [*keys, *values, *(one for one in columns if one.role == HEADERS)]
    if statement.table and columns and not keys:
        raise SqlError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY in the statement, eg "
            f"CREATE TABLE {statement.name} (MY_KEY STRING PRIMARY KEY, ...)."
        )
    for one in keys:
        check_key(one.kind, one.name)
    if not columns:
        raise SqlError("The statement does not define any columns.")
    windowed = window_info(properties)
    if windowed is not None and not keys:
        raise SqlError("Windowed sources require a key column.")
    timestamp = properties.get("TIMESTAMP")
    if timestamp is not None:
        timestamp = named_column(str(timestamp), columns)
    return DataSource(
        statement.name,
        statement.table,
        tuple(columns),
        str(topic),
        format_info(key_format, keys, properties, settings, "KEY"),
        format_info(str(value_format), values, properties, settings, "VALUE"),
        windowed,
        timestamp,
        properties.get("TIMESTAMP_FORMAT"),
        statement.text,
        statement.read_only,
        None,
        _number(properties, "PARTITIONS"),
        _number(properties, "REPLICAS"),
    )


def inferred(
    given: tuple[list[SourceColumn], list[SourceColumn]],
    topic: str,
    formats: tuple[str, str],
    properties: Settings,
    settings: Settings,
) -> tuple[list[SourceColumn], list[SourceColumn]]:
    """Columns of the key and of the value: those that the statement does not name are taken from the schemas of a
    registry, where the format has some."""
    from barnabas.pipelines.sql.formats.inference import columns_from_registry

    found: list[list[SourceColumn]] = []
    for what, columns, name in zip((KEY, VALUE), given, formats, strict=True):
        schema_id, message = properties.get(f"{what}_SCHEMA_ID"), full_schema_name(properties, what)
        if schema_id is not None and name.upper() not in REGISTRY_FORMATS:
            raise SqlError(f"{what}_SCHEMA_ID is for formats with a registry, and {what}_FORMAT is {name.upper()}.")
        if not columns and name.upper() in REGISTRY_FORMATS:
            whole = what == VALUE and str(properties.get("WRAP_SINGLE_VALUE")).lower() == "false"
            subject = f"{topic}-{what.lower()}"
            columns = columns_from_registry(subject, settings, what, schema_id, message, whole=whole)
        found.append(columns)
    keys, values = found
    if not keys and not values and formats[1].upper() not in REGISTRY_FORMATS:
        raise SqlError("The statement does not define any columns, and its formats have no schemas to take them from.")
    return keys, values


def check_written(source: DataSource, settings: Settings) -> None:
    """Refuses results that do not fit the schemas that their query names by id. A replay of the command topic does not
    ask: the registry may be away then."""
    from barnabas.pipelines.sql.formats.inference import columns_from_registry

    for what, info, columns in (
        (KEY, source.key_format, source.keys),
        (VALUE, source.value_format, source.values),
    ):
        if (schema_id := info.get("SCHEMA_ID")) is None or info.name not in REGISTRY_FORMATS:
            continue
        found = columns_from_registry(
            f"{source.topic}-{what.lower()}", settings, what, schema_id, info.get("SCHEMA_NAME")
        )
        if [one.name for one in found] in (["ROWKEY"], ["ROWVAL"]):  # a schema without fields
            continue
        kinds = {one.name.upper(): one.kind for one in found}
        wrong = [one for one in columns if not can_hold(kinds.get(one.name.upper()), one.kind)]
        if wrong:
            raise SqlError(
                f"The following {what.lower()} columns are changed or missing: [{_listed(wrong)}]. Schema {schema_id} "
                f"from the schema registry is [{_listed(found)}]"
            )


HELD_AS = {"TIMESTAMP": ("BIGINT",), "DATE": ("INTEGER",), "TIME": ("INTEGER",), "DECIMAL": ("STRING", "BYTES")}


def can_hold(there: SqlType | None, given: SqlType) -> bool:
    """Whether a field of a schema takes values of a column. What is inside of a STRUCT is told when it is written."""
    if there is None:
        return False
    return fits(given, there) or given.base == there.base or there.base in HELD_AS.get(given.base, ())


def _listed(columns: list[SourceColumn]) -> str:
    return ", ".join(f"`{one.name}` {one.kind}" for one in columns)


def spelled_out(statement: tree.CreateSource, source: DataSource) -> str:
    """The statement with all columns of what it defined. Those of a registry's schema are not to change when the
    statement is applied again, with another version of the schema or while the registry can't be reached."""
    if len(statement.columns) == len(source.columns):
        return statement.text
    words = ["CREATE", "OR REPLACE" if statement.or_replace else "", "SOURCE" if statement.read_only else ""]
    words += [source.kind, "IF NOT EXISTS" if statement.if_not_exists else "", quoted(statement.name)]
    columns = ", ".join(f"{quoted(one.name)} {one.kind}{_role(one, source)}" for one in source.columns)
    properties = ", ".join(f"{name}={_literal(value)}" for name, value in statement.properties.items())
    return f"{' '.join(filter(None, words))} ({columns}) WITH ({properties});"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _role(column: SourceColumn, source: DataSource) -> str:
    if column.role == KEY:
        return " PRIMARY KEY" if source.table else " KEY"
    if column.role == HEADERS:
        return " HEADERS" if column.header is None else f" HEADER({_literal(column.header)})"
    return ""


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper()


def named_column(name: str, columns: list[SourceColumn]) -> str:
    bare = name.strip('`"')
    for wanted in (bare, bare.upper()):
        found = next((one for one in columns if one.name == wanted), None)
        if found is not None:
            if found.kind.base not in ("BIGINT", "STRING", "TIMESTAMP"):
                raise SqlError(
                    f"Timestamp column, `{wanted}`, should be STRING, BIGINT or TIMESTAMP, not {found.kind}."
                )
            return wanted
    hint = nearest(bare, [one.name for one in columns])
    raise SqlError(f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{bare}'.{hint}")


def _number(properties: Settings, name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    try:
        found = int(value)
    except (TypeError, ValueError):
        raise SqlError(f"Invalid value {value} for property '{name}': a whole number is needed.") from None
    if found < 1:
        raise SqlError(f"Invalid number of {name.lower()} in WITH clause: {found}.")
    return found
