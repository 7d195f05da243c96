"""Lines of stdin as records, by the properties of Kafka's line reader.

A line is `headers<delimiter>key<separator>value`, of which headers and key are there only if they are asked for.
What is wrong with a line is told with its number, unless `ignore.error` takes the line as a value as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.cli.errors import ToolFailed

PROPERTIES = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "ignore.error",
    "null.marker",
)


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parse_key = _flag(properties, "parse.key")
        self._parse_headers = _flag(properties, "parse.headers")
        self._ignore_error = _flag(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._headers_delimiter = properties.get("headers.delimiter", "\t").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._header_key_separator = properties.get("headers.key.separator", ":").encode()
        marker = properties.get("null.marker")
        self._null_marker = None if marker is None else marker.encode()
        self._number = 0
        self._check()

    def _check(self) -> None:
        separators = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._header_key_separator,
        }
        names = list(separators)
        for at, name in enumerate(names):
            for other in names[at + 1 :]:
                if separators[name] == separators[other]:
                    raise ToolFailed(f"{name} and {other} may not be equal")
        if self._null_marker is None:
            return
        for name, separator in {"key.separator": self._key_separator, **separators}.items():
            if self._null_marker == separator:
                raise ToolFailed(f"null.marker and {name} may not be equal")

    @property
    def plain(self) -> bool:
        """Whether a line is a value and nothing else."""
        return not (self._parse_key or self._parse_headers or self._null_marker is not None)

    def read(self, line: bytes) -> LineRecord:
        """`line` comes without its end."""
        self._number += 1
        rest = line
        headers: bytes | None = None
        key: bytes | None = None
        if self._parse_headers:
            headers, rest = self._cut(rest, self._headers_delimiter, "headers delimiter", line)
        if self._parse_key:
            key, rest = self._cut(rest, self._key_separator, "key separator", line)
        return LineRecord(self._unmark(key), self._unmark(rest), self._split_headers(headers))

    def _cut(self, text: bytes, separator: bytes, what: str, line: bytes) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator) if separator else (b"", b"-", text)
        if found:
            return before, after
        if self._ignore_error:
            return None, text
        shown = line.decode(errors="replace")
        raise ToolFailed(f"No {what} found on line number {self._number}: '{shown}'")

    def _unmark(self, text: bytes | None) -> bytes | None:
        return None if text is None or text == self._null_marker else text

    def _split_headers(self, text: bytes | None) -> list[tuple[str, bytes | None]]:
        if text is None or text == self._null_marker:
            return []
        return [self._header(pair) for pair in text.split(self._headers_separator)]

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self._header_key_separator)
        shown = pair.decode(errors="replace")
        if not found:
            if self._ignore_error:
                return shown, None
            raise ToolFailed(f"No header key separator found in pair '{shown}' on line number {self._number}")
        if key == self._null_marker:
            raise ToolFailed(
                f"Header keys should not be equal to the null marker '{shown}' on line number {self._number}"
            )
        return key.decode(errors="replace"), self._unmark(value)


def _flag(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
