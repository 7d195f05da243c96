"""Random messages for comparing codecs: every declared message, and values for it that are valid in one version.

All comes from one seeded `random.Random`, so that a failure is replayed by its seed.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import barnabas.wire.messages
import barnabas.wire.records
from barnabas.wire import headers
from barnabas.wire.schema import Message
from barnabas.wire.shapes import Field, Kind, fields_of
from barnabas.wire.uuids import ONE_UUID, ZERO_UUID, Uuid

M = TypeVar("M", bound=Message)

INTEGER_BITS = {
    Kind.INT8: (8, True),
    Kind.INT16: (16, True),
    Kind.UINT16: (16, False),
    Kind.INT32: (32, True),
    Kind.UINT32: (32, False),
    Kind.INT64: (64, True),
}
FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 1e308, 5e-324, float("inf"), float("-inf"))
ALPHABET = 'abcXYZ09 _-.\0\n"\\\x7f\x80é€ßжש中日\uffff🙂𝄞'
# Around the places where a compact length takes another byte, rarely.
LONG_LENGTHS = (126, 127, 128, 129, 16_382, 16_383, 16_384)


def message_classes() -> list[type[Message]]:
    """Every message and record that is declared, in a stable order."""
    found: list[type[Message]] = [headers.RequestHeader, headers.ResponseHeader]
    for package in (barnabas.wire.messages, barnabas.wire.records):
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for item in vars(module).values():
                if isinstance(item, type) and issubclass(item, Message) and item.__module__ == module.__name__:
                    found.append(item)
    return found


def versions_of(cls: type[Message]) -> range:
    low, high = cls.valid_versions
    return range(low, high + 1)


def messages_and_versions() -> Iterator[tuple[type[Message], int]]:
    for cls in message_classes():
        for version in versions_of(cls):
            yield cls, version


class RandomMessages:
    """`choose` may decide a field's value in place of chance; NotImplemented from it leaves the field to chance."""

    def __init__(self, seed: object, choose: Callable[[type[Any], Field], Any] | None = None) -> None:
        self.random = random.Random(str(seed))
        self._choose = choose

    def message(self, cls: type[M], version: int, *, default_share: float = 0.3) -> M:
        """Fields outside the version keep their default; tagged ones keep it in `default_share` of the cases."""
        message: M = self._struct(cls, version, default_share, 0)
        return message

    def _struct(self, cls: type[Any], version: int, default_share: float, depth: int) -> Any:
        values: dict[str, Any] = {}
        for item in fields_of(cls):
            if not item.in_version(version):
                continue
            if item.is_tagged(version) and self.random.random() < default_share:
                continue
            chosen = self._choose(cls, item) if self._choose else NotImplemented
            values[item.name] = self._field(item, version, default_share, depth) if chosen is NotImplemented else chosen
        return cls(**values)

    def _field(self, item: Field, version: int, default_share: float, depth: int) -> Any:
        if item.is_nullable(version) and self.random.random() < 0.25:
            return None
        if not item.is_array:
            return self._value(item, version, default_share, depth)
        return [self._value(item, version, default_share, depth + 1) for _ in range(self._count(item, depth))]

    def _count(self, item: Field, depth: int) -> int:
        if item.kind is not Kind.STRUCT and depth < 2 and self.random.random() < 0.04:
            return self.random.choice((126, 127, 128, 300))
        return self.random.choice((0, 1, 1, 2, 3) if depth < 2 else (0, 1, 1, 2))

    def _value(self, item: Field, version: int, default_share: float, depth: int) -> Any:
        match item.kind:
            case Kind.STRUCT:
                return self._struct(item.struct, version, default_share, depth)  # type: ignore[arg-type]
            case Kind.BOOL:
                return self.random.random() < 0.5
            case Kind.FLOAT64:
                return self.random.choice((*FLOATS, self.random.uniform(-1e9, 1e9)))
            case Kind.STRING:
                return self.text()
            case Kind.BYTES | Kind.RECORDS:
                return self.random.randbytes(self._length())
            case Kind.UUID:
                return self.random.choice((ZERO_UUID, ONE_UUID, Uuid(self.random.randbytes(16))))
        return self.integer(item.kind)

    def integer(self, kind: Kind) -> int:
        bits, signed = INTEGER_BITS[kind]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return self.random.choice((low, low + 1, -signed, 0, 1, high - 1, high, self.random.randint(low, high)))

    def text(self) -> str:
        letters = self.random.choices(ALPHABET, k=min(self._length(), 200))
        text = "".join(letters)
        return text * 60 if self.random.random() < 0.01 else text

    def _length(self) -> int:
        chance = self.random.random()
        if chance < 0.02:
            return self.random.choice(LONG_LENGTHS)
        return 0 if chance < 0.2 else self.random.randint(1, 12)
