"""What a resource's configs may become: the checks behind AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from barnabas.core.controller.configs import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, Changes
from barnabas.core.metadata.records import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.core.metadata.state import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigResource, MetadataImage
from barnabas.node.configuration.access import broker_id
from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import LIST, ConfigError, Definition, Value
from barnabas.node.configuration.definitions import (
    client_metrics_definitions,
    group_definitions,
    topic_definitions,
)
from barnabas.node.configuration.layers import broker_definition, default_of
from barnabas.node.configuration.reconfiguration import check_of_another, check_reconfiguration
from barnabas.node.configuration.topics import TopicConfigs, check_topic, refuse_unknown
from barnabas.wire.errors import ErrorCode, KafkaError

CLIENT_SELECTORS = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000


class AlterationRules:
    """The rules of one caller on this node (`core.controller.configs.ConfigRules`)."""

    def __init__(self, topics: TopicConfigs, authorize: Callable[[ConfigResource], None]) -> None:
        self._topics = topics
        self.authorize = authorize

    def is_list(self, resource: ConfigResource, key: str) -> bool:
        definition = self._definition(resource, key)
        return definition is not None and definition.type is LIST

    def default(self, resource: ConfigResource, key: str) -> str | None:
        definition = self._definition(resource, key)
        return None if definition is None else definition.default_text

    def check(
        self, image: MetadataImage, resource: ConfigResource, configs: Mapping[str, str], altered: Changes
    ) -> None:
        kind, name = resource
        if kind == TOPIC_RESOURCE:
            check_topic(configs, self._topics.defaults(image))
        elif kind == BROKER_RESOURCE:
            self._check_broker(image, name, configs, altered)
            if image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION):
                _check_min_insync_replicas(name, altered)
        elif kind == GROUP_RESOURCE:
            check_group(configs, self._topics.broker(image))
        elif kind == CLIENT_METRICS_RESOURCE:
            check_client_metrics(configs)

    def _check_broker(self, image: MetadataImage, name: str, configs: Mapping[str, str], altered: Changes) -> None:
        broker = self._topics.broker(image)
        if name and broker_id(name) in image.brokers.keys() - {broker.node_id}:
            check_of_another({key: text for key, text in configs.items() if key in altered})
            return
        require_id(name, broker.node_id)
        layer = broker.dynamic_broker if name else broker.dynamic_default
        usable = {key: text for key, text in configs.items() if key in altered or key in layer}
        check_reconfiguration(broker, usable, per_broker=bool(name))

    def _definition(self, resource: ConfigResource, key: str) -> Definition | None:
        kind = resource[0]
        if kind == TOPIC_RESOURCE:
            return topic_definitions().get(key)
        if kind == BROKER_RESOURCE:
            return broker_definition(key)
        # Kafka's controller knows no lists of other resources.
        return None


def require_id(name: str, node_id: int) -> None:
    """The configs of a single broker are altered by that broker."""
    if not name:
        return
    if (given := broker_id(name)) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if given != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_min_insync_replicas(name: str, altered: Changes) -> None:
    """With eligible leader replicas the number must be the same everywhere, so it lives at the cluster alone."""
    key = "min.insync.replicas"
    if key not in altered:
        return
    if name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} of a single broker cannot be altered while ELR is enabled.")
    if altered[key] is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} of the cluster cannot be removed while ELR is enabled.")


def check_group(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    definitions = group_definitions()
    refuse_unknown(configs, definitions, "group")
    values = {name: default_of(each, broker) for name, each in definitions.items()}
    try:
        for name, definition in definitions.items():
            if name in configs:
                values[name] = definition.parse(configs[name])
        for name in configs:
            _check_bounds(name, values[name], broker)
        for kind in ("consumer", "share", "streams"):
            _check_heartbeat(f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms", configs, values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _check_bounds(name: str, value: Value, broker: BrokerConfig) -> None:
    """group.share.min.session.timeout.ms bounds share.session.timeout.ms, and so on."""
    kind, _, rest = name.partition(".")
    if name == "streams.num.standby.replicas":
        rest = "standby.replicas"
    lowest, highest = (_number(broker, f"group.{kind}.{end}.{rest}") for end in ("min", "max"))
    if lowest is not None and isinstance(value, int) and value < lowest:
        raise ConfigError(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
    if highest is not None and isinstance(value, int) and value > highest:
        raise ConfigError(f"{name} must be less than or equal to group.{kind}.max.{rest}")


def _number(broker: BrokerConfig, key: str) -> int | None:
    try:
        value = broker.value(key)
    except KeyError:
        return None
    return value if isinstance(value, int) else None


def _check_heartbeat(heartbeat: str, session: str, configs: Mapping[str, str], values: Mapping[str, Value]) -> None:
    interval, timeout = values[heartbeat], values[session]
    assert isinstance(interval, int)
    assert isinstance(timeout, int)
    if (heartbeat in configs or session in configs) and timeout <= interval:
        raise ConfigError(f"{session} must be greater than {heartbeat}")


def check_client_metrics(configs: Mapping[str, str]) -> None:
    definitions = client_metrics_definitions()
    for name in sorted(configs):
        if name not in definitions:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    try:
        values = {name: definitions[name].parse(text) for name, text in configs.items()}
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval = values.get("interval.ms")
    if isinstance(interval, int) and not INTERVAL_MS_MIN <= interval <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between {INTERVAL_MS_MIN} and "
            f"{INTERVAL_MS_MAX} (1 hour)",
        )
    patterns = values.get("match")
    for pattern in patterns if isinstance(patterns, tuple) else ():
        if not _is_client_pattern(pattern):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _is_client_pattern(pattern: str) -> bool:
    selector, *expressions = pattern.split("=")
    if selector.strip() not in CLIENT_SELECTORS or len(expressions) != 1:
        return False
    try:
        re.compile(expressions[0].strip())
    except re.error:
        return False
    return True
