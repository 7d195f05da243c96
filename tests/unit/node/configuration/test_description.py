"""Entries as DescribeConfigs shows them: value, source, synonyms, what is hidden and what cannot be changed."""

from typing import Any

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.description import (
    Entries,
    Wanted,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    logger_entries,
    topic_entries,
)
from barnabas.node.configuration.topics import TopicConfigs

TOPIC = 2
ALL = Wanted(frozenset(), synonyms=True, documentation=False)


def only(*keys: str, synonyms: bool = True, documentation: bool = False) -> Wanted:
    return Wanted(frozenset(keys), synonyms, documentation)


def configured(**keys: str) -> BrokerConfig:
    given = {key.replace("_", "."): text for key, text in keys.items()}
    return BrokerConfig.from_properties({"node.id": "1"} | given)


def brief(entries: Entries) -> list[Any]:
    return [(each.name, each.value, int(each.config_source), synonyms(each)) for each in entries]


def synonyms(entry: Any) -> list[Any]:
    return [(each.name, each.value, int(each.source)) for each in entry.synonyms]


def test_a_topic_shows_all_keys_but_the_internal_ones() -> None:
    entries = topic_entries(TopicConfigs(configured()), MetadataImage(), "t", ALL)
    assert len(entries) == 33
    assert [each.name for each in entries] == sorted(each.name for each in entries)


def test_an_internal_key_is_shown_once_it_is_set() -> None:
    image = MetadataImage(configs={(TOPIC, "t"): {"internal.segment.bytes": "100"}})
    assert len(topic_entries(TopicConfigs(configured()), image, "t", ALL)) == 34


def test_a_topics_value_stands_over_the_brokers_layers() -> None:
    broker = configured(log_retention_hours="100").with_dynamic({"log.retention.ms": "8"}, {"log.retention.ms": "7"})
    image = MetadataImage(
        configs={
            (TOPIC, "t"): {"retention.ms": " 5 "},
            (4, ""): {"log.retention.ms": "8"},
            (4, "1"): {"log.retention.ms": "7"},
        }
    )
    broker_layers = [
        ("log.retention.ms", "7", 2),
        ("log.retention.ms", "8", 3),
        ("log.retention.hours", "100", 4),
        ("log.retention.hours", "168", 5),
    ]
    topics = TopicConfigs(broker)
    assert brief(topic_entries(topics, image, "t", only("retention.ms"))) == [
        ("retention.ms", "5", 1, [("retention.ms", "5", 1), *broker_layers])
    ]
    assert brief(topic_entries(topics, image, "other", only("retention.ms"))) == [
        ("retention.ms", "7", 2, broker_layers)
    ]


def test_a_weaker_unit_alone_is_not_shown_as_a_synonym() -> None:
    """As in Kafka: the value is that of the hours, and yet it is said to be a default."""
    topics = TopicConfigs(configured(log_retention_hours="100"))
    entries = topic_entries(topics, MetadataImage(), "t", only("retention.ms"))
    assert brief(entries) == [("retention.ms", "360000000", 5, [])]


def test_synonyms_and_documentation_come_on_demand() -> None:
    topics = TopicConfigs(configured())
    plain = topic_entries(topics, MetadataImage(), "t", only("flush.messages", synonyms=False))[0]
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = topic_entries(topics, MetadataImage(), "t", only("flush.messages", documentation=True))[0]
    assert full.documentation == "The log is fsynced once this many records have been appended since the last time."
    assert synonyms(full) == [("log.flush.interval.messages", "9223372036854775807", 5)]


def test_a_broker_shows_everything_it_was_given_and_hides_what_may_be_secret() -> None:
    broker = configured(ssl_keystore_password="secret", some_plugin="token", num_partitions="3")
    entries = {each.name: each for each in broker_entries(broker, ALL)}
    assert len(entries) == 341
    assert (entries["num.partitions"].value, synonyms(entries["num.partitions"])) == (
        "3",
        [("num.partitions", "3", 4), ("num.partitions", "1", 5)],
    )
    for name in ("ssl.keystore.password", "some.plugin"):
        assert (entries[name].value, entries[name].is_sensitive) == (None, True)
        assert synonyms(entries[name]) == [(name, None, 4)]
    assert entries["some.plugin"].read_only
    assert entries["node.id"].read_only
    assert not entries["log.retention.ms"].read_only
    assert synonyms(entries["broker.id"]) == [("broker.id", "1", 4), ("broker.id", "-1", 5)]


def test_the_keys_of_all_brokers_are_only_those_that_were_set() -> None:
    broker = configured(message_max_bytes="5").with_dynamic(
        {"message.max.bytes": "6", "custom": "x", "log.cleanup.policy": "delete , compact"}, {"message.max.bytes": "7"}
    )
    assert brief(default_broker_entries(broker, ALL)) == [
        ("custom", None, 3, [("custom", None, 3)]),
        ("log.cleanup.policy", "delete , compact", 3, [("log.cleanup.policy", "delete , compact", 3)]),
        ("message.max.bytes", "6", 3, [("message.max.bytes", "6", 3)]),
    ]


def test_keys_of_one_listener_and_throttles_are_shown_once_they_are_set() -> None:
    listener_key, rate = "listener.name.plaintext.max.connections", "leader.replication.throttled.rate"
    broker = configured().with_dynamic({}, {listener_key: "5", rate: "1000"})
    assert brief(broker_entries(broker, only(listener_key, rate))) == [
        (rate, "1000", 2, [(rate, "1000", 2)]),
        (listener_key, "5", 2, [(listener_key, "5", 2), ("max.connections", "2147483647", 5)]),
    ]


def test_a_group_shows_its_own_value_or_the_brokers() -> None:
    keys = only("consumer.session.timeout.ms", "share.isolation.level", "consumer.heartbeat.interval.ms")
    assert brief(group_entries(configured(), {"consumer.session.timeout.ms": "50000"}, keys)) == [
        ("consumer.heartbeat.interval.ms", "5000", 5, [("group.consumer.heartbeat.interval.ms", "5000", 5)]),
        (
            "consumer.session.timeout.ms",
            "50000",
            8,
            [("consumer.session.timeout.ms", "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)],
        ),
        ("share.isolation.level", "read_uncommitted", 5, [("share.isolation.level", "read_uncommitted", 5)]),
    ]


def test_a_subscription_to_client_metrics() -> None:
    assert brief(client_metrics_entries({"metrics": "a,b"}, ALL)) == [
        ("interval.ms", "300000", 5, []),
        ("match", "", 5, []),
        ("metrics", "a,b", 7, [("metrics", "a,b", 7)]),
    ]


def test_loggers_have_levels_and_nothing_else() -> None:
    assert brief(logger_entries({"root": "INFO", "barnabas": "DEBUG"}, ALL)) == [
        ("barnabas", "DEBUG", 6, []),
        ("root", "INFO", 6, []),
    ]
    assert brief(logger_entries({"root": "INFO", "barnabas": "DEBUG"}, only("root"))) == [("root", "INFO", 6, [])]
