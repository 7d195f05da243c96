"""Compiles declared messages to straight-line Python: one decoder and one encoder per class and version.

The generated source reads neighbouring fixed-width fields with one `struct` call and checks every declared length
against the bytes that are left before it acts on it: nothing is allocated because a peer said so. `Source` collects
the lines; `_Reader` and `_Writer` know how each type looks on the wire.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.wire.schema import Buffer, Message
from barnabas.wire.shapes import Field, Kind, fields_of
from barnabas.wire.uuids import Uuid

FORMATS = {
    Kind.BOOL: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.UINT16: "H",
    Kind.INT32: "i",
    Kind.UINT32: "I",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
}
MAX_STRING_LENGTH = 0x7FFF
NULL_SHORT_LENGTH = b"\xff\xff"
NULL_LENGTH = b"\xff\xff\xff\xff"


class CodecError(Exception):
    """Root of what can go wrong between objects and bytes."""


class DecodeError(CodecError):
    """The peer's fault: these bytes are not that message."""


class EncodeError(CodecError):
    """Our own fault: this object cannot be said in that version."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError("a variable-length number has more than five bytes")


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


class Source:
    """Python source under construction, with the objects it refers to."""

    def __init__(self, names: dict[str, Any] | None = None, numbers: Iterator[int] | None = None) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {} if names is None else names
        self._numbers = numbers or itertools.count(1)

    def function(self) -> Source:
        """Another function's source that shares the names."""
        return Source(self.names, self._numbers)

    def add(self, depth: int, *lines: str) -> None:
        self.lines.extend("    " * depth + line for line in lines)

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def bind(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        exec(code, self.names)
        compiled: Callable[..., Any] = self.names[function]
        return compiled


def install_constructor(cls: type[Any]) -> None:
    source = Source()
    source.names["NO_DEFAULT"] = missing = object()
    fields = fields_of(cls)
    arguments = []
    source.lines.append("")
    for item in fields:
        default = missing if item.default_factory else item.default
        arguments.append(f"{item.name}={source.bind('default', default)}")
        if item.default_factory:
            factory = source.bind("factory", item.default_factory)
            value = f"{factory}() if {item.name} is {source.bind('missing', missing)} else {item.name}"
        else:
            value = item.name
        source.add(1, f"self.{item.name} = {value}")
    source.lines[0] = f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}):"
    if not fields:
        source.add(1, "pass")
    cls.__init__ = source.compile("__init__", f"{cls.__name__} constructor")


def compile_decoder(cls: type[Message], version: int) -> Callable[[Buffer, int, int], tuple[Any, int]]:
    low, high = cls.valid_versions
    if not low <= version <= high:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    source = Source()
    source.names.update(read_uvarint=read_uvarint, DecodeError=DecodeError, Uuid=Uuid, unpack_from=struct.unpack_from)
    reader = _Reader(source, version, cls.is_flexible(version))
    inner = source.compile(reader.function(cls), f"{cls.__name__} v{version} decoder")

    def decode(buffer: Buffer, position: int, end: int) -> tuple[Any, int]:
        try:
            result: tuple[Any, int] = inner(buffer, position, end)
            return result
        except (struct.error, IndexError) as error:
            raise DecodeError(f"{cls.__name__} version {version} ends too early") from error

    return decode


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, bytearray], None]:
    low, high = cls.valid_versions
    if not low <= version <= high:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    source = Source()
    source.names.update(put_uvarint=put_uvarint, EncodeError=EncodeError, pack=struct.pack)
    writer = _Writer(source, version, cls.is_flexible(version))
    inner = source.compile(writer.function(cls), f"{cls.__name__} v{version} encoder")

    def encode(message: Any, out: bytearray) -> None:
        try:
            inner(message, out)
        except (struct.error, TypeError, AttributeError, UnicodeError) as error:
            raise EncodeError(f"{cls.__name__} version {version} cannot hold these values: {error}") from error

    return encode


def _fixed_runs(fields: list[Field]) -> list[list[Field]]:
    """Neighbouring fixed-width fields come together, every other field stands alone."""
    runs: list[list[Field]] = []
    for item in fields:
        if item.kind in FORMATS and not item.is_array and runs and runs[-1][-1].is_fixed:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


class _Reader:
    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.functions: dict[type[Any], str] = {}
        self.finished = source.lines

    def function(self, cls: type[Any]) -> str:
        if cls in self.functions:
            return self.functions[cls]
        name = self.functions[cls] = self.source.fresh("decode")
        fields = fields_of(cls)
        present = [item for item in fields if item.in_version(self.version)]
        plain = [item for item in present if not item.is_tagged(self.version)]
        tagged = [item for item in present if item.is_tagged(self.version)]
        outer, self.source = self.source, self.source.function()
        body = self.source
        body.add(0, f"def {name}(buffer, position, end):")
        body.add(1, f"self = new({body.bind('cls', cls)})")
        body.names["new"] = object.__new__
        for item in fields:
            if item not in plain:
                self._set_default(item)
        for run in _fixed_runs(plain):
            self._run(run)
        if self.flexible:
            self._tagged_fields(tagged)
        body.add(1, "return self, position")
        self.finished.extend(body.lines)
        self.source = outer
        return name

    def _set_default(self, item: Field) -> None:
        if item.default_factory:
            self.source.add(1, f"self.{item.name} = {self.source.bind('factory', item.default_factory)}()")
        else:
            self.source.add(1, f"self.{item.name} = {self.source.bind('default', item.default)}")

    def _run(self, run: list[Field]) -> None:
        if not run[0].is_fixed:
            self._value(1, run[0], f"self.{run[0].name}")
            return
        layout = struct.Struct(">" + "".join(FORMATS[item.kind] for item in run))
        unpack = self.source.bind("unpack", layout.unpack_from)
        targets = ", ".join(f"self.{item.name}" for item in run)
        self.source.add(1, f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buffer, position)")
        self.source.add(1, f"position += {layout.size}")

    def _length(self, depth: int, name: str, short: bool, flexible: bool) -> None:
        add = self.source.add
        if flexible:
            add(depth, f"{name} = buffer[position]", "position += 1", f"if {name} > 127:")
            add(depth + 1, f"{name}, position = read_uvarint(buffer, position - 1)")
            add(depth, f"{name} -= 1")
        else:
            layout = struct.Struct(">h" if short else ">i")
            unpack = self.source.bind("unpack", layout.unpack_from)
            add(depth, f"({name},) = {unpack}(buffer, position)", f"position += {layout.size}")

    def _null_or_error(self, depth: int, item: Field, target: str, length: str) -> None:
        add = self.source.add
        add(depth, f"if {length} < 0:")
        if item.is_nullable(self.version):
            add(depth + 1, f"{target} = None")
        else:
            add(depth + 1, f"raise DecodeError('{item.name} must not be null')")

    def _value(self, depth: int, item: Field, target: str) -> None:
        if item.is_array:
            self._array(depth, item, target)
        elif item.kind in FORMATS:
            layout = struct.Struct(">" + FORMATS[item.kind])
            unpack = self.source.bind("unpack", layout.unpack_from)
            self.source.add(depth, f"({target},) = {unpack}(buffer, position)", f"position += {layout.size}")
        elif item.kind is Kind.UUID:
            self._uuid(depth, target)
        elif item.kind is Kind.STRUCT:
            self._struct(depth, item, target)
        else:
            self._bytes(depth, item, target)

    def _uuid(self, depth: int, target: str) -> None:
        self.source.add(depth, "if end - position < 16:")
        self.source.add(depth + 1, "raise IndexError")
        self.source.add(depth, f"{target} = Uuid(buffer[position : position + 16])", "position += 16")

    def _struct(self, depth: int, item: Field, target: str) -> None:
        assert item.struct is not None
        function = self.function(item.struct)
        if item.is_nullable(self.version):
            null = "== 0" if item.is_tagged(self.version) else "> 127"
            self.source.add(depth, "position += 1", f"if buffer[position - 1] {null}:")
            self.source.add(depth + 1, f"{target} = None")
            self.source.add(depth, "else:")
            depth += 1
        self.source.add(depth, f"{target}, position = {function}(buffer, position, end)")

    def _bytes(self, depth: int, item: Field, target: str) -> None:
        add, length, stop = self.source.add, self.source.fresh("length"), self.source.fresh("stop")
        self._length(depth, length, item.kind is Kind.STRING, self.flexible and item.is_flexible(self.version))
        self._null_or_error(depth, item, target, length)
        add(depth, "else:", f"    {stop} = position + {length}", f"    if {stop} > end:")
        add(depth + 2, f"raise DecodeError('{item.name} is longer than the message')")
        if item.kind is Kind.STRING:
            if self.flexible:
                add(depth + 1, f"if {length} > {MAX_STRING_LENGTH}:")
                add(depth + 2, f"raise DecodeError('{item.name} is longer than a string may be')")
            add(depth + 1, f"{target} = str(buffer[position:{stop}], 'utf-8', 'replace')")
        elif item.kind is Kind.BYTES:
            add(depth + 1, f"{target} = bytes(buffer[position:{stop}])")
        else:
            add(depth + 1, f"{target} = buffer[position:{stop}]")
        add(depth + 1, f"position = {stop}")

    def _array(self, depth: int, item: Field, target: str) -> None:
        add, count = self.source.add, self.source.fresh("count")
        self._length(depth, count, False, self.flexible)
        self._null_or_error(depth, item, target, count)
        width = struct.calcsize(FORMATS[item.kind]) if item.kind in FORMATS else 16 if item.kind is Kind.UUID else 1
        add(depth, f"elif {count} * {width} > end - position:")
        add(depth + 1, f"raise DecodeError('{item.name} declares more elements than the message has bytes')")
        add(depth, "else:")
        if item.kind in FORMATS:
            add(depth + 1, f"{target} = list(unpack_from(f'>{{{count}}}{FORMATS[item.kind]}', buffer, position))")
            add(depth + 1, f"position += {count} * {width}")
            return
        items, element = self.source.fresh("items"), self.source.fresh("element")
        add(depth + 1, f"{target} = {items} = []", f"for _ in range({count}):")
        self._value(depth + 2, item.element(), element)
        add(depth + 2, f"{items}.append({element})")

    def _tagged_fields(self, tagged: list[Field]) -> None:
        add = self.source.add
        add(1, "count = buffer[position]", "position += 1", "if count:", "    if count > 127:")
        add(3, "count, position = read_uvarint(buffer, position - 1)")
        add(2, "if count * 2 > end - position:")
        add(3, "raise DecodeError('more tagged fields are declared than the message has bytes')")
        add(2, "for _ in range(count):", "    tag, position = read_uvarint(buffer, position)")
        add(3, "size, position = read_uvarint(buffer, position)", "stop = position + size", "if stop > end:")
        add(4, "raise DecodeError('a tagged field is longer than the message')")
        for index, item in enumerate(tagged):
            add(3, f"{'el' if index else ''}if tag == {item.tag}:")
            self._value(4, item, f"self.{item.name}")
        if tagged:
            add(3, "else:")
        add(3 + bool(tagged), "position = stop")
        add(3, "if position != stop:", "    raise DecodeError('a tagged field is not as long as it says')")


class _Writer:
    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.functions: dict[type[Any], str] = {}
        self.finished = source.lines

    def function(self, cls: type[Any]) -> str:
        if cls in self.functions:
            return self.functions[cls]
        name = self.functions[cls] = self.source.fresh("encode")
        fields = fields_of(cls)
        present = [item for item in fields if item.in_version(self.version)]
        plain = [item for item in present if not item.is_tagged(self.version)]
        tagged = [item for item in present if item.is_tagged(self.version)]
        outer, self.source = self.source, self.source.function()
        body = self.source
        body.add(0, f"def {name}(self, out):")
        for item in fields:
            if item not in present and not item.ignorable:
                body.add(1, f"if self.{item.name} != {self._default(item)}:")
                body.add(2, f"raise EncodeError('{item.name} cannot be said in version {self.version}')")
        for run in _fixed_runs(plain):
            self._run(run)
        if self.flexible:
            self._tagged_fields(tagged)
        body.add(1, "return")
        self.finished.extend(body.lines)
        self.source = outer
        return name

    def _default(self, item: Field) -> str:
        return self.source.bind("default", item.default_factory() if item.default_factory else item.default)

    def _run(self, run: list[Field]) -> None:
        if not run[0].is_fixed:
            self._value(1, run[0], f"self.{run[0].name}", "out")
            return
        layout = struct.Struct(">" + "".join(FORMATS[item.kind] for item in run))
        pack = self.source.bind("pack", layout.pack)
        self.source.add(1, f"out += {pack}({', '.join(f'self.{item.name}' for item in run)})")

    def _length(self, depth: int, out: str, expression: str, short: bool, flexible: bool) -> None:
        add = self.source.add
        if flexible:
            add(depth, f"length = {expression} + 1", "if length < 128:", f"    {out}.append(length)", "else:")
            add(depth + 1, f"put_uvarint({out}, length)")
        else:
            pack = self.source.bind("pack", struct.Struct(">h" if short else ">i").pack)
            add(depth, f"{out} += {pack}({expression})")

    def _null(self, depth: int, item: Field, value: str, out: str, short: bool, flexible: bool) -> None:
        add = self.source.add
        add(depth, f"if {value} is None:")
        if not item.is_nullable(self.version):
            add(depth + 1, f"raise EncodeError('{item.name} must not be null in version {self.version}')")
        elif flexible:
            add(depth + 1, f"{out}.append(0)")
        else:
            add(depth + 1, f"{out} += {NULL_SHORT_LENGTH if short else NULL_LENGTH!r}")
        add(depth, "else:")

    def _value(self, depth: int, item: Field, value: str, out: str) -> None:
        add = self.source.add
        if item.is_array:
            self._array(depth, item, value, out)
        elif item.kind in FORMATS:
            pack = self.source.bind("pack", struct.Struct(">" + FORMATS[item.kind]).pack)
            add(depth, f"{out} += {pack}({value})")
        elif item.kind is Kind.UUID:
            add(depth, f"if len({value}) != 16:", f"    raise EncodeError('{item.name} is not a UUID')")
            add(depth, f"{out} += {value}")
        elif item.kind is Kind.STRUCT:
            self._struct(depth, item, value, out)
        else:
            self._bytes(depth, item, value, out)

    def _struct(self, depth: int, item: Field, value: str, out: str) -> None:
        assert item.struct is not None
        function = self.function(item.struct)
        if item.is_nullable(self.version):
            null = 0 if item.is_tagged(self.version) else 255
            self.source.add(depth, f"if {value} is None:", f"    {out}.append({null})", "else:")
            depth += 1
            self.source.add(depth, f"{out}.append(1)")
        self.source.add(depth, f"{function}({value}, {out})")

    def _bytes(self, depth: int, item: Field, value: str, out: str) -> None:
        add, data = self.source.add, self.source.fresh("data")
        short = item.kind is Kind.STRING
        flexible = self.flexible and item.is_flexible(self.version)
        add(depth, f"{data} = {value}")
        self._null(depth, item, data, out, short, flexible)
        if short:
            add(depth + 1, f"{data} = {data}.encode()", f"if len({data}) > {MAX_STRING_LENGTH}:")
            add(depth + 2, f"raise EncodeError('{item.name} is longer than a string may be')")
        self._length(depth + 1, out, f"len({data})", short, flexible)
        add(depth + 1, f"{out} += {data}")

    def _array(self, depth: int, item: Field, value: str, out: str) -> None:
        add, items = self.source.add, self.source.fresh("items")
        add(depth, f"{items} = {value}")
        self._null(depth, item, items, out, False, self.flexible)
        self._length(depth + 1, out, f"len({items})", False, self.flexible)
        if item.kind in FORMATS:
            add(depth + 1, f"{out} += pack(f'>{{len({items})}}{FORMATS[item.kind]}', *{items})")
            return
        element = self.source.fresh("element")
        add(depth + 1, f"for {element} in {items}:")
        self._value(depth + 2, item.element(), element, out)

    def _tagged_fields(self, tagged: list[Field]) -> None:
        add = self.source.add
        if not tagged:
            add(1, "out.append(0)")
            return
        add(1, "tags = []")
        for item in sorted(tagged, key=lambda item: item.tag or 0):
            add(1, f"if self.{item.name} != {self._default(item)}:", "    part = bytearray()")
            self._value(2, item, f"self.{item.name}", "part")
            add(2, f"tags.append(({item.tag}, part))")
        add(1, "put_uvarint(out, len(tags))", "for tag, part in tags:", "    put_uvarint(out, tag)")
        add(2, "put_uvarint(out, len(part))", "out += part")
