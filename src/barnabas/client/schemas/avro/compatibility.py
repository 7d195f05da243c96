"""What a reader cannot read of what a writer wrote: Avro's resolution rules, with Confluent's words.

Each finding names the rule that is broken and where, as a JSON pointer into the reader's schema. A pair of types that
was compared before counts as it did then: that ends recursion, and a named type used twice is found wrong at the first
place it is used.

Confluent compares every branch of a union with every other. That is done up to a number of steps. Unions that take more
are compared with their branches of the same name only, which finds the same but may name another place; what takes too
many steps even so is not compared to its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.schemas.avro.model import (
    MISSING,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)

PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {reader} schema does not match with "
    "the {writer} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {reader} schema does not match with the {writer} "
    "schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema is missing enum symbols '{detail}' at path '{path}' in the {writer} "
    "schema",
    "MISSING_UNION_BRANCH": "The {reader} schema is missing a type inside a union field at path '{path}' in the "
    "{writer} schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{detail}' at path '{path}' in the {reader} schema has no default "
    "value and is missing in the {writer} schema",
}


STEPS_MAX = 50_000  # about a third of a second
MANY_STEPS_MAX = 500_000


class AmbiguousField(ValueError):
    pass


class TooComplex(ValueError):
    """Comparing takes more steps than anybody should wait for."""


@dataclass(frozen=True, slots=True)
class Incompatibility:
    rule: str
    path: str
    detail: str

    def show(self, reader: str, writer: str) -> str:
        description = DESCRIPTIONS[self.rule].format(path=self.path, detail=self.detail, reader=reader, writer=writer)
        return f"{{errorType:'{self.rule}', description:'{description}', additionalInfo:'{self.detail}'}}"


def incompatibilities(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    try:
        return Comparison(STEPS_MAX).compare(reader, writer, ())
    except TooComplex:
        return Comparison(MANY_STEPS_MAX, by_name=True).compare(reader, writer, ())


Path = tuple[str, ...]


class Comparison:
    def __init__(self, steps: int, *, by_name: bool = False) -> None:
        self._found: dict[tuple[int, int], list[Incompatibility]] = {}
        self._steps = steps
        self._by_name = by_name

    def compare(self, reader: AvroType, writer: AvroType, path: Path) -> list[Incompatibility]:
        pair = id(reader), id(writer)
        known = self._found.get(pair)
        if known is None:
            self._count(1)
            self._found[pair] = []  # while it is under way it counts as compatible
            known = self._found[pair] = self._compare(reader, writer, path)
        return known

    def _count(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise TooComplex

    def _compare(self, reader: AvroType, writer: AvroType, path: Path) -> list[Incompatibility]:
        if reader.kind == writer.kind:
            return self._same_kind(reader, writer, path)
        if isinstance(writer, Union):
            return [
                each
                for index, branch in enumerate(writer.branches)
                for each in self.compare(reader, branch, (*path, str(index)))
            ]
        if isinstance(reader, Union):
            self._count(len(reader.branches) // (10 if self._by_name else 1) + 1)
            branches = [each for each in reader.branches if not (self._by_name and _names_differ(each, writer))]
            if any(not self.compare(branch, writer, path) for branch in branches):
                return []
            return [_lacking(writer, path)]
        if writer.kind in PROMOTIONS.get(reader.kind, ()):
            return []
        detail = f"reader type: {reader.shown} not compatible with writer type: {writer.shown}"
        return [Incompatibility("TYPE_MISMATCH", _pointer(path), detail)]

    def _same_kind(self, reader: AvroType, writer: AvroType, path: Path) -> list[Incompatibility]:
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, (*path, "items"))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, (*path, "values"))
        if isinstance(reader, Union) and isinstance(writer, Union):
            return [
                _lacking(branch, (*path, str(index)))
                for index, branch in enumerate(writer.branches)
                if self.compare(reader, branch, (*path, str(index)))
            ]
        if isinstance(reader, Named) and isinstance(writer, Named):
            return _names(reader, writer, path) + self._named(reader, writer, path)
        return []

    def _named(self, reader: Named, writer: Named, path: Path) -> list[Incompatibility]:
        if isinstance(reader, Fixed) and isinstance(writer, Fixed) and reader.size != writer.size:
            detail = f"expected: {writer.size}, found: {reader.size}"
            return [Incompatibility("FIXED_SIZE_MISMATCH", _pointer((*path, "size")), detail)]
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            missing = sorted(set(writer.symbols) - set(reader.symbols))
            detail = f"[{', '.join(missing)}]"
            lost = missing and reader.default is None
            return [Incompatibility("MISSING_ENUM_SYMBOLS", _pointer((*path, "symbols")), detail)] if lost else []
        if isinstance(reader, Record) and isinstance(writer, Record):
            return self._fields(reader, writer, (*path, "fields"))
        return []

    def _fields(self, reader: Record, writer: Record, path: Path) -> list[Incompatibility]:
        found: list[Incompatibility] = []
        self._count(len(reader.fields))
        written = {field.name: field for field in writer.fields}
        for position, field in enumerate(reader.fields):
            at = (*path, str(position))
            source = _source(field, written, writer)
            if source is not None:
                found += self.compare(field.type, source.type, (*at, "type"))
            elif field.default is MISSING:
                if isinstance(field.type, Enum) and field.type.default is not None:
                    found += self.compare(field.type, writer, (*at, "type"))
                else:
                    found.append(Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", _pointer(at), field.name))
        return found


def _source(field: Field, written: dict[str, Field], writer: Record) -> Field | None:
    """The field of the writer that fills one of the reader, by its name or an alias."""
    names = [name for name in (field.name, *field.aliases) if name in written]
    if len(names) > 1:
        raise AmbiguousField(
            f"Reader record field {field.name} matches multiple fields in writer record schema {writer.full_name}"
        )
    return written[names[0]] if names else None


def _names_differ(reader: AvroType, writer: AvroType) -> bool:
    if not isinstance(reader, Named) or not isinstance(writer, Named):
        return False
    return reader.name != writer.name and writer.full_name not in reader.aliases


def _names(reader: Named, writer: Named, path: Path) -> list[Incompatibility]:
    if not _names_differ(reader, writer):
        return []
    return [Incompatibility("NAME_MISMATCH", _pointer((*path, "name")), f"expected: {writer.full_name}")]


def _lacking(writer: AvroType, path: Path) -> Incompatibility:
    return Incompatibility("MISSING_UNION_BRANCH", _pointer(path), f"reader union lacking writer type: {writer.shown}")


def _pointer(path: Path) -> str:
    return "/" + "/".join(each.replace("~", "~0").replace("/", "~1") for each in path)
