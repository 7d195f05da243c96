"""Writes the decoder of one message and version: a single function, structs inlined.

Neighbouring fixed-width values wait in `pending` until something of variable width comes, and are then read with one
`struct` call together with that one's length: a partition of a fetch request is one call. Every declared length is
checked against the bytes that are left before anything is made of it, and every element of an array is counted.

A request is read in one go as long as it has few elements. The decoder of one with many is a generator: it yields every
`ELEMENTS_PER_STEP` elements, so that whoever drives it can let others run.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from barnabas.wire.primitives import (
    BYTES_PER_ELEMENT_BITS,
    ELEMENTS_PER_STEP,
    FORMATS,
    MAX_REQUEST_ELEMENTS,
    MAX_STRING_LENGTH,
    MAX_TAGGED_FIELDS,
    DecodeError,
    LayoutsByCount,
    TooManyElements,
    read_uvarint,
)
from barnabas.wire.schema import Message, Request
from barnabas.wire.shapes import Field, Kind, fields_of
from barnabas.wire.source import Source
from barnabas.wire.uuids import Uuid


def decoder_source(
    cls: type[Message], version: int, max_elements: int = MAX_REQUEST_ELEMENTS, *, in_steps: bool = False
) -> Source:
    """The source of `decode(buffer, position, end) -> (message, position)`, or of a generator that returns that.

    The number of elements is limited in requests only: responses come from whom we have asked.
    """
    source = Source(
        read_uvarint=read_uvarint,
        DecodeError=DecodeError,
        Uuid=Uuid,
        unpack_from=struct.unpack_from,
        too_short=(struct.error, IndexError),
        too_long=_too_long,
        is_null=_is_null,
        too_many=partial(_too_many, max_elements),
    )
    reader = _Reader(source, version, cls.is_flexible(version), limited=issubclass(cls, Request), in_steps=in_steps)
    source.add(0, "def decode(buffer, position, end):")
    source.add(1, "if type(buffer) is not memoryview:", "    buffer = memoryview(buffer)")
    if reader.limited:
        source.add(1, f"elements_left = {max_elements}")
    if in_steps:
        source.add(1, f"step_left = {ELEMENTS_PER_STEP}")
    source.add(1, "try:")
    reader.struct(2, cls, "message")
    reader.flush(2)
    # A generator without an array would have no yield.
    source.add(2, *(["if not step_left:", "    yield"] if in_steps else []), "return message, position")
    source.add(1, "except too_short as error:")
    source.add(2, f"raise DecodeError('{cls.__name__} version {version} ends too early') from error")
    return source


def _too_long(name: str) -> DecodeError:
    return DecodeError(f"{name} says that it is longer than what is left of the message")


def _is_null(name: str) -> DecodeError:
    return DecodeError(f"{name} must not be null")


def _too_many(limit: int, name: str) -> TooManyElements:
    return TooManyElements(f"{name} brings the request above {limit} elements")


def least_width(cls: type[Any], version: int, flexible: bool) -> int:
    """The bytes that a struct takes at least: how many of them can a message hold?"""
    width = 1 if flexible else 0
    for item in fields_of(cls):
        if item.in_version(version) and not item.is_tagged(version):
            width += _least_width(item, version, flexible)
    return width


def _least_width(item: Field, version: int, flexible: bool) -> int:
    if item.is_array:
        return 1 if flexible else 4
    if item.kind in FORMATS:
        return struct.calcsize(FORMATS[item.kind])
    if item.kind is Kind.UUID:
        return 16
    if item.struct is not None:
        return 1 if item.is_nullable(version) else least_width(item.struct, version, flexible)
    if flexible and item.is_flexible(version):
        return 1
    return 2 if item.kind is Kind.STRING else 4


class _Reader:
    def __init__(self, source: Source, version: int, flexible: bool, limited: bool, in_steps: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.limited = limited
        self.in_steps = in_steps
        self._pending: list[tuple[str, str]] = []
        self._afterwards: list[str] = []

    def flush(self, depth: int) -> None:
        """Reads what is pending."""
        pending, self._pending = self._pending, []
        afterwards, self._afterwards = self._afterwards, []
        if not pending:
            return
        if [code for code, _ in pending] == ["B"]:
            self.source.add(depth, f"{pending[0][1]} = buffer[position]", "position += 1")
            return
        layout = struct.Struct(">" + "".join(code for code, _ in pending))
        targets = "".join(f"{target}, " for _, target in pending)
        unpack = self.source.bind("unpack", layout.unpack_from)
        self.source.add(depth, f"{targets}= {unpack}(buffer, position)", f"position += {layout.size}", *afterwards)

    def struct(self, depth: int, cls: type[Any], *targets: str) -> None:
        """What is pending in the end may be read with what follows."""
        self.source.create(depth, cls, *targets)
        tagged = []
        for item in fields_of(cls):
            target = f"{targets[-1]}.{item.name}"
            if not item.in_version(self.version):
                self.source.set_default(depth, item, target)
            elif item.is_tagged(self.version):
                self.source.set_default(depth, item, target)
                tagged.append((item, target))
            else:
                self._value(depth, item, target)
        if self.flexible:
            self._tagged_fields(depth, tagged)

    def _value(self, depth: int, item: Field, target: str) -> None:
        if item.is_array:
            self._array(depth, item, target)
        elif item.kind in FORMATS:
            self._pending.append((FORMATS[item.kind], target))
        elif item.kind is Kind.UUID:
            raw = self.source.fresh("raw")
            self._pending.append(("16s", raw))
            self._afterwards.append(f"{target} = Uuid({raw})")
        elif item.kind is Kind.STRUCT:
            self._struct_value(depth, item, target)
        else:
            self._bytes(depth, item, target)

    def _struct_value(self, depth: int, item: Field, target: str) -> None:
        assert item.struct is not None
        value = self.source.fresh("value")
        if not item.is_nullable(self.version):
            self.struct(depth, item.struct, target, value)
            return
        marker = self.source.fresh("marker")
        self._pending.append(("B", marker))
        self.flush(depth)
        self.source.add(depth, f"if {marker} {'== 0' if item.is_tagged(self.version) else '> 127'}:")
        self.source.add(depth + 1, f"{target} = None")
        self.source.add(depth, "else:")
        self.struct(depth + 1, item.struct, target, value)
        self.flush(depth + 1)

    def _length(self, depth: int, item: Field, short: bool, flexible: bool) -> str:
        """Reads a length or count; the name of it holds -1 for null."""
        name = self.source.fresh("length")
        self._pending.append(("B" if flexible else "h" if short else "i", name))
        self.flush(depth)
        if flexible:
            self.source.add(depth, f"if {name} > 127:")
            if item.kind is Kind.RECORDS:
                self._batch_length(depth + 1, name)
            else:
                self.source.add(depth + 1, f"{name}, position = read_uvarint(buffer, position - 1)")
            if short:
                self.source.add(depth + 1, f"if {name} > {MAX_STRING_LENGTH + 1}:")
                self.source.add(depth + 2, f"raise DecodeError('{item.name} is longer than a string may be')")
            self.source.add(depth, f"{name} -= 1")
        return name

    def _batch_length(self, depth: int, name: str) -> None:
        """Two or three bytes are the length of nearly every batch: read without a call."""
        add, second, third = self.source.add, self.source.fresh("second"), self.source.fresh("third")
        add(depth, f"{second} = buffer[position]", f"if {second} < 128:")
        add(depth + 1, f"{name} += ({second} << 7) - 0x80", "position += 1")
        add(depth, "else:", f"    {third} = buffer[position + 1]", f"    if {third} < 128:")
        add(depth + 2, f"{name} += ({second} << 7) + ({third} << 14) - 0x4080", "position += 2")
        add(depth + 1, "else:", f"    {name}, position = read_uvarint(buffer, position - 1)")

    def _unless_null(self, depth: int, item: Field, target: str, length: str) -> None:
        self.source.add(depth, f"if {length} < 0:")
        if item.is_nullable(self.version):
            self.source.add(depth + 1, f"{target} = None")
        else:
            self.source.add(depth + 1, f"raise is_null('{item.name}')")
        self.source.add(depth, "else:")

    def _bytes(self, depth: int, item: Field, target: str) -> None:
        add, stop = self.source.add, self.source.fresh("stop")
        is_string = item.kind is Kind.STRING
        length = self._length(depth, item, is_string, self.flexible and item.is_flexible(self.version))
        self._unless_null(depth, item, target, length)
        add(depth + 1, f"{stop} = position + {length}", f"if {stop} > end:", f"    raise too_long('{item.name}')")
        view = f"buffer[position:{stop}]"
        if is_string:
            add(depth + 1, f"{target} = {view}.tobytes().decode('utf-8', 'replace')")
        else:
            add(depth + 1, f"{target} = {view if item.kind is Kind.RECORDS else f'{view}.tobytes()'}")
        if self.in_steps and item.kind is not Kind.RECORDS:
            add(depth + 1, f"step_left -= {length} >> {BYTES_PER_ELEMENT_BITS}")
        add(depth + 1, f"position = {stop}")

    def _array(self, depth: int, item: Field, target: str) -> None:
        count = self._length(depth, item, False, self.flexible)
        self._unless_null(depth, item, target, count)
        element = item.element()
        width = _least_width(element, self.version, self.flexible)
        self.source.add(depth + 1, f"if {count} * {width} > end - position:", f"    raise too_long('{item.name}')")
        if item.kind in FORMATS:
            self._numbers(depth + 1, item, target, count, width)
        else:
            self._elements(depth + 1, element, target, count)

    def _numbers(self, depth: int, item: Field, target: str, count: str, width: int) -> None:
        code = FORMATS[item.kind]
        self._count_elements(depth, item.name, count)
        layouts = self.source.bind("layouts", LayoutsByCount("", code, lambda layout: layout.unpack_from))
        self.source.add(depth, f"if {count} < {LayoutsByCount.LIMIT}:")
        self.source.add(depth + 1, f"{target} = [*{layouts}[{count}](buffer, position)]")
        self.source.add(depth, "else:")
        self.source.add(depth + 1, f"{target} = [*unpack_from(f'>{{{count}}}{code}', buffer, position)]")
        self.source.add(depth, f"position += {count}{f' * {width}' if width > 1 else ''}")

    def _count_elements(self, depth: int, name: str, count: str) -> None:
        if self.limited:
            self.source.add(
                depth, f"elements_left -= {count}", "if elements_left < 0:", f"    raise too_many('{name}')"
            )

    def _elements(self, depth: int, element: Field, target: str, count: str) -> None:
        self._count_elements(depth, element.name, count)
        items, value = self.source.fresh("items"), self.source.fresh("value")
        # Most arrays are short: counting down is quicker than a range object.
        self.source.add(depth, f"{target} = {items} = []", f"while {count}:", f"    {count} -= 1")
        if self.in_steps:
            self.source.add(depth + 1, "step_left -= 1", "if step_left <= 0:", "    yield")
            self.source.add(depth + 2, f"step_left = {ELEMENTS_PER_STEP}")
        if element.struct is not None:
            self.struct(depth + 1, element.struct, value)
        else:
            self._value(depth + 1, element, value)
        self.flush(depth + 1)
        self.source.add(depth + 1, f"{items}.append({value})")

    def _tagged_fields(self, depth: int, tagged: list[tuple[Field, str]]) -> None:
        add = self.source.add
        count, tag, size, stop = (self.source.fresh(name) for name in ("count", "tag", "size", "stop"))
        self._pending.append(("B", count))
        self.flush(depth)
        add(depth, f"if {count}:", f"    if {count} > {MAX_TAGGED_FIELDS}:")
        add(depth + 2, f"raise DecodeError('there are more than {MAX_TAGGED_FIELDS} tagged fields')")
        self._count_elements(depth + 1, "a tagged field", count)
        add(depth + 1, f"while {count}:", f"    {count} -= 1")
        depth += 2
        for name in (tag, size):
            add(depth, f"{name} = buffer[position]", "position += 1", f"if {name} > 127:")
            add(depth + 1, f"{name}, position = read_uvarint(buffer, position - 1)")
        add(depth, f"{stop} = position + {size}", f"if {stop} > end:", "    raise too_long('a tagged field')")
        for index, (item, target) in enumerate(tagged):
            add(depth, f"{'el' if index else ''}if {tag} == {item.tag}:")
            self._value(depth + 1, item, target)
            self.flush(depth + 1)
            add(depth + 1, f"if position != {stop}:")
            add(depth + 2, f"raise DecodeError('{item.name} is not as long as its tag says')")
        if tagged:
            add(depth, "else:")
        add(depth + bool(tagged), f"position = {stop}")
