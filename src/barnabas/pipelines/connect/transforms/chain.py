"""The transformations of a connector in their order: `transforms`, `transforms.x.type`, `.predicate`, `.negate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.pipelines.connect.config import parse_value, with_prefix
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.plugins import make_predicate, make_transformation
from barnabas.pipelines.connect.transforms.predicates import Predicate
from barnabas.pipelines.connect.transforms.transformation import Transformation

NOT_OWN = ("type", "predicate", "negate")


@dataclass(frozen=True, slots=True)
class ChainLink:
    name: str
    type: str
    transformation: Transformation
    predicate: Predicate | None
    negate: bool

    def apply(self, record: Record) -> Record | None:
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        return self.transformation.apply(record)


def aliases(settings: Mapping[str, str], name: str) -> list[str]:
    found = parse_value(name, "LIST", settings.get(name)) or []
    if len(set(found)) < len(found):
        raise ConfigError("Duplicate alias provided.", name, settings.get(name))
    return list(found)


def make_chain(settings: Mapping[str, str]) -> list[ChainLink]:
    predicates = {name: _predicate(settings, name) for name in aliases(settings, "predicates")}
    return [_link(settings, name, predicates) for name in aliases(settings, "transforms")]


def _predicate(settings: Mapping[str, str], name: str) -> Predicate:
    own = with_prefix(settings, f"predicates.{name}.")
    if "type" not in own:
        raise ConfigError(f'Missing required configuration "predicates.{name}.type" which has no default value.')
    return make_predicate(own["type"], {key: value for key, value in own.items() if key != "type"})


def _link(settings: Mapping[str, str], name: str, predicates: Mapping[str, Predicate]) -> ChainLink:
    own = with_prefix(settings, f"transforms.{name}.")
    if "type" not in own:
        raise ConfigError(f'Missing required configuration "transforms.{name}.type" which has no default value.')
    chosen = own.get("predicate")
    if chosen is not None and chosen not in predicates:
        raise ConfigError(f"Predicate '{chosen}' is not among predicates", f"transforms.{name}.predicate", chosen)
    negate = parse_value(f"transforms.{name}.negate", "BOOLEAN", own.get("negate", "false"))
    made = make_transformation(own["type"], {key: value for key, value in own.items() if key not in NOT_OWN})
    return ChainLink(name, own["type"], made, predicates[chosen] if chosen is not None else None, negate)
