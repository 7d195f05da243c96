"""Between Avro's binary form and its JSON encoding, without objects in between.

A value of a union is `{"branch": value}`, and null alone; bytes are a string with a character for each byte. That is
how Java's JsonEncoder writes, and so do the console tools and REST proxies that people know. A field that is left out
takes its default.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from barnabas.client.schemas.avro.model import MISSING, Array, AvroType, Enum, Fixed, Map, Named, Record, Union
from barnabas.client.serdes.errors import SerdeError

RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}
NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
DEPTH_MAX = 300
EMPTY_ITEMS_MAX = 1_000_000  # items of no bytes cost an attacker nothing


def to_json(schema: AvroType, data: bytes) -> Any:
    reader = Reader(data)
    value = reader.read(schema, 0)
    if reader.at != len(data):
        raise SerdeError(f"The bytes are not of the Avro schema: {len(data) - reader.at} are left over")
    return value


def from_json(schema: AvroType, tree: Any) -> bytes:
    writer = Writer()
    writer.write(schema, tree, "")
    return bytes(writer.data)


def branch_name(branch: AvroType) -> str:
    return branch.full_name if isinstance(branch, Named) else branch.kind


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read(self, schema: AvroType, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise SerdeError("The bytes are not of the Avro schema: they are nested too deeply")
        kind = schema.kind
        if kind == "null":
            return None
        if kind in ("int", "long"):
            return self.long()
        if kind == "string":
            return self._text()
        if kind == "boolean":
            return self.take(1) != b"\0"
        if kind == "float":
            return _shown(*struct.unpack("<f", self.take(4)), single=True)
        if kind == "double":
            return _shown(*struct.unpack("<d", self.take(8)))
        if kind == "bytes":
            return self.take(self.long()).decode("latin-1")
        return self._complex(schema, depth)

    def _complex(self, schema: AvroType, depth: int) -> Any:
        if isinstance(schema, Record):
            return {field.name: self.read(field.type, depth + 1) for field in schema.fields}
        if isinstance(schema, Union):
            branch = _at(schema.branches, self.long(), "a branch of a union")
            value = self.read(branch, depth + 1)
            return None if branch.kind == "null" else {branch_name(branch): value}
        if isinstance(schema, Enum):
            return _at(schema.symbols, self.long(), "a symbol of an enum")
        if isinstance(schema, Fixed):
            return self.take(schema.size).decode("latin-1")
        if isinstance(schema, Array):
            return [self.read(schema.items, depth + 1) for _ in self._blocks()]
        assert isinstance(schema, Map)
        return {self._text(): self.read(schema.values, depth + 1) for _ in self._blocks()}

    def _text(self) -> str:
        try:
            return self.take(self.long()).decode()
        except UnicodeDecodeError:
            raise SerdeError("The bytes are not of the Avro schema: a string is not UTF-8") from None

    def _blocks(self) -> Any:
        empty = 0
        while count := self.long():
            if count < 0:
                count = -count
                self.long()  # the size of the block
            for _ in range(count):
                before = self.at
                yield
                empty = empty + 1 if self.at == before else 0
                if empty > EMPTY_ITEMS_MAX:
                    raise SerdeError("The bytes are not of the Avro schema: too many empty items")

    def long(self) -> int:
        value, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise SerdeError("The bytes are not of the Avro schema: a number is too long")

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self._data):
            raise SerdeError("The bytes are not of the Avro schema: they end too early")
        taken = self._data[self.at : end]
        self.at = end
        return bytes(taken)


class Writer:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, schema: AvroType, tree: Any, path: str) -> None:
        kind = schema.kind
        if kind == "null":
            _require(tree is None, "null", tree, path)
        elif kind == "boolean":
            _require(isinstance(tree, bool), kind, tree, path)
            self.data.append(tree)
        elif kind in RANGES:
            self.long(_whole(kind, tree, path))
        elif kind in ("float", "double"):
            self._floating(kind, tree, path)
        elif kind == "string":
            _require(isinstance(tree, str), kind, tree, path)
            self._sized(_utf8(tree, path))
        elif kind == "bytes":
            self._sized(_latin(kind, tree, path))
        else:
            self._complex(schema, tree, path)

    def _complex(self, schema: AvroType, tree: Any, path: str) -> None:
        if isinstance(schema, Record):
            self._record(schema, tree, path)
        elif isinstance(schema, Union):
            self._union(schema, tree, path)
        elif isinstance(schema, Enum):
            if not isinstance(tree, str) or tree not in schema.symbols:
                raise SerdeError(f"{_where(path)} should be one of {', '.join(schema.symbols)}, not {_show(tree)}.")
            self.long(schema.symbols.index(tree))
        elif isinstance(schema, Fixed):
            data = _latin(schema.full_name, tree, path)
            if len(data) != schema.size:
                raise SerdeError(f"{_where(path)} should have {schema.size} bytes, and has {len(data)}.")
            self.data += data
        elif isinstance(schema, Array):
            _require(isinstance(tree, list), "an array", tree, path)
            self.long(len(tree))
            for index, each in enumerate(tree):
                self.write(schema.items, each, f"{path}[{index}]")
        else:
            assert isinstance(schema, Map)
            _require(isinstance(tree, dict), "a map", tree, path)
            self.long(len(tree))
            for key, each in tree.items():
                self._sized(_utf8(key, path))
                self.write(schema.values, each, f"{path}.{key}")
        if isinstance(schema, Array | Map) and tree:
            self.data.append(0)

    def _record(self, schema: Record, tree: Any, path: str) -> None:
        _require(isinstance(tree, dict), f"a record {schema.full_name}", tree, path)
        unknown = tree.keys() - {field.name for field in schema.fields}
        if unknown:
            raise SerdeError(f"{_where(path)} has no field {sorted(unknown)[0]}.")
        for field in schema.fields:
            inside = f"{path}.{field.name}" if path else field.name
            if field.name in tree:
                self.write(field.type, tree[field.name], inside)
            elif field.default is not MISSING:
                self._default(field.type, field.default, inside)
            else:
                raise SerdeError(f"The field {inside} is missing, and it has no default.")

    def _default(self, schema: AvroType, default: Any, path: str) -> None:
        """Defaults of unions are not wrapped: they are values of a branch, the first one as a rule."""
        if not isinstance(schema, Union):
            self.write(schema, default, path)
            return
        for index, branch in enumerate(schema.branches):
            mark = len(self.data)
            self.long(index)
            try:
                self.write(branch, default, path)
                return
            except SerdeError:
                del self.data[mark:]
        raise SerdeError(f"The default of {path} fits no branch of its union.")

    def _union(self, schema: Union, tree: Any, path: str) -> None:
        names = [branch_name(each) for each in schema.branches]
        if tree is None and "null" in names:
            self.long(names.index("null"))
            return
        if isinstance(tree, dict) and len(tree) == 1:
            (name,) = tree
            if name in names and name != "null":
                self.long(names.index(name))
                self.write(schema.branches[names.index(name)], tree[name], path)
                return
        shown = ", ".join("null" if name == "null" else f'{{"{name}": ...}}' for name in names)
        raise SerdeError(f"{_where(path)} should be one of {shown}, not {_show(tree)}.")

    def _floating(self, kind: str, tree: Any, path: str) -> None:
        number = NOT_NUMBERS.get(tree) if isinstance(tree, str) else tree
        _require(isinstance(number, int | float) and not isinstance(number, bool), kind, tree, path)
        try:
            self.data += struct.pack("<f" if kind == "float" else "<d", number)
        except OverflowError:
            raise SerdeError(f"{_where(path)} is too large for a {kind}.") from None

    def long(self, value: int) -> None:
        number = (value << 1) ^ (value >> 63)
        while number > 0x7F:
            self.data.append((number & 0x7F) | 0x80)
            number >>= 7
        self.data.append(number)

    def _sized(self, data: bytes) -> None:
        self.long(len(data))
        self.data += data


def _whole(kind: str, tree: Any, path: str) -> int:
    _require(isinstance(tree, int) and not isinstance(tree, bool), kind, tree, path)
    low, high = RANGES[kind]
    if not low <= tree <= high:
        raise SerdeError(f"{_where(path)} is too large for Avro's {kind}: {tree}.")
    number: int = tree
    return number


def _latin(kind: str, tree: Any, path: str) -> bytes:
    _require(isinstance(tree, str), f"{kind}, written as a string", tree, path)
    try:
        data: bytes = tree.encode("latin-1")
    except UnicodeEncodeError:
        raise SerdeError(f"{_where(path)} holds a character above \\u00ff, which is no byte.") from None
    return data


def _utf8(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SerdeError(f"{_where(path)} holds half a character.") from None


def _require(fits: bool, wanted: str, tree: Any, path: str) -> None:
    if not fits:
        raise SerdeError(f"{_where(path)} should be {wanted}, not {_show(tree)}.")


def _where(path: str) -> str:
    return path or "The value"


def _show(tree: Any) -> str:
    import json

    text = json.dumps(tree, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _shown(number: float, *, single: bool = False) -> Any:
    if math.isnan(number) or math.isinf(number):
        return next(name for name, value in NOT_NUMBERS.items() if value == number or number != number)
    return _shortest(number) if single else number


def _shortest(number: float) -> float:
    """A float of 32 bits as the shortest decimal that is the same float."""
    for digits in range(1, 10):
        candidate = float(f"{number:.{digits}g}")
        if struct.unpack("<f", struct.pack("<f", candidate))[0] == number:
            return candidate
    return number


def _at(items: list[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise SerdeError(f"The bytes are not of the Avro schema: {index} is not {what}")
    return items[index]
