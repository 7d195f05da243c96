"""Where a broker's value comes from: the layers that hold a key or one of its synonyms, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import ConfigError, Definition, Value
from barnabas.node.configuration.definitions import BROKER, dynamic_only_definitions
from barnabas.node.configuration.given import base_of

FOREVER = -1


class ConfigSource(IntEnum):
    """Kafka's codes in DescribeConfigs and CreateTopics."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


# The same thing in several units; whoever is asked for one is told of all, the strongest first.
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_FAMILIES = {key: family for family in (_ROLL, _JITTER, _RETENTION) for key in family} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
# Given for one mechanism of one listener: listener.name.x.scram-sha-256.sasl.jaas.config.
_PER_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def broker_definition(key: str) -> Definition | None:
    """The definition of a broker's key, also of one given for a single listener; None if nobody knows it."""
    base = _base(key)
    return BROKER.get(base) or dynamic_only_definitions().get(base)


def _base(key: str) -> str:
    base = base_of(key)
    if base != key:
        for per_mechanism in _PER_MECHANISM:
            if base.endswith(per_mechanism):
                return per_mechanism
    return base


def synonyms_of(config: BrokerConfig, key: str) -> list[Synonym]:
    """All that is given for the key, from the layer that counts down to the default. As in Kafka the list begins with
    the key itself: a stronger unit that alone is given does not appear under a weaker one, nor the other way round."""
    definition = broker_definition(key)
    hidden = definition is None or definition.sensitive
    names = _FAMILIES.get(key) or tuple(dict.fromkeys((key, _base(key))))
    found = [each._replace(value=None) if hidden else each for each in _given(config, names)]
    for position, synonym in enumerate(found):
        if synonym.name == key:
            return found[position:]
    return []


def _given(config: BrokerConfig, names: tuple[str, ...]) -> Iterator[Synonym]:
    layers = (
        (ConfigSource.DYNAMIC_BROKER, config.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, config.dynamic_default),
        (ConfigSource.STATIC_BROKER, config.properties),
    )
    for source, layer in layers:
        for name in names:
            if name in layer:
                yield Synonym(name, layer[name], source)
    for name in names:
        definition = BROKER.get(name)
        if definition is not None and definition.default is not None:
            yield Synonym(name, definition.default_text, ConfigSource.DEFAULT)


def default_of(definition: Definition, broker: BrokerConfig) -> Value:
    """What the broker's keys say for a topic's or group's config."""
    for key, factor in definition.from_broker:
        value = broker.value(key)
        if value is not None:
            return _in_our_unit(definition, value, factor)
    return definition.default


def _in_our_unit(definition: Definition, value: Value, factor: int) -> Value:
    if isinstance(value, int) and not isinstance(value, bool):
        if definition.name == "retention.ms" and value < 0:
            return FOREVER
        return value * factor
    return value


def parse_known(own: Mapping[str, str], definitions: Mapping[str, Definition]) -> dict[str, Value]:
    """What was checked when it was set. A config that is not, or no longer, understood is as if it were not there."""
    values: dict[str, Value] = {}
    for name, text in own.items():
        if definition := definitions.get(name):
            try:
                values[name] = definition.parse(text)
            except ConfigError:
                continue
    return values
