"""A codec turns the columns of a key or of a value into bytes and back. It is pickled to Spark's workers.

`columns` are (name, type). A tuple of values stands for them; None stands for no bytes (a tombstone).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from barnabas.pipelines.sql.errors import SqlError, nearest
from barnabas.pipelines.sql.metastore import FormatInfo, SourceColumn
from barnabas.pipelines.sql.types import SqlType
from barnabas.pipelines.streams.serdes import SerdeError

Columns = tuple[tuple[str, SqlType], ...]
REGISTRY_FORMATS = ("AVRO", "PROTOBUF", "JSON_SR")
FORMATS = ("JSON", "DELIMITED", "KAFKA", "NONE", "AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")


AVRO_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class Codec:
    """`idle` columns are looked at by nobody: they are checked like all, and may be null in `decode_rows`."""

    def __init__(self, columns: Columns, idle: Collection[int] = ()) -> None:
        self.columns = columns
        self.idle = frozenset(idle)

    def encode(self, values: Sequence[Any]) -> bytes | None:
        raise NotImplementedError

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """Raises SerdeError with a reason."""
        raise NotImplementedError

    def encode_all(self, rows: Sequence[Any]) -> list[bytes | None]:
        return [None if row is None else self.encode(row) for row in rows]

    def decode_all(self, data: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """All or none."""
        return [self.decode(one) for one in data]

    def decode_singles(self, data: Sequence[bytes]) -> list[Any]:
        """All or none, of one column."""
        return [one for (one,) in self.decode_all(data)]

    def decode_rows(
        self, keys: Sequence[Any], data: Sequence[bytes], times: Sequence[int], *, single: bool
    ) -> list[tuple[Any, ...]]:
        """All or none, as rows: the key's columns, the values, and the pseudo columns, of which the place is not known.
        A key is a tuple, or, if all are `single`, one value."""
        whole = zip(keys, self.decode_all(data), times, strict=True)
        if single:
            return [(one, *values, time, None, None) for one, values, time in whole]
        return [(*one, *values, time, None, None) for one, values, time in whole]


class NoneCodec(Codec):
    def encode(self, values: Sequence[Any]) -> bytes | None:
        return None

    def decode(self, data: bytes) -> tuple[Any, ...]:
        return ()


def codec_of(
    info: FormatInfo, columns: Sequence[SourceColumn], *, key: bool, topic: str = "", idle: Collection[int] = ()
) -> Codec:
    pairs: Columns = tuple((one.name, one.kind) for one in columns)
    if info.name == "NONE" or (not pairs and key):
        return NoneCodec(pairs)
    if info.name == "KAFKA":
        from barnabas.pipelines.sql.formats.kafka import KafkaCodec

        return KafkaCodec(pairs)
    if info.name == "DELIMITED":
        from barnabas.pipelines.sql.formats.delimited import DelimitedCodec

        return DelimitedCodec(pairs, info.get("DELIMITER", ","))
    if info.name == "JSON":
        from barnabas.pipelines.sql.formats.json import JsonCodec

        return JsonCodec(pairs, wrapped(info, pairs, key=key), idle)
    from barnabas.pipelines.sql.formats.registry import BareProtobufCodec, RegistryCodec

    made = BareProtobufCodec if info.name == "PROTOBUF_NOSR" else RegistryCodec
    wrap = info.name.startswith("PROTOBUF") or wrapped(info, pairs, key=key)  # a message has fields, even if it is one
    return made(pairs, info.name, wrap, topic, key, dict(info.settings))


def wrapped(info: FormatInfo, columns: Columns, *, key: bool) -> bool:
    """Whether a single column is a field of an object, or the whole."""
    given = info.get("WRAP_SINGLE_VALUE")
    if len(columns) != 1:
        return True
    return (not key) if given is None else bool(given)


def keyed_by_text(kind: SqlType) -> bool:
    inner = [kind.element] if kind.element is not None else [one for _, one in kind.fields]
    return (kind.key is None or kind.key.base == "STRING") and all(map(keyed_by_text, inner))


def field_names(kind: SqlType) -> list[str]:
    inner = [kind.element] if kind.element is not None else [one for _, one in kind.fields]
    return [*(name for name, _ in kind.fields), *(name for one in inner for name in field_names(one))]


def check_format(name: str, columns: Sequence[SourceColumn], what: str) -> str:
    """The name of a format in upper case; refuses what it can't hold."""
    upper = name.upper()
    if upper not in FORMATS:
        raise SqlError(f"Unknown format: {name}.{nearest(name, list(FORMATS))}")
    if upper == "KAFKA" and columns:
        if len(columns) != 1:
            names = ", ".join(f"`{one.name}` {one.kind}" for one in columns)
            raise SqlError(f"The '{upper}' format only supports a single field. Got: [{names}]")
        base = columns[0].kind.base
        if base not in ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES"):
            raise SqlError(f"The 'KAFKA' format does not support type '{base}', column: `{columns[0].name}`")
    if upper == "DELIMITED":
        for one in columns:
            if one.kind.base in ("ARRAY", "MAP", "STRUCT"):
                raise SqlError(f"The 'DELIMITED' format does not support type '{one.kind.base}', column: `{one.name}`")
    if upper in (*REGISTRY_FORMATS, "PROTOBUF_NOSR", "JSON"):
        for one in columns:
            if not keyed_by_text(one.kind):
                raise SqlError(f"The '{upper}' format only supports MAPs with STRING keys: `{one.name}` is {one.kind}.")
    if upper == "AVRO":
        for name in (inner for one in columns for inner in (one.name, *field_names(one.kind))):
            if not AVRO_NAME.fullmatch(name):
                raise SqlError(
                    f"`{name}` can't be a field of Avro: a name has letters, digits and _, and begins with no digit."
                )
    if upper == "NONE" and columns:
        raise SqlError(f"The 'NONE' format can only be used when no {what} columns are defined.")
    return upper


__all__ = ["Codec", "SerdeError", "check_format", "codec_of"]
