"""A Protobuf schema as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from barnabas.client.schemas import ParsedSchema, ResolvedReference
from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.protobuf.diff import differences
from barnabas.client.schemas.protobuf.elements import Message, ProtoFile
from barnabas.client.schemas.protobuf.known import known_file
from barnabas.client.schemas.protobuf.names import Types
from barnabas.client.schemas.protobuf.normal import Normalizer
from barnabas.client.schemas.protobuf.parse import parse_proto
from barnabas.client.schemas.protobuf.show import Printer


class ProtobufSchema:
    type = "PROTOBUF"

    def __init__(self, text: str, references: Sequence[ResolvedReference] = (), *, is_new: bool = True) -> None:
        self._references = references
        self._normal_text = ""  # of a normal form, which has an order of its own
        self.file = read_schema(text)
        self._imported = imported(self.file, references)
        self.types = Types.of(self.file, self._imported)
        if is_new:
            self._normalizer.file()  # every name leads to a type

    @property
    def _normalizer(self) -> Normalizer:
        return Normalizer(self.file, self.types)

    @cached_property
    def comparable(self) -> str:
        return Printer().file(self.file)

    @property
    def canonical(self) -> str:
        return self._normal_text or self.comparable

    def formatted(self, form: str) -> str:
        if form == "serialized":
            from barnabas.client.schemas.protobuf.descriptors import write_descriptor
            from barnabas.client.schemas.protobuf.pools import CustomOptions

            others = {name: other for name, (other, _) in self._imported.items()}
            return write_descriptor(self.file, self.types, CustomOptions(self.file, others, self.types))
        if form == "ignore_extensions":
            return Printer(with_extensions=False).file(self.file)
        return self.canonical

    def normalized(self) -> ProtobufSchema:
        text = Printer(in_order=True).file(self._normalizer.file())
        found = ProtobufSchema(text, self._references)
        found._normal_text = text
        return found

    def equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, ProtobufSchema) and self.comparable == other.comparable

    def top_level_fields(self) -> set[str]:
        first = next((each for each in self.file.types if isinstance(each, Message)), None)
        if first is None:
            return set()
        fields = [*first.fields, *(field for each in first.one_ofs for field in each.fields)]
        return {field.name for field in fields}

    def check_fields(self) -> None:
        """Types are of this file or of one that it imports, and a message gives a name once."""
        Normalizer(self.file, Types.of(self.file, self._visible())).file()
        messages = [(each.name, each) for each in self.file.types if isinstance(each, Message)]
        while messages:
            place, message = messages.pop()
            seen: set[str] = set()
            for name in message.member_names():
                if name in seen:
                    raise InvalidSchema(
                        f'Invalid protobuf schema definition: {place}.{name}: "{name}" is already defined in "{place}".'
                    )
                seen.add(name)
            messages += [(f"{place}.{each.name}", each) for each in message.types if isinstance(each, Message)]

    def _visible(self) -> dict[str, tuple[ProtoFile, str]]:
        """What the file imports, and what those files pass on."""
        found: dict[str, tuple[ProtoFile, str]] = {}
        wanted = [*self.file.imports, *self.file.public_imports]
        while wanted:
            name = wanted.pop()
            if name in self._imported and name not in found:
                found[name] = self._imported[name]
                wanted += found[name][0].public_imports
        return found

    def unreadable(self, written: ParsedSchema, reader: str, writer: str) -> list[str]:
        assert isinstance(written, ProtobufSchema)
        found = differences(written.file, written.types, self.file, self.types)
        return [each.show(reader, writer) for each in found if not each.compatible]


def read_schema(text: str) -> ProtoFile:
    """The text of a .proto file, or the base64 of its descriptor."""
    try:
        return parse_proto(text)
    except InvalidSchema:
        from barnabas.client.schemas.protobuf.descriptors import file_from, read_descriptor
        from barnabas.client.schemas.protobuf.pools import with_known_options

        descriptor = read_descriptor(text.strip())
        if descriptor is None:
            raise
        return file_from(with_known_options(descriptor))


def imported(file: ProtoFile, references: Sequence[ResolvedReference]) -> dict[str, tuple[ProtoFile, str]]:
    """The files that this one uses: those that it refers to, and the well-known ones that any of them imports."""
    found = {each.name: (read_schema(each.text), each.text) for each in references}
    wanted = [*file.imports, *file.public_imports]
    for other, _ in found.values():
        wanted += [*other.imports, *other.public_imports]
    while wanted:
        name = wanted.pop()
        known = known_file(name) if name not in found else None
        if known is not None:
            found[name] = known, ""
            wanted += [*known.imports, *known.public_imports]
    return found
