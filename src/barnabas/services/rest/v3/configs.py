"""Configurations of topics, brokers and the cluster in v3: read, set, reset, and many at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.client.admin.configs import BROKER, SOURCES, TOPIC, Config, alter_configs, describe_configs
from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable
from barnabas.services.rest import errors
from barnabas.services.rest.proxy import Proxy
from barnabas.services.rest.v3.resources import (
    Place,
    Tree,
    collection,
    config_value,
    not_found,
    number,
    object_of,
    place_of,
)
from barnabas.services.rest.v3.topics import described
from barnabas.web.app import Answer
from barnabas.web.calls import Call
from barnabas.web.errors import HttpError

DYNAMIC_DEFAULT = "DYNAMIC_DEFAULT_BROKER_CONFIG"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose configuration it is: a topic's, a broker's, or that of all brokers."""

    topic: str | None = None
    broker: int | None = None

    @classmethod
    def of(cls, call: Call) -> Owner:
        broker = call.parameters.get("broker")
        return cls(call.parameters.get("topic"), None if broker is None else number(broker))

    @property
    def kind(self) -> int:
        return TOPIC if self.topic is not None else BROKER

    @property
    def name(self) -> str:
        return self.topic if self.topic is not None else "" if self.broker is None else str(self.broker)

    @property
    def shown_kind(self) -> str:
        if self.topic is not None:
            return "KafkaTopicConfig"
        return "KafkaClusterConfig" if self.broker is None else "KafkaBrokerConfig"

    @property
    def path(self) -> tuple[object, ...]:
        if self.topic is not None:
            return "topics", self.topic, "configs"
        return ("broker-configs",) if self.broker is None else ("brokers", self.broker, "configs")

    def check(self, cluster: Cluster) -> None:
        if self.topic is not None:
            described(cluster, self.topic)
        elif self.broker is not None and self.broker not in cluster.metadata([]).brokers:
            raise not_found()

    def entries(self, cluster: Cluster) -> list[Config]:
        self.check(cluster)
        found = describe_configs(cluster, self.kind, [self.name], node_id=self.broker)[self.name]
        if self.kind == BROKER and self.broker is None:
            return [each for each in found if SOURCES[each.source] == DYNAMIC_DEFAULT]
        return found

    def tree(self, place: Place, config: Config) -> Tree:
        owner: Tree
        if self.topic is not None:
            crn, owner = f"topic={self.topic}/config=", {"topic_name": self.topic}
        elif self.broker is not None:
            crn, owner = f"broker={self.broker}/config=", {"broker_id": self.broker}
        else:
            crn, owner = "broker-config=", {"config_type": "BROKER"}
        return place.resource(
            self.shown_kind,
            place.url(*self.path, config.name),
            f"{crn}{config.name}",
            name=config.name,
            value=config.value,
            is_read_only=config.is_read_only,
            is_sensitive=config.is_sensitive,
            source=SOURCES[config.source],
            synonyms=[
                {"name": name, "value": value, "source": SOURCES[source]} for name, value, source in config.synonyms
            ],
            **owner,
            is_default=config.is_default,
        )


async def list_configs(proxy: Proxy, call: Call) -> Any:
    place, owner = await place_of(proxy, call), Owner.of(call)
    found = await proxy.kafka.ask(owner.entries)
    return collection(owner.shown_kind, place.url(*owner.path), [owner.tree(place, each) for each in found])


async def list_all_topics_configs(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)

    def ask(cluster: Cluster) -> dict[str, list[Config]]:
        return describe_configs(cluster, TOPIC, sorted(cluster.metadata().topics))

    found = await proxy.kafka.ask(ask)
    trees = [Owner(name).tree(place, each) for name, configs in sorted(found.items()) for each in configs]
    return collection("KafkaTopicConfig", place.url("topics", "-", "configs"), trees)


async def list_all_brokers_configs(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)

    def ask(cluster: Cluster) -> list[tuple[int, Config]]:
        brokers = sorted(cluster.metadata([]).brokers)
        return [
            (broker, each)
            for broker in brokers
            for each in describe_configs(cluster, BROKER, [str(broker)], node_id=broker)[str(broker)]
        ]

    trees = [Owner(broker=broker).tree(place, each) for broker, each in await proxy.kafka.ask(ask)]
    return collection("KafkaBrokerConfig", place.url("brokers", "-", "configs"), trees)


async def get_config(proxy: Proxy, call: Call) -> Any:
    place, owner = await place_of(proxy, call), Owner.of(call)
    for each in await proxy.kafka.ask(owner.entries):
        if each.name == call.parameters["name"]:
            return owner.tree(place, each)
    raise not_found()


def _unknown(place: Place, owner: Owner, name: str) -> HttpError:
    kind = "TOPIC" if owner.kind == TOPIC else "BROKER"
    return not_found(f"Config {name} cannot be found for {kind} {owner.name} in cluster {place.cluster_id}.")


async def set_config(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    tree = await object_of(call)
    if "value" not in tree:
        raise errors.bad_request("value is missing.")
    await _alter(proxy, place, Owner.of(call), {call.parameters["name"]: config_value(tree)})


async def reset_config(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    await _alter(proxy, place, Owner.of(call), {call.parameters["name"]: None})


async def alter_many(proxy: Proxy, call: Call) -> Any:
    place = await place_of(proxy, call)
    tree = await object_of(call)
    changes = _changes(_listed(tree))
    await _alter(proxy, place, Owner.of(call), changes, validate_only=tree.get("validate_only") is True)


async def alter_many_topics(proxy: Proxy, call: Call) -> Any:
    """Of several topics; those that fail are told, the others are altered."""
    place = await place_of(proxy, call)
    tree = await object_of(call)
    by_topic: dict[str, list[Any]] = {}
    for each in _listed(tree):
        if not isinstance(each, dict) or not isinstance(each.get("topic_name"), str):
            raise errors.bad_request("data holds something without a topic_name.")
        by_topic.setdefault(each["topic_name"], []).append(each)
    failures = []
    for topic, listed in by_topic.items():
        try:
            changes = _changes(listed)
            await _alter(proxy, place, Owner(topic), changes, validate_only=tree.get("validate_only") is True)
        except HttpError as error:
            failures.append({"topic_name": topic, **error.tree})
    return Answer({"failures": failures}, 207) if failures else None


def _listed(tree: Tree) -> list[Any]:
    listed = tree.get("data")
    if not isinstance(listed, list):
        raise errors.bad_request("data is not a list.")
    return listed


def _changes(listed: list[Any]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for each in listed:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise errors.bad_request("data holds something without a name.")
        operation = str(each.get("operation") or "SET").upper()
        if operation not in ("SET", "DELETE"):
            raise errors.bad_request(f"{operation} is neither SET nor DELETE.")
        changes[each["name"]] = None if operation == "DELETE" else config_value(each)
    return changes


async def _alter(
    proxy: Proxy, place: Place, owner: Owner, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    def change(cluster: Cluster) -> None:
        if owner.topic is None and owner.broker is None:
            owner.check(cluster)  # what all brokers have in common lists only what was set
        else:
            known = {each.name for each in owner.entries(cluster)}
            for name in changes:
                if name not in known:
                    raise _unknown(place, owner, name)
        try:
            alter_configs(cluster, owner.kind, {owner.name: changes}, validate_only=validate_only)
        except BrokerUnreachable:
            raise not_found() from None

    await proxy.kafka.ask(change)
