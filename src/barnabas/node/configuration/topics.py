"""What holds for a topic: its own configs, and beneath them the broker's keys in all their layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.core.metadata.state import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import ConfigError, Definition, Value, to_text
from barnabas.node.configuration.definitions import topic_definitions
from barnabas.node.configuration.definitions.own import VALIDATE_RECORDS
from barnabas.node.configuration.layers import ConfigSource, default_of, parse_known
from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopicConfigs

T = TypeVar("T")
REMEMBERED_MAX = 4096


class TopicConfigs:
    """Remembers what topics without configs of their own have in common until the broker's keys change."""

    def __init__(self, config: BrokerConfig) -> None:
        self._broker = config
        self._defaults_of: BrokerConfig | None = None
        self._defaults: dict[str, Value] = {}
        self._default_log_config = LogConfig()
        self._remembered: dict[object, Any] = {}

    def broker(self, image: MetadataImage) -> BrokerConfig:
        """The broker's configuration with what the image says was changed while it ran."""
        default = image.configs.get((BROKER_RESOURCE, ""), {})
        own = image.configs.get((BROKER_RESOURCE, str(self._broker.node_id)), {})
        self._broker = self._broker.with_dynamic(default, own)
        return self._broker

    def defaults(self, image: MetadataImage) -> Mapping[str, Value]:
        """The value of every topic config where a topic says nothing."""
        broker = self.broker(image)
        if broker is not self._defaults_of:
            self._defaults = {name: default_of(each, broker) for name, each in topic_definitions().items()}
            self._default_log_config = self._log_config(self._defaults)
            self._defaults_of = broker
            self._remembered = {}
        return self._defaults

    def remembered(self, image: MetadataImage, key: object, make: Callable[[], T]) -> T:
        """What depends on nothing but the broker's keys and `key`, made once until they change."""
        self.defaults(image)
        found: T | None = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            found = self._remembered[key] = make()
        return found

    def values(self, image: MetadataImage, topic: str) -> dict[str, Value]:
        own = image.configs.get((TOPIC_RESOURCE, topic), {})
        return {**self.defaults(image), **parse_known(own, topic_definitions())}

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        defaults = self.defaults(image)
        own = image.configs.get((TOPIC_RESOURCE, topic))
        if not own:
            return self._default_log_config
        return self._log_config({**defaults, **parse_known(own, topic_definitions())})

    def _log_config(self, values: Mapping[str, Value]) -> LogConfig:
        config = self._broker
        attributes: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
        return LogConfig(**attributes, validates_records=config.barnabas_produce_validation == VALIDATE_RECORDS)

    def check(self, image: MetadataImage, configs: Mapping[str, str]) -> None:
        """Raises KafkaError INVALID_CONFIG if a topic cannot have these configs of its own."""
        check_topic(configs, self.defaults(image))

    def effective(self, image: MetadataImage, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """All configs of a topic that has these of its own, as CreateTopics answers them."""
        broker = self.broker(image)
        return [
            _created_config(definition, broker, configs)
            for _, definition in sorted(topic_definitions().items())
            if not definition.internal
        ]


def check_topic(configs: Mapping[str, str], defaults: Mapping[str, Value]) -> None:
    definitions = topic_definitions()
    refuse_unknown(configs, definitions, "topic")
    values = dict(defaults)
    try:
        for name, definition in definitions.items():
            if name in configs:
                values[name] = definition.parse(configs[name])
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    lowest, highest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(lowest, int) and isinstance(highest, int) and lowest > highest:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms ({lowest}) must not be more than max.compaction.lag.ms ({highest}).",
        )
    if values["remote.storage.enable"]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "This broker has no remote storage, so no topic can use it.")


def refuse_unknown(names: Iterable[str], definitions: Mapping[str, Definition], kind: str) -> None:
    for name in sorted(names):
        if name not in definitions:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown {kind} config name: {name}")


def _created_config(definition: Definition, broker: BrokerConfig, configs: Mapping[str, str]) -> CreatableTopicConfigs:
    text, source = _created_value(definition, broker, configs)
    return CreatableTopicConfigs(
        name=definition.name, value=text, read_only=False, config_source=source, is_sensitive=definition.sensitive
    )


def _created_value(
    definition: Definition, broker: BrokerConfig, configs: Mapping[str, str]
) -> tuple[str | None, ConfigSource]:
    if definition.name in configs:
        return configs[definition.name], ConfigSource.TOPIC
    layers = (
        (ConfigSource.DYNAMIC_BROKER, broker.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, broker.dynamic_default),
        (ConfigSource.STATIC_BROKER, broker.properties),
    )
    for source, layer in layers:
        if any(key in layer for key, _ in definition.from_broker):
            return to_text(default_of(definition, broker)), source
    return definition.default_text, ConfigSource.DEFAULT
