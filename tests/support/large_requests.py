"""Requests at their size limits: one array of a message, at whatever depth, is filled with as much as is allowed.

Every array of every request can be chosen. Its elements name things that exist, things that do not, or one thing again
and again; all comes from one seeded `random.Random`, so that a failure is replayed by its seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from barnabas.client.exchange import request_frame
from barnabas.wire.schema import Request
from barnabas.wire.shapes import Field, Kind, fields_of
from barnabas.wire.uuids import Uuid

Path = tuple[Field, ...]


class Naming(Enum):
    SAME = "same"  # one thing that exists, again and again
    KNOWN = "known"  # things that exist, in turns
    UNKNOWN = "unknown"  # different things that do not exist


def array_paths(cls: type[Any], version: int) -> Iterator[Path]:
    """The way to each array of a message: itself last, the arrays and structs around it before."""
    for item in fields_of(cls):
        if not item.in_version(version):
            continue
        if item.is_array:
            yield (item,)
        if item.struct is not None:
            for rest in array_paths(item.struct, version):
                yield (item, *rest)


class LargeRequests:
    """`known` are the names that exist; integers, such as partitions, count up from 0 for different things."""

    def __init__(self, seed: object, known: Sequence[str], topic_ids: Sequence[Uuid] = ()) -> None:
        self.random = random.Random(str(seed))
        self._known = known
        self._topic_ids = topic_ids or (Uuid.random(),)
        self._number = 0

    def request(self, cls: type[Request], version: int, path: Path, count: int, naming: Naming) -> Request:
        request: Request = self._struct(cls, version, path, count, naming)
        return request

    def frame(self, cls: type[Request], version: int, path: Path, count: int, naming: Naming) -> bytes:
        return bytes(request_frame(self.request(cls, version, path, count, naming), version, 1, "large"))

    def _struct(self, cls: type[Any], version: int, path: Path, count: int, naming: Naming) -> Any:
        values: dict[str, Any] = {}
        for item in fields_of(cls):
            if not item.in_version(version):
                continue
            chosen = bool(path) and item == path[0]
            rest = path[1:] if chosen else ()
            if item.is_array:
                times = count if chosen and not rest else 1
                values[item.name] = [self._value(item, version, rest, count, naming) for _ in range(times)]
            elif not item.is_tagged(version) or chosen:
                values[item.name] = self._value(item, version, rest, count, naming)
        return cls(**values)

    def _value(self, item: Field, version: int, path: Path, count: int, naming: Naming) -> Any:
        self._number += 1
        number = 0 if naming is Naming.SAME else self._number
        match item.kind:
            case Kind.STRUCT:
                return self._struct(item.struct, version, path, count, naming)  # type: ignore[arg-type]
            case Kind.BOOL:
                return self.random.random() < 0.5
            case Kind.FLOAT64:
                return 1.0
            case Kind.STRING:
                return f"x{number}" if naming is Naming.UNKNOWN else self._known[number % len(self._known)]
            case Kind.BYTES | Kind.RECORDS:
                return b""
            case Kind.UUID:
                return Uuid.random() if naming is Naming.UNKNOWN else self._topic_ids[number % len(self._topic_ids)]
            case Kind.INT8:
                return number % 4
            case Kind.INT16 | Kind.UINT16:
                return number % 1000
        return self._plain_number(item, number)

    def _plain_number(self, item: Field, number: int) -> int:
        if item.name.endswith("_ms") or "timeout" in item.name:
            return 10_000
        return number
