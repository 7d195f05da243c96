"""Which of a broker's keys may be changed while it runs, and to what.

As in Kafka a key is read-only, or belongs to the cluster's brokers together, or to each broker by itself; keys of a
key store only to one listener. Keys that nobody knows are kept: a plugin may. Thread counts are at most doubled or
halved at once. Deviation: listeners cannot be changed at all while the node runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.node.configuration.broker import BrokerConfig
from barnabas.node.configuration.definition import CLASS, PER_BROKER, READ_ONLY, ConfigError
from barnabas.node.configuration.definitions import BROKER, topic_definitions
from barnabas.node.configuration.given import base_of
from barnabas.node.configuration.layers import broker_definition, default_of
from barnabas.wire.errors import ErrorCode, KafkaError

STORE_KEYS = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
# The listener's keys that all brokers may share.
LISTENER_KEYS_OF_THE_CLUSTER = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
LISTENER_KEYS = ("listeners", "listener.security.protocol.map")
THREAD_KEYS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
LOCAL_RETENTION = (("log.local.retention.ms", "log.retention.ms"), ("log.local.retention.bytes", "log.retention.bytes"))
AS_RETENTION, UNLIMITED = -2, -1


def check_reconfiguration(current: BrokerConfig, configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises KafkaError INVALID_REQUEST if these cannot become the dynamic keys of this broker, or of all of them."""
    try:
        _check_each(configs, per_broker)
        layers = (current.dynamic_default, configs) if per_broker else (configs, current.dynamic_broker)
        changed = BrokerConfig(current.properties, dynamic_default=layers[0], dynamic_broker=layers[1])
        changed.check()
        _check_changes(current, changed)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def check_of_another(configs: Mapping[str, str]) -> None:
    """Of a broker that is not this node, of whose file nothing is known: it leaves out what does not fit."""
    try:
        _check_each(configs, per_broker=True)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _check_each(configs: Mapping[str, str], per_broker: bool) -> None:
    _check_places(configs, per_broker)
    for key, text in configs.items():
        if definition := broker_definition(key):
            _check_class(key, text)
            definition.parse(text)


def _check_places(configs: Mapping[str, str], per_broker: bool) -> None:
    _refuse(
        (key for key in configs if key in BROKER and BROKER[key].update is READ_ONLY),
        "Cannot update these configs dynamically",
    )
    _refuse(
        STORE_KEYS & configs.keys(),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    if not per_broker:
        _refuse(
            filter(_is_per_broker, configs),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _refuse(keys: Iterable[str], why: str) -> None:
    if refused := sorted(keys):
        raise ConfigError(f"{why}: [{', '.join(refused)}]")


def _is_per_broker(key: str) -> bool:
    base = base_of(key)
    if base != key:
        return base not in LISTENER_KEYS_OF_THE_CLUSTER
    return key in BROKER and BROKER[key].update is PER_BROKER


def _check_class(key: str, text: str) -> None:
    definition = broker_definition(key)
    if definition is None or (definition.type is not CLASS and definition.name != "metric.reporters"):
        return
    if text.strip() not in ("", definition.default_text):
        raise ConfigError(f"Invalid value {text} for configuration {key}: Java classes cannot be loaded here.")


def _check_changes(current: BrokerConfig, changed: BrokerConfig) -> None:
    for key in LISTENER_KEYS:
        if changed.text(key) != current.text(key):
            raise ConfigError(f"{key} cannot be changed while the node runs.")
    for key in THREAD_KEYS:
        if changed.is_given(key) or current.is_given(key):
            _check_threads(key, current.value(key), changed.value(key))
    if changed.text("max.connection.creation.rate") is not None and not changed.max_connection_creation_rate:
        raise ConfigError("max.connection.creation.rate must be at least 1.")
    for local, whole in LOCAL_RETENTION:
        if changed.is_given(local) or changed.is_given(whole):
            _check_local_retention(changed, local, whole)


def _check_threads(key: str, now: object, then: object) -> None:
    assert isinstance(now, int)
    assert isinstance(then, int)
    if then < now // 2:
        raise ConfigError(f"{key}={then} cannot be used: it must be at least half the current value {now}.")
    if then > now * 2:
        raise ConfigError(f"{key}={then} cannot be used: it must be at most double the current value {now}.")


def _check_local_retention(changed: BrokerConfig, local: str, whole: str) -> None:
    part, limit = changed.value(local), default_of(topic_definitions()[whole.removeprefix("log.")], changed)
    assert isinstance(part, int)
    assert isinstance(limit, int)
    if limit <= UNLIMITED or part == AS_RETENTION:
        return
    if part == UNLIMITED or part > limit:
        raise ConfigError(
            f"Invalid value {part} for configuration {local}: it must be at most {whole}, which is {limit}"
        )
