"""What holds for a topic, layer over layer."""

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.layers import ConfigSource
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.storage.log_config import LogConfig
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.metadata import ConfigRecord, TopicRecord
from barnabas.wire.uuids import Uuid

TOPIC, BROKER = 2, 4


def topic_configs(**keys: str) -> TopicConfigs:
    given = {key.replace("_", "."): text for key, text in keys.items()}
    return TopicConfigs(BrokerConfig.from_properties({"node.id": "1"} | given))


def image_with(configs: dict[tuple[int, str], dict[str, str]]) -> MetadataImage:
    image = MetadataImage()
    image.replay(TopicRecord(name="t", topic_id=Uuid.random()))
    image.replay(TopicRecord(name="other", topic_id=Uuid.random()))
    for (kind, name), entries in configs.items():
        for key, text in entries.items():
            image.replay(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=text))
    return image


def test_a_topic_that_says_nothing_has_kafkas_defaults() -> None:
    assert topic_configs().log_config(image_with({}), "t") == LogConfig()


def test_the_brokers_keys_are_the_topics_defaults() -> None:
    configs = topic_configs(
        log_segment_bytes="14",
        log_cleanup_policy="compact, delete",
        message_max_bytes="77",
        log_cleaner_min_cleanable_ratio="0.1",
        log_preallocate="true",
        log_flush_scheduler_interval_ms="123",
        compression_type="zstd",
    )
    found = configs.log_config(image_with({}), "t")
    assert found.segment_bytes == 14
    assert found.cleanup_policy == ("compact", "delete")
    assert found.max_message_bytes == 77
    assert found.min_cleanable_dirty_ratio == 0.1
    assert found.preallocate is True
    assert found.flush_ms == 123
    assert found.compression_type == "zstd"


@pytest.mark.parametrize(
    ("keys", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log_retention_hours": "1"}, 3_600_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2"}, 120_000),
        ({"log_retention_hours": "1", "log_retention_minutes": "2", "log_retention_ms": "3"}, 3),
        ({"log_retention_minutes": "-5"}, -1),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_milliseconds_beat_minutes_beat_hours(keys: dict[str, str], retention_ms: int) -> None:
    assert topic_configs(**keys).log_config(image_with({}), "t").retention_ms == retention_ms


def test_hours_between_rolls_become_milliseconds() -> None:
    found = topic_configs(log_roll_hours="2", log_roll_jitter_hours="1").log_config(image_with({}), "t")
    assert (found.segment_ms, found.segment_jitter_ms) == (7_200_000, 3_600_000)


def test_each_layer_lies_over_the_one_below() -> None:
    configs = topic_configs(log_retention_ms="1")
    layers: dict[tuple[int, str], dict[str, str]] = {}
    for resource, text in (((BROKER, ""), "2"), ((BROKER, "1"), "3"), ((TOPIC, "t"), "4")):
        key = "retention.ms" if resource[0] == TOPIC else "log.retention.ms"
        layers[resource] = {key: text}
        assert configs.log_config(image_with(layers), "t").retention_ms == int(text)
    assert configs.log_config(image_with(layers), "other").retention_ms == 3
    assert configs.log_config(image_with({}), "t").retention_ms == 1


def test_another_brokers_keys_are_not_ours() -> None:
    image = image_with({(BROKER, "2"): {"log.retention.ms": "5"}})
    assert topic_configs().log_config(image, "t") == LogConfig()


def test_configs_nobody_understands_any_more_do_not_matter() -> None:
    image = image_with({(TOPIC, "t"): {"message.format.version": "2.0", "retention.ms": "soon", "flush.ms": "9"}})
    assert topic_configs().log_config(image, "t") == LogConfig(flush_ms=9)


def test_topics_without_configs_of_their_own_share_one() -> None:
    configs, image = topic_configs(), image_with({})
    assert configs.log_config(image, "t") is configs.log_config(image, "other")


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"no.such.key": "1"}, "Unknown topic config name: no.such.key"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"retention.ms": "x", "segment.bytes": "y"},
            "Invalid value y for configuration segment.bytes: Not a number of type INT",
        ),
        ({"segment.bytes": "13"}, "Invalid value 13 for configuration segment.bytes: Value must be at least 14"),
        (
            {"compression.type": "none"},
            "Invalid value none for configuration compression.type: String must be one of: uncompressed, zstd, lz4, "
            "snappy, gzip, producer",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms (10) must not be more than max.compaction.lag.ms (5).",
        ),
        ({"remote.storage.enable": "true"}, "This broker has no remote storage, so no topic can use it."),
    ],
)
def test_what_a_topic_cannot_have(configs: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        topic_configs().check(image_with({}), configs)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_lags_are_compared_with_the_brokers_too() -> None:
    configs = topic_configs(log_cleaner_max_compaction_lag_ms="5")
    with pytest.raises(KafkaError):
        configs.check(image_with({}), {"min.compaction.lag.ms": "10"})


def test_a_created_topic_is_told_all_its_configs_and_their_sources() -> None:
    configs = topic_configs(log_retention_hours="100")
    image = image_with({(BROKER, ""): {"message.max.bytes": "9"}, (BROKER, "1"): {"log.segment.bytes": "15"}})
    found = {each.name: (each.value, each.config_source) for each in configs.effective(image, {"flush.ms": " 5"})}
    assert list(found) == sorted(found)
    assert len(found) == 33
    assert found["flush.ms"] == (" 5", ConfigSource.TOPIC)
    assert found["retention.ms"] == ("360000000", ConfigSource.STATIC_BROKER)
    assert found["max.message.bytes"] == ("9", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert found["segment.bytes"] == ("15", ConfigSource.DYNAMIC_BROKER)
    assert found["segment.ms"] == ("604800000", ConfigSource.DEFAULT)
