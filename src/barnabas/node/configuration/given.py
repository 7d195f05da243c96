"""What people write, made whole: the keys of old files are understood, and what a single node needs is filled in.

Courses still hand out files from the days of ZooKeeper. Such a file starts a node that is broker and controller at
once; what it says about ZooKeeper, and what no Kafka knows, is warned about and left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.node.configuration.definition import CLASS, Definition
from barnabas.node.configuration.definitions import BROKER, table

DEFAULT_NODE_ID = "1"
DEFAULT_LISTENER = "PLAINTEXT://:9092"
CONTROLLER = "CONTROLLER"
DEFAULT_CONTROLLER_LISTENER = f"{CONTROLLER}://:9093"
# Beside listeners that were given, nobody expects a further fixed port to be taken.
PRIVATE_CONTROLLER_LISTENER = f"{CONTROLLER}://127.0.0.1:0"

# Keys that plugins of Kafka read by themselves, so that they stand in no table.
PLUGIN_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
CLASS_LISTS = frozenset({"metric.reporters", "kafka.metrics.reporters", "replica.selector.class"})
# Kafka's own classes that have a counterpart here.
KNOWN_CLASSES = {
    "replica.selector.class": (
        "org.apache.kafka.common.replica.LeaderSelector",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
}
PLUGIN_PREFIXES = ("rlmm.config.", "rsm.config.", "config.providers.")

REMOVED = {
    "broker.id.generation.enable": "every node has a node.id",
    "control.plane.listener.name": "controllers have listeners of their own",
    "controlled.shutdown.max.retries": "Kafka 4 has no such key",
    "controlled.shutdown.retry.backoff.ms": "Kafka 4 has no such key",
    "delegation.token.master.key": "its name is delegation.token.secret.key now",
    "group.coordinator.new.enable": "there is only one coordinator",
    "inter.broker.protocol.version": "the metadata.version of the cluster takes its place",
    "leader.imbalance.per.broker.percentage": "Kafka 4 has no such key",
    "log.message.downconversion.enable": "Kafka 4 has no such key",
    "log.message.format.version": "there is only one format of messages",
    "log.message.timestamp.difference.max.ms": "log.message.timestamp.before.max.ms and .after.max.ms take its place",
    "offsets.commit.required.acks": "Kafka 4 has no such key",
    "reserved.broker.max.id": "every node has a node.id",
}


def completed(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The properties as a node of today needs them, and warnings about what had to be translated."""
    properties = {key.strip(): text for key, text in given.items()}
    warnings = list(_translated(properties))
    node_id = properties.get("node.id", properties.get("broker.id", DEFAULT_NODE_ID)).strip()
    if node_id == "-1" and "node.id" not in properties:
        node_id = DEFAULT_NODE_ID
        del properties["broker.id"]
    properties.setdefault("node.id", node_id)
    properties.setdefault("broker.id", properties["node.id"])
    properties.setdefault("process.roles", "broker,controller")
    _complete_listeners(properties)
    return properties, warnings


def _translated(properties: dict[str, str]) -> Iterator[str]:
    """Host and port were keys of their own before Kafka 0.9, and are so in some courses still."""
    host, port = properties.pop("host.name", None), properties.pop("port", None)
    if host is not None or port is not None:
        listener = f"PLAINTEXT://{host or ''}:{port or 9092}"
        if properties.setdefault("listeners", listener) is listener:
            yield f"host.name and port are old keys; listeners={listener} is used in their place."
        else:
            yield "host.name and port are ignored, because listeners is given."
    host, port = properties.pop("advertised.host.name", None), properties.pop("advertised.port", None)
    if host is not None or port is not None:
        bound_port = properties.get("listeners", DEFAULT_LISTENER).partition(",")[0].rpartition(":")[2]
        advertised = f"PLAINTEXT://{host or ''}:{port or bound_port}"
        if properties.setdefault("advertised.listeners", advertised) is advertised:
            yield f"advertised.host.name and advertised.port are old keys; advertised.listeners={advertised} is used."
        else:
            yield "advertised.host.name and advertised.port are ignored, because advertised.listeners is given."


def _complete_listeners(properties: dict[str, str]) -> None:
    """A controller has a listener, even if nobody thought of one."""
    implied = "controller.listener.names" not in properties
    properties.setdefault("controller.listener.names", CONTROLLER)
    names = [name.strip().upper() for name in properties["controller.listener.names"].split(",")]
    roles = properties["process.roles"]
    if "listeners" not in properties:
        listeners = [DEFAULT_LISTENER] if "broker" in roles else []
        if "controller" in roles and CONTROLLER in names:
            listeners.append(DEFAULT_CONTROLLER_LISTENER)
        properties["listeners"] = ",".join(listeners)
    elif implied and "controller" in roles:
        given = [entry.partition("://")[0].strip().upper() for entry in properties["listeners"].split(",")]
        if CONTROLLER not in given:
            properties["listeners"] += f",{PRIVATE_CONTROLLER_LISTENER}"
            _map_controller(properties, given)


def _map_controller(properties: dict[str, str], names: list[str]) -> None:
    """The listener nobody asked for is on the loopback interface, so it may be PLAINTEXT even beside secured ones."""
    key = "listener.security.protocol.map"
    protocols = properties.get(key, BROKER[key].default_text or "")
    mapped = [entry.partition(":")[0].strip().upper() for entry in protocols.split(",")]
    if CONTROLLER not in mapped and (key in properties or names != ["PLAINTEXT"]):
        properties[key] = f"{protocols},{CONTROLLER}:PLAINTEXT"


def warnings_about(properties: Mapping[str, str]) -> Iterator[str]:
    zookeeper = sorted(key for key in properties if key.startswith("zookeeper."))
    if zookeeper:
        yield f"{', '.join(zookeeper)} is ignored: no ZooKeeper is needed."
    for key, text in properties.items():
        known = ("", BROKER[key].default_text, *KNOWN_CLASSES.get(key, ())) if key in BROKER else ()
        if known and _names_class(BROKER[key]) and text.strip() not in known:
            yield f"{key} is ignored: the class {text} cannot be loaded without a JVM."
        if key.startswith("zookeeper.") or is_known(key):
            continue
        if key in REMOVED:
            yield f"{key} is ignored: {REMOVED[key]}."
        elif key in table("topic"):
            yield f"{key} is ignored: it is a topic's key{_broker_key(key)}."
        else:
            yield f"{key} is not a key of Kafka and is ignored.{_suggestion(key)}"


def _names_class(definition: Definition) -> bool:
    return definition.type is CLASS or definition.name in CLASS_LISTS


def is_known(key: str) -> bool:
    if key in BROKER or key in PLUGIN_KEYS or key.startswith(PLUGIN_PREFIXES):
        return True
    base = base_of(key)
    return base != key and any(base == known or base.endswith(f".{known}") for known in BROKER)


def base_of(key: str) -> str:
    """`listener.name.external.ssl.keystore.location` sets ssl.keystore.location for one listener."""
    prefix, dot, rest = key.removeprefix("listener.name.").partition(".")
    return rest if dot and prefix and key.startswith("listener.name.") else key


def _broker_key(topic_key: str) -> str:
    from_broker = table("topic")[topic_key].from_broker
    return f"; the broker's is {from_broker[0][0]}" if from_broker else ""


def _suggestion(key: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, list(BROKER), n=1, cutoff=0.8)
    return f" Is {close[0]} meant?" if close else ""
