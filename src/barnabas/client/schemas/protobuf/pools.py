"""Files of a schema as the protobuf runtime knows them: what messages and custom options mean is asked there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.protobuf.descriptors import write_file
from barnabas.client.schemas.protobuf.elements import Option, ProtoFile
from barnabas.client.schemas.protobuf.known import known_file
from barnabas.client.schemas.protobuf.names import Types
from barnabas.client.schemas.protobuf.show import Printer

DESCRIPTORS = "google/protobuf/descriptor.proto"
META = "confluent/meta.proto"
OWN = "schema.proto"


def pool_of(files: Mapping[str, ProtoFile], names: Iterable[str]) -> Any:
    """A pool of its own: schemas may have different types of the same name."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        if name not in files:
            raise InvalidSchema(f"it imports {name}, which is neither a reference nor well known.")
        for wanted in (*files[name].imports, *files[name].public_imports):
            add(wanted)
        pool.AddSerializedFile(_described(name, files).SerializeToString())

    for each in names:
        add(each)
    return pool


def _described(name: str, files: Mapping[str, ProtoFile]) -> descriptor_pb2.FileDescriptorProto:
    if name.startswith("google/protobuf/"):
        found = descriptor_pb2.FileDescriptorProto()
        module = import_module(f"google.protobuf.{name.removeprefix('google/protobuf/').removesuffix('.proto')}_pb2")
        module.DESCRIPTOR.CopyToProto(found)
        return found
    written = write_file(files[name], Types.of(files[name], {path: (other, "") for path, other in files.items()}))
    written.name = name
    return written


class CustomOptions:
    """Options that are extensions: their bytes in a descriptor, by what the file and its imports say of them."""

    def __init__(self, file: ProtoFile, imported: Mapping[str, ProtoFile], types: Types) -> None:
        self._file = file
        self._imported = imported
        self._types = types

    @cached_property
    def _pool(self) -> Any:
        """None if the runtime refuses the file: its options are then kept in text only."""
        descriptors = known_file(DESCRIPTORS)
        assert descriptors is not None
        try:
            files = {DESCRIPTORS: descriptors, **self._imported, OWN: self._file}
            return pool_of(files, [DESCRIPTORS, OWN])
        except (InvalidSchema, TypeError, KeyError):
            return None

    def encoded(self, options: Iterable[Option], package: str, scope: tuple[str, ...], options_type: str) -> bytes:
        """Without those whose name or value has no meaning here."""
        if self._pool is None:
            return b""
        whole = _message(self._pool, options_type)
        for option in options:
            name = self._types.find_extension(option.name, package, scope)
            part = _message(self._pool, options_type)
            try:
                if name is not None:
                    whole.MergeFrom(text_format.Merge(_as_text(name, option.value), part, descriptor_pool=self._pool))
            except text_format.ParseError:
                continue
        encoded: bytes = whole.SerializeToString()
        return encoded


def with_known_options(descriptor: descriptor_pb2.FileDescriptorProto) -> Any:
    """The same descriptor, in which the options of `confluent/meta.proto` can be read."""
    known = _message(_known_pool(), descriptor.DESCRIPTOR.full_name)
    known.MergeFromString(descriptor.SerializeToString())
    return known


@cache
def _known_pool() -> Any:
    files = {name: known_file(name) for name in (DESCRIPTORS, META)}
    return pool_of({name: file for name, file in files.items() if file is not None}, files)


def _message(pool: Any, full_name: str) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))()


def _as_text(name: str, value: object) -> str:
    printer = Printer()
    path = [f"[{name}]"]
    while isinstance(value, Option):
        path.append(f"[{value.name.strip('()')}]" if value.name.startswith("(") else value.name)
        value = value.value
    text = f"{path.pop()}: {printer.value(value)}"
    for each in reversed(path):
        text = f"{each} {{ {text} }}"
    return text
