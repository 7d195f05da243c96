"""DELIMITED: comma-separated values, or separated by another character."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from typing import Any

from barnabas.pipelines.sql.compute.casts import cast_between
from barnabas.pipelines.sql.compute.java import double_text
from barnabas.pipelines.sql.formats.codecs import Codec, Columns, SerdeError
from barnabas.pipelines.sql.types import STRING, SqlType

NAMED = {"SPACE": " ", "TAB": "\t"}


class DelimitedCodec(Codec):
    def __init__(self, columns: Columns, delimiter: str = ",") -> None:
        super().__init__(columns)
        self.delimiter = NAMED.get(str(delimiter).upper(), str(delimiter))
        self._casts: list[Any] | None = None

    def __reduce__(self) -> Any:
        return DelimitedCodec, (self.columns, self.delimiter)

    def encode(self, values: Sequence[Any]) -> bytes:
        cells = [
            "" if value is None else quoted(_shown(value, kind), self.delimiter, first=not at)
            for at, (value, (_, kind)) in enumerate(zip(values, self.columns, strict=True))
        ]
        return self.delimiter.join(cells).encode()

    def decode(self, data: bytes) -> tuple[Any, ...]:
        try:
            lines = list(csv.reader(io.StringIO(data.decode()), delimiter=self.delimiter))
        except (UnicodeDecodeError, csv.Error) as error:
            raise SerdeError(f"it is no delimited text: {error}") from None
        cells = lines[0] if lines else []
        if len(cells) != len(self.columns):
            raise SerdeError(f"Unexpected field count, csvFields:{len(cells)} schemaFields:{len(self.columns)}")
        if self._casts is None:
            self._casts = [_read_cast(kind) for _, kind in self.columns]
        try:
            return tuple(None if cell == "" else cast(cell) for cell, cast in zip(cells, self._casts, strict=True))
        except ValueError as error:
            raise SerdeError(str(error)) from None


def quoted(text: str, delimiter: str, *, first: bool) -> str:
    """As Apache's CSV writer quotes: also what begins with a sign that may begin a comment, or ends with a space; and
    at the beginning of a line all that begins with neither a letter nor a digit."""
    if not text:
        return '""' if first else ""
    begins, ends = text[0], text[-1]
    odd = first and not (begins.isascii() and begins.isalnum())
    if odd or begins <= "#" or ends <= " " or any(one in text for one in ("\n", "\r", '"', delimiter)):
        return '"' + text.replace('"', '""') + '"'
    return text


def _read_cast(kind: SqlType) -> Any:
    if kind.base in ("TIMESTAMP", "DATE", "TIME"):
        return int
    if kind.base == "BYTES":
        return base64.b64decode
    return cast_between(STRING, kind)


def _shown(value: Any, kind: SqlType) -> str:
    if kind.base == "BOOLEAN":
        return "true" if value else "false"
    if kind.base == "DOUBLE":
        return double_text(value)
    if kind.base == "BYTES":
        return base64.b64encode(value).decode()
    if kind.base == "DECIMAL":
        return format(value, "f")
    return str(value)
