"""The types of a .proto file and of what it imports, by full name, and how a name in it finds one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.client.schemas.protobuf.elements import Enum, Extend, Field, Message, ProtoFile


@dataclass(frozen=True, slots=True, eq=False)
class TypeInfo:
    package: str
    type: Message | Enum
    origin: tuple[str, str]  # the file it comes from: its name and its text, both empty for the schema itself

    @property
    def map_type(self) -> str | None:
        if not isinstance(self.type, Message) or not self.type.is_map_entry:
            return None
        fields = {each.name: each.type for each in self.type.fields}
        return f"map<{fields.get('key', '')}, {fields.get('value', '')}>"


class Types:
    def __init__(self) -> None:
        self.by_name: dict[str, TypeInfo] = {}
        self.extensions: dict[str, Field] = {}

    @classmethod
    def of(cls, file: ProtoFile, imported: Mapping[str, tuple[ProtoFile, str]]) -> Types:
        types = cls()
        for name, (other, text) in imported.items():
            types.add(other, (name, text))
        types.add(file, ("", ""))
        return types

    def add(self, file: ProtoFile, origin: tuple[str, str]) -> None:
        package = file.package or ""
        self._add(file.types, (), package, origin)
        self._add_extends(file.extends, (package,) if package else ())

    def _add(self, types: Iterable[Message | Enum], path: Sequence[str], package: str, origin: tuple[str, str]) -> None:
        for each in types:
            inside = (*path, each.name)
            self.by_name[".".join((package, *inside) if package else inside)] = TypeInfo(package, each, origin)
            if isinstance(each, Message):
                self._add(each.types, inside, package, origin)
                self._add_extends(each.extends, (package, *inside) if package else inside)

    def _add_extends(self, extends: Iterable[Extend], path: Sequence[str]) -> None:
        for extend in extends:
            self.extensions.update((".".join((*path, field.name)), field) for field in extend.fields)

    def find(self, name: str, package: str, scope: Sequence[str]) -> str | None:
        """The full name of a type, looked for from the inside outwards."""
        return _find(self.by_name, name, package, scope)

    def find_extension(self, name: str, package: str, scope: Sequence[str]) -> str | None:
        return _find(self.extensions, name, package, scope)


def _find(known: Mapping[str, object], name: str, package: str, scope: Sequence[str]) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    prefix = [*(package.split(".") if package else ()), *scope]
    while prefix:
        candidate = f"{'.'.join(prefix)}.{name}"
        if candidate in known:
            return candidate
        prefix.pop()
    return name if name in known else None
