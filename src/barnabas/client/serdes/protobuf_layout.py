"""What is known of a message's fields before the first record: reading and writing look at no descriptor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from barnabas.client.serdes.protobuf_values import MESSAGE_TYPES, is_map, plain

WELL_KNOWN = "google.protobuf."
ONE, LIST, MAP = range(3)
Convert = Callable[[Any], Any] | None


def layout_of(descriptor: Descriptor) -> Layout:
    """Messages may hold themselves, and thousands of others."""
    known = {descriptor.full_name: Layout()}
    pending = [descriptor]
    while pending:
        each = pending.pop()
        pending += known[each.full_name].look_at(each, known)
    return known[descriptor.full_name]


class Layout:
    __slots__ = ("_inner", "_lists", "_read", "is_own")

    def __init__(self) -> None:
        self.is_own = True
        self._read: list[tuple[str, bool, int, Convert]] = []
        self._lists: list[str] = []
        self._inner: list[tuple[str, int, Layout]] = []

    def look_at(self, descriptor: Descriptor, known: dict[str, Layout]) -> list[Descriptor]:
        """The messages in it that are not known yet."""
        met: dict[str, Descriptor] = {}
        for field in descriptor.fields:
            shape = MAP if is_map(field) else LIST if field.is_repeated else ONE
            each = field.message_type.fields_by_name["value"] if shape == MAP else field
            if shape == LIST:
                self._lists.append(field.name)
            inner = each.message_type if each.type in MESSAGE_TYPES else None
            if inner is not None and inner.full_name not in known:
                known[inner.full_name], met[inner.full_name] = Layout(), inner
            self._read.append((field.name, field.has_presence, shape, self._convert(each, field.name, shape, known)))
        return list(met.values())

    def _convert(self, field: FieldDescriptor, name: str, shape: int, known: dict[str, Layout]) -> Convert:
        if field.type == FieldDescriptor.TYPE_ENUM:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        if field.type not in MESSAGE_TYPES:
            return None
        inner = field.message_type
        if inner.full_name.startswith(WELL_KNOWN):
            self.is_own = False
            return plain
        layout = known[inner.full_name]
        self._inner.append((name, shape, layout))
        return layout.read

    def read(self, message: Message) -> dict[str, Any]:
        """As `plain` reads it."""
        found: dict[str, Any] = {}
        for name, has_presence, shape, convert in self._read:
            if has_presence and not message.HasField(name):
                continue
            value = getattr(message, name)
            if shape == LIST:
                found[name] = list(value) if convert is None else [convert(each) for each in value]
            elif shape == MAP:
                found[name] = dict(value) if convert is None else {key: convert(value[key]) for key in value}
            else:
                found[name] = value if convert is None else convert(value)
        return found

    def suits(self, value: Any) -> bool:
        """Whether the message's constructor takes a value as `fill` does: it would take a text for a list of its
        characters, and has its own mind about well-known types."""
        if not self.is_own or type(value) is not dict:
            return False
        for name in self._lists:
            if value.get(name) is not None and type(value[name]) not in (list, tuple):
                return False
        for name, shape, layout in self._inner:
            inner = value.get(name)
            if inner is None:
                continue
            if shape == MAP and type(inner) is not dict:
                return False
            items = (inner,) if shape == ONE else inner if shape == LIST else inner.values()
            if not all(map(layout.suits, items)):
                return False
        return True
