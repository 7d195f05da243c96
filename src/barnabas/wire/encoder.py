"""Writes the encoder of one message and version: a single function, structs inlined.

As in the decoder, fixed-width values wait in `pending` and are written with one `struct` call together with the length
of the next field of variable width.

The encoder of a large message is a generator that yields every `ELEMENTS_PER_STEP` elements, as the decoder's.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas.wire.primitives import (
    BYTES_PER_ELEMENT_BITS,
    ELEMENTS_PER_STEP,
    FORMATS,
    MAX_STRING_LENGTH,
    EncodeError,
    LayoutsByCount,
    put_uvarint,
)
from barnabas.wire.schema import Message
from barnabas.wire.shapes import Field, Kind, fields_of
from barnabas.wire.source import Source

Piece = tuple[str, str]


def encoder_source(cls: type[Message], version: int, *, in_steps: bool = False) -> Source:
    """The source of `encode(message, out)`, or of a generator that does it: if it fails, `out` is as it was."""
    source = Source(
        put_uvarint=put_uvarint,
        EncodeError=EncodeError,
        pack=struct.pack,
        wrong=(struct.error, TypeError, AttributeError, ValueError, OverflowError),
    )
    writer = _Writer(source, version, cls.is_flexible(version), in_steps)
    source.add(0, "def encode(message, out):")
    if in_steps:
        source.add(1, f"step_left = {ELEMENTS_PER_STEP}")
    source.add(1, "start = len(out)", "try:")
    writer.struct(2, cls, "message")
    writer.flush(2)
    # A generator without an array would have no yield.
    source.add(2, *(["if not step_left:", "    yield"] if in_steps else []), "return")
    source.add(1, "except EncodeError:", "    del out[start:]", "    raise")
    source.add(1, "except wrong as error:", "    del out[start:]")
    source.add(2, f"raise EncodeError(f'{cls.__name__} v{version} cannot hold these values: {{error}}') from error")
    return source


class _Writer:
    def __init__(self, source: Source, version: int, flexible: bool, in_steps: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.in_steps = in_steps
        self._out = "out"
        self._pending: list[Piece] = []

    def flush(self, depth: int) -> None:
        self._write(depth, self._take())

    def _take(self) -> list[Piece]:
        pending, self._pending = self._pending, []
        return pending

    def _write(self, depth: int, pieces: list[Piece]) -> None:
        codes = "".join(code for code, _ in pieces)
        if codes == "B":
            self.source.add(depth, f"{self._out}.append({pieces[0][1]})")
        elif pieces:
            pack = self.source.bind("pack", struct.Struct(">" + codes).pack)
            self.source.add(depth, f"{self._out} += {pack}({', '.join(expression for _, expression in pieces)})")

    def struct(self, depth: int, cls: type[Any], value: str) -> None:
        """What is pending in the end may be written with what follows."""
        tagged = []
        fields = fields_of(cls)
        for item in fields:
            if not item.in_version(self.version) and not item.ignorable:
                self.source.add(depth, f"if {value}.{item.name} != {self._default(item)}:")
                self.source.add(depth + 1, f"raise EncodeError('{item.name} cannot be said in version {self.version}')")
        for item in fields:
            if item.is_tagged(self.version) and item.in_version(self.version):
                tagged.append(item)
            elif item.in_version(self.version):
                self._value(depth, item, f"{value}.{item.name}")
        if self.flexible:
            self._tagged_fields(depth, value, tagged)

    def _default(self, item: Field) -> str:
        return self.source.constant(item.default_factory() if item.default_factory else item.default)

    def _value(self, depth: int, item: Field, value: str) -> None:
        if item.is_array:
            self._array(depth, item, value)
        elif item.kind in FORMATS:
            self._pending.append((FORMATS[item.kind], value))
        elif item.kind is Kind.UUID:
            self.source.add(depth, f"if len({value}) != 16:", f"    raise EncodeError('{item.name} is not a UUID')")
            self._pending.append(("16s", value))
        elif item.kind is Kind.STRUCT:
            self._struct_value(depth, item, value)
        else:
            self._bytes(depth, item, value)

    def _struct_value(self, depth: int, item: Field, expression: str) -> None:
        assert item.struct is not None
        value = self.source.fresh("value")
        self.source.add(depth, f"{value} = {expression}")
        if not item.is_nullable(self.version):
            self.struct(depth, item.struct, value)
            return
        self.source.add(depth, f"if {value} is None:")
        self._write(depth + 1, [*self._pending, ("B", "0" if item.is_tagged(self.version) else "255")])
        self.source.add(depth, "else:")
        self._pending.append(("B", "1"))
        self.struct(depth + 1, item.struct, value)
        self.flush(depth + 1)

    def _null(self, depth: int, item: Field, value: str, before: list[Piece], null: Piece) -> None:
        self.source.add(depth, f"if {value} is None:")
        if item.is_nullable(self.version):
            self._write(depth + 1, [*before, null])
        else:
            self.source.add(depth + 1, f"raise EncodeError('{item.name} must not be null in version {self.version}')")
        self.source.add(depth, "else:")

    def _compact_length(self, depth: int, before: list[Piece], length: str) -> None:
        self.source.add(depth, f"if {length} < 127:")
        self._write(depth + 1, [*before, ("B", f"{length} + 1")])
        self.source.add(depth, "else:")
        self._write(depth + 1, before)
        self.source.add(depth + 1, f"put_uvarint({self._out}, {length} + 1)")

    def _bytes(self, depth: int, item: Field, expression: str) -> None:
        add, data, length = self.source.add, self.source.fresh("data"), self.source.fresh("length")
        is_string = item.kind is Kind.STRING
        compact = self.flexible and item.is_flexible(self.version)
        code = "B" if compact else "h" if is_string else "i"
        before = self._take()
        add(depth, f"{data} = {expression}")
        self._null(depth, item, data, before, (code, "0" if compact else "-1"))
        if is_string:
            add(depth + 1, f"{data} = {data}.encode()")
        add(depth + 1, f"{length} = len({data})")
        if is_string:
            add(depth + 1, f"if {length} > {MAX_STRING_LENGTH}:")
            add(depth + 2, f"raise EncodeError('{item.name} is longer than a string may be')")
        if compact:
            self._compact_length(depth + 1, before, length)
        else:
            self._write(depth + 1, [*before, (code, length)])
        add(depth + 1, f"{self._out} += {data}")
        if self.in_steps:
            add(depth + 1, f"step_left -= {length} >> {BYTES_PER_ELEMENT_BITS}")

    def _array(self, depth: int, item: Field, expression: str) -> None:
        add, items, count = self.source.add, self.source.fresh("items"), self.source.fresh("count")
        before = self._take()
        add(depth, f"{items} = {expression}")
        self._null(depth, item, items, before, ("B", "0") if self.flexible else ("i", "-1"))
        add(depth + 1, f"{count} = len({items})")
        if item.kind in FORMATS:
            self._numbers(depth + 1, before, FORMATS[item.kind], items, count)
            return
        if self.flexible:
            self._compact_length(depth + 1, before, count)
        else:
            self._write(depth + 1, [*before, ("i", count)])
        value = self.source.fresh("value")
        add(depth + 1, f"for {value} in {items}:")
        if self.in_steps:
            add(depth + 2, "step_left -= 1", "if step_left <= 0:", "    yield")
            add(depth + 3, f"step_left = {ELEMENTS_PER_STEP}")
        if item.struct is not None:
            self.struct(depth + 2, item.struct, value)
        else:
            self._value(depth + 2, item.element(), value)
        self.flush(depth + 2)

    def _numbers(self, depth: int, before: list[Piece], code: str, items: str, count: str) -> None:
        head: Piece = ("B", f"{count} + 1") if self.flexible else ("i", count)
        beginning = "".join(code for code, _ in [*before, head])
        layouts = self.source.bind("layouts", LayoutsByCount(beginning, code, lambda layout: layout.pack))
        arguments = ", ".join(expression for _, expression in [*before, head])
        self.source.add(depth, f"if {count} < {LayoutsByCount.LIMIT}:")
        self.source.add(depth + 1, f"{self._out} += {layouts}[{count}]({arguments}, *{items})")
        self.source.add(depth, "else:")
        if self.flexible:
            self._compact_length(depth + 1, before, count)
        else:
            self._write(depth + 1, [*before, head])
        self.source.add(depth + 1, f"{self._out} += pack(f'>{{{count}}}{code}', *{items})")

    def _tagged_fields(self, depth: int, value: str, tagged: list[Field]) -> None:
        if not tagged:
            self._pending.append(("B", "0"))
            return
        add = self.source.add
        tags, part, tag = (self.source.fresh(name) for name in ("tags", "part", "tag"))
        self.flush(depth)
        add(depth, f"{tags} = []")
        outer = self._out
        for item in sorted(tagged, key=lambda item: item.tag or 0):
            add(depth, f"if {value}.{item.name} != {self._default(item)}:", f"    {part} = bytearray()")
            self._out = part
            self._value(depth + 1, item, f"{value}.{item.name}")
            self.flush(depth + 1)
            add(depth + 1, f"{tags}.append(({item.tag}, {part}))")
        self._out = outer
        add(depth, f"{outer}.append(len({tags}))", f"for {tag}, {part} in {tags}:")
        add(depth + 1, f"put_uvarint({outer}, {tag})", f"put_uvarint({outer}, len({part}))", f"{outer} += {part}")
