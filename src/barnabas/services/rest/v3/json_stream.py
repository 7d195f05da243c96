"""Objects that stand one behind the other in a body, as they come: never more than one of them is held."""

from __future__ import annotations

import re
from collections.abc import Iterator

MARKS = re.compile(rb'\\.|["{}\[\]]', re.DOTALL)
BLANK = b" \t\r\n,"


class ObjectTooLarge(Exception):
    pass


class NotAnObject(Exception):
    pass


class ObjectSplitter:
    """Finds where objects end by counting braces outside of strings; whether they are JSON is found out later."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._scanned = 0  # bytes of what is held that were looked at
        self._depth = 0
        self._in_string = False

    @property
    def held_bytes(self) -> int:
        """Of an object that is not whole yet."""
        return len(self._held)

    def feed(self, part: bytes) -> Iterator[bytes]:
        self._held += part
        while True:
            end = self._scan()
            if end is None:
                break
            found = bytes(self._held[:end]).strip(BLANK)
            del self._held[:end]
            self._scanned = 0
            if len(found) > self._bytes_max:
                raise ObjectTooLarge
            yield found
        if len(self._held) > self._bytes_max:
            raise ObjectTooLarge
        if not self._depth and bytes(self._held).strip(BLANK):
            raise NotAnObject

    def finish(self) -> None:
        if self._depth or bytes(self._held).strip(BLANK):
            raise NotAnObject

    def _scan(self) -> int | None:
        """Behind the end of the first object that is whole."""
        for mark in MARKS.finditer(self._held, self._scanned):
            text = mark[0]
            if text == b'"':
                self._in_string = not self._in_string
            elif self._in_string or text[0] == 0x5C:
                continue
            elif text in b"{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self._depth = 0
                    return mark.end()
        # A backslash at the end belongs to what comes next.
        self._scanned = len(self._held) - (1 if self._held.endswith(b"\\") and self._odd_backslashes() else 0)
        return None

    def _odd_backslashes(self) -> bool:
        stripped = self._held.rstrip(b"\\")
        return (len(self._held) - len(stripped)) % 2 == 1
