"""JSON: an object with a field for each column, or a single value. Names are matched whatever their case."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

import msgspec

from barnabas.pipelines.sql.compute.functions.json import written
from barnabas.pipelines.sql.compute.java import EvaluationError, double_text, fitted
from barnabas.pipelines.sql.formats.codecs import Codec, Columns, SerdeError
from barnabas.pipelines.sql.types import SqlType

Coerce = Callable[[Any], Any]
Whole = Callable[[Sequence[Any], Sequence[bytes], Sequence[int]], list[tuple[Any, ...]]]
DETOURS_LEAST = 100
NOT_WHOLE_MAX = 3
NEVER = "\0 no record has this value"
ESCAPED = re.compile(r'["\\\x00-\x1f]')  # fields of a msgspec.Struct have no names with these
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_Int = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)]
_Long = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
TYPED: dict[str, Any] = {
    "BOOLEAN": bool | None,
    "INTEGER": _Int | None,
    "BIGINT": _Long | None,
    "DOUBLE": float | None,
    "STRING": str | None,
    "TIMESTAMP": _Long | None,
    "DATE": _Int | None,
    "TIME": _Int | None,
}
_as_tuple = msgspec.structs.astuple
_write = msgspec.json.Encoder(decimal_format="number").encode
_read = msgspec.json.Decoder().decode
_read_exact = msgspec.json.Decoder(float_hook=Decimal).decode


def _decoder(fields: list[Any], names: dict[str, str]) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(msgspec.defstruct("Columns", fields, rename=names, gc=False)).decode


class JsonCodec(Codec):
    def __init__(self, columns: Columns, wrap: bool = True, idle: Collection[int] = ()) -> None:
        super().__init__(columns, idle)
        self.wrap = wrap
        self._names = [name for name, _ in columns]
        self._writers = [plain_writer(kind) for _, kind in columns]
        self._readers = [coercion(kind) for _, kind in columns]
        self._spelled = list(self._names)  # as the last record spelled them
        self._plain = all(write is _same for write in self._writers)
        self._flat = all(write in (_same, _finite) for write in self._writers)
        self._load = _read_exact if any(has_decimal(kind) for _, kind in columns) else _read
        self._whole: tuple[Whole, ...] | None = (
            None  # rows of records that all have all columns: keys of several, of one
        )
        self._not_whole = 0  # batches where they had not
        self._passes_text = False  # they pass over columns that nobody looks at
        typed = wrap and columns and not any(map(ESCAPED.search, self._names))
        self._fast = self._typed() if typed and all(kind.base in TYPED for _, kind in columns) else None
        self._detours = 0
        self._write_rows: Callable[[Sequence[Any]], list[bytes | None]] | None = None

    def __reduce__(self) -> Any:
        return JsonCodec, (self.columns, self.wrap, self.idle)

    def encode(self, values: Sequence[Any]) -> bytes | None:
        if not self.wrap:
            return None if values[0] is None else _write(self._writers[0](values[0]))
        if self._plain:
            return _write(dict(zip(self._names, values, strict=True)))
        return _write(
            {
                name: None if value is None else write(value)
                for name, write, value in zip(self._names, self._writers, values, strict=True)
            }
        )

    def encode_all(self, rows: Sequence[Any]) -> list[bytes | None]:
        if not self.wrap or not self._flat:
            return super().encode_all(rows)
        if self._write_rows is None:
            each = [
                f"r[{at}]" if write is _same else f"(x if (x := r[{at}]) is None or x - x == 0 else f(x))"
                for at, write in enumerate(self._writers)
            ]
            scope: dict[str, Any] = {"w": _write, "f": _finite}
            if any(map(ESCAPED.search, self._names)):
                row = f"{{{', '.join(f'{name!r}: {one}' for name, one in zip(self._names, each, strict=True))}}}"
            else:
                names = {f"c{at}": name for at, name in enumerate(self._names)}
                scope["S"] = msgspec.defstruct("Columns", list(names), rename=names, gc=False)
                row = f"S({', '.join(each)})"
            self._write_rows = eval(f"lambda rows: [None if r is None else w({row}) for r in rows]", scope)
        return self._write_rows(rows)

    def _typed(self) -> Callable[[bytes], tuple[Any, ...]]:
        """Reads the columns alone, as the last record spelled them, if they have just their types. A column's own
        spelling beside another goes before it, which is left to the other way."""
        count = len(self.columns)
        fields: list[Any] = [(f"c{at}", TYPED[kind.base], msgspec.UNSET) for at, (_, kind) in enumerate(self.columns)]
        names = {f"c{at}": name for at, name in enumerate(self._spelled)}
        others = [name for name, spelled in zip(self._names, self._spelled, strict=True) if name != spelled]
        fields += [(f"o{at}", Literal[NEVER], NEVER) for at in range(len(others))]
        names |= {f"o{at}": name for at, name in enumerate(others)}
        passed = {at for at in self.idle if self.columns[at][1].base == "STRING"}  # which takes whatever is there
        required = [(name, kind) for at, (name, kind, _) in enumerate(fields[:count]) if at not in passed]
        required += fields[count:]
        self._passes_text = bool(passed)
        values = ", ".join("None" if at in self.idle else f"r.c{at}" for at in range(count))
        rows = f"{values}, at, None, None) for k, r, at in zip(keys, map(read, data), times, strict=True)]"
        scope = {"read": _decoder(required, names)}
        self._whole = tuple(eval(f"lambda keys, data, times: [({key}, {rows}", scope) for key in ("*k", "k"))
        read = _decoder(fields, names)
        if others:
            return lambda data: _as_tuple(read(data))[:count]
        return lambda data: _as_tuple(read(data))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        if self._fast is None:
            return self._decode(data)
        try:
            found = self._fast(data)
        except UNREADABLE:
            return self._detour(data)
        return self._detour(data) if msgspec.UNSET in found else found

    def _detour(self, data: bytes) -> tuple[Any, ...]:
        """A record with another spelling, without a column, or with a value that is converted."""
        self._detours += 1
        before = list(self._spelled)
        found = self._decode(data)
        if before != self._spelled:
            self._fast = self._typed()
        return found

    def decode_all(self, data: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """All or none. After a batch of which most went a detour the next ones go it at once."""
        self._detours = 0
        if self._fast is None:
            return [self._decode(one) for one in data]
        read, missing = self._fast, msgspec.UNSET
        try:
            found = [read(one) for one in data]
        except UNREADABLE:
            found = [self.decode(one) for one in data]
        else:
            for at in [at for at, one in enumerate(found) if missing in one]:
                found[at] = self.decode(data[at])
        if self._detours > DETOURS_LEAST and self._detours * 2 > len(data):
            self._fast = None
        return found

    def decode_rows(
        self, keys: Sequence[Any], data: Sequence[bytes], times: Sequence[int], *, single: bool
    ) -> list[tuple[Any, ...]]:
        if self._whole is not None and data:
            for attempt in range(2):
                spelled = list(self._spelled)
                try:
                    if self._passes_text:
                        check_text(data)
                    return self._whole[single](keys, data, times)
                except UNREADABLE:
                    if attempt or self.decode(data[0]) is None or spelled == self._spelled:
                        break  # else records spell their columns in another way, which is known now
            self._not_whole += 1  # a column is missing, or is to be converted
            if self._not_whole >= NOT_WHOLE_MAX:
                self._whole = None
        return super().decode_rows(keys, data, times, single=single)

    def _decode(self, data: bytes) -> tuple[Any, ...]:
        try:
            found = self._load(data)
        except UNREADABLE as error:
            raise SerdeError(f"it is no JSON: {error}") from None
        try:
            if not self.wrap:
                return (None if found is None else self._readers[0](found),)
            if found is None:
                return (None,) * len(self._names)
            if not isinstance(found, dict):
                raise SerdeError(f"it is no JSON object but {shortened(found)}")
            return tuple(self._columns_of(found))
        except (EvaluationError, InvalidOperation, ValueError) as error:
            raise SerdeError(str(error)) from None

    def _columns_of(self, found: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        for at, (name, read) in enumerate(zip(self._names, self._readers, strict=True)):
            value = found.get(name)
            if value is None and name not in found:
                value = found.get(self._spelled[at])
                if value is None:
                    value = self._by_any_case(found, at)
            try:
                values.append(None if value is None else read(value))
            except SerdeError as error:
                raise SerdeError(f"Can't convert field {name}: {error}") from None
        return values

    def _by_any_case(self, found: dict[str, Any], at: int) -> Any:
        wanted = self._names[at].upper()
        for key, value in found.items():
            if key.upper() == wanted:
                self._spelled[at] = key
                return value
        return None


def check_text(data: Sequence[bytes]) -> None:
    """Whether all of it is text. The decoder does not look into texts that nobody asks for."""
    joined = b"".join(data)  # where one record ends within a letter, the next one can't go on with it: it is no JSON
    if not joined.isascii():
        joined.decode()


def _plain_number(low: int, high: int, otherwise: Coerce) -> Coerce:
    def read(value: Any) -> Any:
        return value if type(value) is int and low <= value < high else otherwise(value)

    return read


def has_decimal(kind: SqlType) -> bool:
    inner = [one for one in (kind.element, kind.key) if one is not None] + [one for _, one in kind.fields]
    return kind.base == "DECIMAL" or any(map(has_decimal, inner))


def plain_writer(kind: SqlType) -> Coerce:
    if kind.base == "STRUCT":
        parts = {name: plain_writer(inner) for name, inner in kind.fields}
        return lambda value: {
            name: None if value.get(name) is None else write(value[name]) for name, write in parts.items()
        }
    if kind.base == "ARRAY" and kind.element is not None:
        element = plain_writer(kind.element)
        return lambda value: [None if one is None else element(one) for one in value]
    if kind.base == "MAP" and kind.element is not None:
        inner_writer = plain_writer(kind.element)
        return lambda value: {
            "null" if key is None else str(key): None if one is None else inner_writer(one)
            for key, one in value.items()
        }
    if kind.base == "BYTES":
        return lambda value: base64.b64encode(value).decode()
    return _finite if kind.base == "DOUBLE" else _same


def _finite(value: Any) -> Any:
    """JSON has no numbers for these: they are texts, as Java's writers give them."""
    return value if value - value == 0 else double_text(value)


def _same(value: Any) -> Any:
    return value


def coercion(kind: SqlType) -> Coerce:
    """What a JSON value becomes in a column; raises SerdeError where it does not fit."""
    if kind.base == "STRUCT":
        codec = JsonCodec(kind.fields)
        return lambda value: dict(zip(codec._names, codec._columns_of(_kind(value, dict, kind)), strict=True))
    if kind.base == "ARRAY" and kind.element is not None:
        element = coercion(kind.element)
        return lambda value: [None if one is None else element(one) for one in _kind(value, list, kind)]
    if kind.base == "MAP" and kind.element is not None and kind.key is not None:
        inner, key = coercion(kind.element), coercion(kind.key)
        return lambda value: {
            key(name): None if one is None else inner(one) for name, one in _kind(value, dict, kind).items()
        }
    if kind.base == "DECIMAL":
        return lambda value: fitted(Decimal(_number_text(value, kind)), kind)
    return COERCIONS[kind.base]


def _kind(value: Any, wanted: type, kind: SqlType) -> Any:
    if not isinstance(value, wanted):
        raise SerdeError(f"Can't convert type. sourceType: {type(value).__name__}, requiredType: {kind}")
    return value


def _number_text(value: Any, kind: SqlType) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise SerdeError(f"Can't convert type. sourceType: {type(value).__name__}, requiredType: {kind}")
    return repr(value) if isinstance(value, float) else value


def whole(bits: int, name: str) -> Coerce:
    def read(value: Any) -> int:
        if isinstance(value, bool):
            raise SerdeError(f"Can't convert type. sourceType: BooleanNode, requiredType: {name}")
        if isinstance(value, str):
            try:
                value = int(value.strip())
            except ValueError:
                raise SerdeError(f'For input string: "{value}"') from None
        if isinstance(value, (float, Decimal)):
            value = int(value)
        if not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
            raise SerdeError(f"{shortened(value)} is no {name}")
        return value

    return _plain_number(-(1 << bits), 1 << bits, read)


def real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise SerdeError(f"Can't convert type. sourceType: {type(value).__name__}, requiredType: DOUBLE")
    return float(value)


def truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise SerdeError(f"Can't convert type. sourceType: {type(value).__name__}, requiredType: BOOLEAN")


def text(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


def data(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise SerdeError("Value is not a valid Base64 encoded string") from None


def shortened(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 else f"{shown[:57]}..."


COERCIONS: dict[str, Coerce] = {
    "BOOLEAN": truth,
    "INTEGER": whole(31, "INTEGER"),
    "BIGINT": whole(63, "BIGINT"),
    "DOUBLE": real,
    "STRING": text,
    "BYTES": data,
    "TIMESTAMP": whole(63, "TIMESTAMP"),
    "DATE": whole(31, "DATE"),
    "TIME": whole(31, "TIME"),
}
