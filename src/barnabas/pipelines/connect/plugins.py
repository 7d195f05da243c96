"""Plugins by their names: Java classes of Kafka, Confluent and Debezium are aliases of ours.

A name may be the whole class, its last part, or that without `Connector`, as Connect takes them. Python packages bring
connectors, transformations, predicates and converters by the entry points of the group `barnabas.connect`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.connect.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.pipelines.connect.converters.converter import Converter
    from barnabas.pipelines.connect.transforms.predicates import Predicate
    from barnabas.pipelines.connect.transforms.transformation import Transformation

HERE = "barnabas.pipelines.connect"
KAFKA = "org.apache.kafka.connect"
VERSION = "4.3.1"
ENTRY_POINTS = "barnabas.connect"


@dataclass(frozen=True, slots=True)
class Plugin:
    """`place` is `module:class`; `names` are the Java classes it stands for, the first is the one that is shown."""

    type: str  # source, sink, converter, header_converter, transformation, predicate
    names: tuple[str, ...]
    place: str
    version: str = VERSION
    side: str | None = None

    @property
    def name(self) -> str:
        return self.names[0]

    def load(self) -> Any:
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)


def _transformations() -> Iterable[Plugin]:
    places = {
        "cast": ["Cast"],
        "fields": ["ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField",
                   "ValueToKey"],
        "others": ["Drop", "DropHeaders", "Filter", "InsertHeader", "RegexRouter", "SetSchemaMetadata",
                   "TimestampConverter", "TimestampRouter"],
    }  # fmt: skip
    one_sided = {"ValueToKey", "DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter"}
    for module, names in places.items():
        for name in names:
            place = f"{HERE}.transforms.{module}:{name}"
            package = "io.confluent.connect.transforms" if name == "Drop" else f"{KAFKA}.transforms"
            for side in (None,) if name in one_sided else ("Key", "Value"):
                full = f"{package}.{name}" + (f"${side}" if side else "")
                yield Plugin("transformation", (full,), place, side=side)
    unwrap = ("io.debezium.transforms.ExtractNewRecordState", "io.debezium.transforms.UnwrapFromEnvelope")
    yield Plugin("transformation", unwrap, f"{HERE}.transforms.unwrap:ExtractNewRecordState")


def _predicates() -> Iterable[Plugin]:
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"):
        yield Plugin("predicate", (f"{KAFKA}.transforms.predicates.{name}",), f"{HERE}.transforms.predicates:{name}")


def _converters() -> Iterable[Plugin]:
    plain = f"{HERE}.converters.converter"
    for name in ("Boolean", "Short", "Integer", "Long", "Float", "Double", "ByteArray"):
        yield Plugin("converter", (f"{KAFKA}.converters.{name}Converter",), f"{plain}:{name}Converter")
    yield Plugin("converter", (f"{KAFKA}.storage.StringConverter",), f"{plain}:StringConverter")
    yield Plugin("converter", (f"{KAFKA}.json.JsonConverter",), f"{HERE}.converters.json:JsonConverter")
    yield Plugin("converter", ("io.confluent.connect.avro.AvroConverter",), f"{HERE}.registry_converters:AvroConverter")
    yield Plugin("converter", ("io.confluent.connect.json.JsonSchemaConverter",),
                 f"{HERE}.json_schema_converter:JsonSchemaConverter")  # fmt: skip
    yield Plugin("converter", ("io.confluent.connect.protobuf.ProtobufConverter",),
                 f"{HERE}.protobuf_converter:ProtobufConverter")  # fmt: skip
    yield Plugin("header_converter", (f"{KAFKA}.storage.SimpleHeaderConverter",), f"{plain}:SimpleHeaderConverter")


@cache
def plugins() -> tuple[Plugin, ...]:
    from barnabas.pipelines.connect.connectors import CONNECTORS

    found = [*CONNECTORS, *_converters(), *_transformations(), *_predicates(), *_installed()]
    return tuple(sorted(found, key=lambda each: (each.type, each.name)))


def _installed() -> Iterable[Plugin]:
    for each in entry_points(group=ENTRY_POINTS):
        kind, _, name = each.name.partition(".")
        version = each.dist.version if each.dist is not None else VERSION
        yield Plugin(kind, (name or each.name, each.value), each.value, version)


def short(name: str) -> str:
    return name.rpartition(".")[2]


def find(name: str, *kinds: str) -> Plugin | None:
    pruned = name.removesuffix("Connector").removesuffix("Converter")
    for each in plugins():
        if each.type not in kinds:
            continue
        for known in each.names:
            last = short(known)
            if name in (known, last) or pruned == last.removesuffix("Connector").removesuffix("Converter"):
                return each
    if ":" in name:  # a class of the user's own: module:Class
        return Plugin(kinds[0], (name,), name)
    return None


def need(name: str, *kinds: str, setting: str) -> Plugin:
    found = find(name, *kinds)
    if found is None:
        known = [short(known) for each in plugins() if each.type in kinds for known in each.names]
        near = difflib.get_close_matches(short(name), known, n=1)
        hint = f", is {near[0]} meant?" if near else ""
        raise ConfigError(f"Class {name} could not be found{hint}", setting, name)
    return found


def make_transformation(name: str, settings: Mapping[str, str]) -> Transformation:
    plugin = need(name, "transformation", setting="type")
    made: Transformation = plugin.load()(settings, plugin.side)
    return made


def make_predicate(name: str, settings: Mapping[str, str]) -> Predicate:
    made: Predicate = need(name, "predicate", setting="type").load()(settings)
    return made


def make_converter(name: str, settings: Mapping[str, str], *, is_key: bool = False) -> Converter:
    plugin = need(name, "converter", "header_converter", setting="converter")
    made: Converter = plugin.load()(settings, is_key=is_key)
    return made
