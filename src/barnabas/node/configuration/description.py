"""How DescribeConfigs shows configurations: entries with value, source, synonyms, type and documentation.

Entries are in the order of their names; Kafka's come in the order of a Java hash map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.core.metadata.state import TOPIC_RESOURCE, MetadataImage
from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import READ_ONLY, ConfigType, Definition, to_text
from barnabas.node.configuration.definitions import (
    BROKER,
    client_metrics_definitions,
    group_definitions,
    topic_definitions,
)
from barnabas.node.configuration.layers import (
    ConfigSource,
    Synonym,
    broker_definition,
    default_of,
    parse_known,
    synonyms_of,
)
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym


class Wanted(NamedTuple):
    """What a request asks for about a resource; no keys mean all."""

    keys: frozenset[str]
    synonyms: bool
    documentation: bool

    def of(self, names: Iterable[str]) -> list[str]:
        return sorted(names if not self.keys else self.keys.intersection(names))


Entries = list[DescribeConfigsResourceResult]


def topic_entries(topics: TopicConfigs, image: MetadataImage, topic: str, wanted: Wanted) -> Entries:
    own = image.configs.get((TOPIC_RESOURCE, topic), {})
    definitions, broker, values = topic_definitions(), topics.broker(image), topics.values(image, topic)
    shown = (name for name, each in definitions.items() if not each.internal or name in own)
    entries = []
    for name in wanted.of(shown):
        definition, value = definitions[name], to_text(values[name])
        synonyms = synonyms_of(broker, definition.from_broker[0][0]) if definition.from_broker else []
        if name in own:
            synonyms.insert(0, Synonym(name, value, ConfigSource.TOPIC))
        entries.append(_entry(definition, value, synonyms, wanted))
    return entries


def broker_entries(broker: BrokerConfig, wanted: Wanted) -> Entries:
    """This broker's keys, with the layers all of them come from."""
    shown = {name for name, each in BROKER.items() if not each.internal}
    shown |= broker.properties.keys() | broker.dynamic_default.keys() | broker.dynamic_broker.keys()
    return [_broker_entry(broker, name, synonyms_of(broker, name), wanted) for name in wanted.of(shown)]


def default_broker_entries(broker: BrokerConfig, wanted: Wanted) -> Entries:
    """The keys set for all brokers while they run, and nothing else about them."""
    entries = []
    for name in wanted.of(broker.dynamic_default):
        found = synonyms_of(broker, name)
        entry = _broker_entry(
            broker, name, [each for each in found if each.source is ConfigSource.DYNAMIC_DEFAULT_BROKER], wanted
        )
        if not entry.is_sensitive:
            entry.value = broker.dynamic_default[name]
        entries.append(entry)
    return entries


def group_entries(broker: BrokerConfig, own: Mapping[str, str], wanted: Wanted) -> Entries:
    definitions = group_definitions()
    values = parse_known(own, definitions)
    entries = []
    for name in wanted.of(definitions):
        definition = definitions[name]
        value = to_text(values[name] if name in values else default_of(definition, broker))
        if definition.from_broker:
            synonyms = synonyms_of(broker, definition.from_broker[0][0])
        else:
            synonyms = [Synonym(name, definition.default_text, ConfigSource.DEFAULT)]
        if name in values:
            synonyms.insert(0, Synonym(name, value, ConfigSource.GROUP))
        entries.append(_entry(definition, value, synonyms, wanted))
    return entries


def client_metrics_entries(own: Mapping[str, str], wanted: Wanted) -> Entries:
    definitions = client_metrics_definitions()
    entries = []
    for name in wanted.of(definitions):
        value = own.get(name, definitions[name].default_text)
        synonyms = [Synonym(name, value, ConfigSource.CLIENT_METRICS)] if name in own else []
        entries.append(_entry(definitions[name], value, synonyms, wanted))
    return entries


def logger_entries(levels: Mapping[str, str], wanted: Wanted) -> Entries:
    return [
        DescribeConfigsResourceResult(name=name, value=levels[name], config_source=ConfigSource.DYNAMIC_BROKER_LOGGER)
        for name in wanted.of(levels)
    ]


def _broker_entry(
    broker: BrokerConfig, name: str, synonyms: list[Synonym], wanted: Wanted
) -> DescribeConfigsResourceResult:
    definition = broker_definition(name)
    if definition is None:
        return _unknown_entry(name, synonyms, wanted)
    value = to_text(broker.value(name)) if name in BROKER else broker.text(name)
    entry = _entry(definition, value, synonyms, wanted)
    entry.name = name
    entry.read_only = definition.update is READ_ONLY or definition.name != name
    return entry


def _unknown_entry(name: str, synonyms: list[Synonym], wanted: Wanted) -> DescribeConfigsResourceResult:
    """A key nobody knows may be a plugin's password, so its value is not shown."""
    return DescribeConfigsResourceResult(
        name=name,
        value=None,
        read_only=True,
        config_source=_source(synonyms),
        is_sensitive=True,
        synonyms=_shown(synonyms) if wanted.synonyms else [],
        config_type=ConfigType.UNKNOWN,
        documentation=None,
    )


def _entry(
    definition: Definition, value: str | None, synonyms: list[Synonym], wanted: Wanted
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=definition.name,
        value=None if definition.sensitive else value,
        config_source=_source(synonyms),
        is_sensitive=definition.sensitive,
        synonyms=_shown(synonyms) if wanted.synonyms else [],
        config_type=definition.type,
        documentation=definition.doc if wanted.documentation else None,
    )


def _source(synonyms: list[Synonym]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT


def _shown(synonyms: list[Synonym]) -> list[DescribeConfigsSynonym]:
    return [DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms]
