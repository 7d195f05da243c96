"""What topics, brokers, groups and subscriptions may become."""

import pytest

from barnabas.core.metadata.state import BrokerState, ConfigResource, MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.alteration import AlterationRules
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import ZERO_UUID

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
STATIC = {"node.id": "1", "log.dirs": "/data", "log.retention.hours": "100"}


def rules() -> AlterationRules:
    return AlterationRules(TopicConfigs(BrokerConfig.from_properties(STATIC)), lambda resource: None)


def refusal_of(
    resource: ConfigResource, configs: dict[str, str], image: MetadataImage | None = None
) -> tuple[ErrorCode, str] | None:
    try:
        rules().check(image or MetadataImage(), resource, configs, configs)
    except KafkaError as error:
        return error.code, error.message
    return None


@pytest.mark.parametrize(
    "configs",
    [
        {"log.retention.ms": "5"},
        {"log.retention.ms": "-1", "message.max.bytes": "5"},
        {"unclean.leader.election.enable": "true"},
        {"num.io.threads": "16"},
        {"num.io.threads": "4"},
        {"log.cleaner.threads": "2"},
        {"nobody.knows": "this"},
        {"listener.name.plaintext.max.connections": "5"},
        {"leader.replication.throttled.rate": "5"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"log.local.retention.ms": "1000"},
    ],
)
@pytest.mark.parametrize("name", ["", "1"])
def test_what_brokers_may_be_told_while_they_run(name: str, configs: dict[str, str]) -> None:
    assert refusal_of((BROKER, name), configs) is None


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"num.partitions": "5"}, "Cannot update these configs dynamically: [num.partitions]"),
        (
            {"num.partitions": "5", "log.retention.hours": "5", "log.retention.ms": "5"},
            "Cannot update these configs dynamically: [log.retention.hours, num.partitions]",
        ),
        ({"node.id": "5"}, "Cannot update these configs dynamically: [node.id]"),
        ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        ({"log.retention.ms": "0"}, "log.retention.ms=0 cannot be used: log.retention.ms must be at least 1, or -1."),
        ({"num.io.threads": "17"}, "num.io.threads=17 cannot be used: it must be at most double the current value 8."),
        ({"num.io.threads": "3"}, "num.io.threads=3 cannot be used: it must be at least half the current value 8."),
        ({"leader.replication.throttled.rate": "-5"}, "Invalid value -5 for configuration leader.replication"),
        ({"listener.name.x.max.connections": "x"}, "Invalid value x for configuration max.connections"),
        ({"max.connection.creation.rate": "0"}, "max.connection.creation.rate must be at least 1."),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip can be 0 only if"),
        ({"log.local.retention.ms": "360000001"}, "Invalid value 360000001 for configuration log.local.retention.ms"),
        ({"log.local.retention.ms": "-1"}, "Invalid value -1 for configuration log.local.retention.ms"),
        ({"metric.reporters": "com.example.Reporter"}, "Invalid value com.example.Reporter for configuration"),
        (
            {"ssl.keystore.location": "/x"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.key",
        ),
    ],
)
@pytest.mark.parametrize("name", ["", "1"])
def test_what_brokers_cannot_be_told(name: str, configs: dict[str, str], message: str) -> None:
    refusal = refusal_of((BROKER, name), configs)
    assert refusal is not None
    assert refusal[0] == ErrorCode.INVALID_REQUEST
    assert refusal[1].startswith(message)


@pytest.mark.parametrize(
    "configs",
    [
        {"listener.name.plaintext.ssl.keystore.location": "/x"},
        {"cordoned.log.dirs": "/data"},
        {"sasl.jaas.config": "x"},
    ],
)
def test_some_keys_belong_to_one_broker(configs: dict[str, str]) -> None:
    assert refusal_of((BROKER, "1"), configs) is None
    assert refusal_of((BROKER, ""), configs) == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs at default cluster level, broker id must be specified: [{next(iter(configs))}]",
    )


def test_listeners_stay_as_they_are() -> None:
    refusal = refusal_of((BROKER, "1"), {"listeners": "PLAINTEXT://:1,CONTROLLER://:2"})
    assert refusal == (ErrorCode.INVALID_REQUEST, "listeners cannot be changed while the node runs.")


@pytest.mark.parametrize("name", ["2", "x", "-1"])
def test_other_brokers_are_not_ours_to_change(name: str) -> None:
    refusal = refusal_of((BROKER, name), {"log.retention.ms": "5"})
    assert refusal is not None
    assert refusal[0] == ErrorCode.INVALID_REQUEST


def test_old_keys_that_no_longer_fit_do_not_hinder_new_ones() -> None:
    image = MetadataImage(configs={(BROKER, ""): {"num.partitions": "5", "log.retention.ms": "x"}})
    merged = {"num.partitions": "5", "log.retention.ms": "x", "message.max.bytes": "7"}
    rules().check(image, (BROKER, ""), merged, {"message.max.bytes": "7"})


def test_min_insync_replicas_is_the_clusters_while_there_are_eligible_leaders() -> None:
    image = MetadataImage(features={"eligible.leader.replicas.version": 1})
    assert refusal_of((BROKER, ""), {"min.insync.replicas": "2"}, image) is None
    refusal = refusal_of((BROKER, "1"), {"min.insync.replicas": "2"}, image)
    assert refusal is not None
    assert refusal[0] == ErrorCode.INVALID_CONFIG
    with pytest.raises(KafkaError, match="cannot be removed"):
        rules().check(image, (BROKER, ""), {}, {"min.insync.replicas": None})
    assert refusal_of((BROKER, "1"), {"min.insync.replicas": "2"}) is None


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"consumer.session.timeout.ms": "50000"}, None),
        ({"share.auto.offset.reset": "by_duration:PT1H", "share.isolation.level": "read_committed"}, None),
        ({"nope": "1"}, "Unknown group config name: nope"),
        (
            {"consumer.session.timeout.ms": "5"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.session.timeout.ms": "70000"},
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"share.record.lock.duration.ms": "5"},
            "Invalid value 5 for configuration share.record.lock.duration.ms: Value must be at least 1000",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"consumer.session.timeout.ms": "x"},
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
    ],
)
def test_groups_stay_within_the_brokers_bounds(configs: dict[str, str], message: str | None) -> None:
    expected = None if message is None else (ErrorCode.INVALID_CONFIG, message)
    assert refusal_of((GROUP, "g"), configs) == expected


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"metrics": "*", "interval.ms": "5000", "match": "client_id=a.*, client_software_name=x"}, None),
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ({"match": "x"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
        ({"match": "shoe_size=44"}, ErrorCode.INVALID_CONFIG),
        ({"nope": "x"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_subscriptions_to_client_metrics(configs: dict[str, str], code: ErrorCode | None) -> None:
    refusal = refusal_of((CLIENT_METRICS, "m"), configs)
    assert (refusal[0] if refusal else None) == code


def test_lists_are_known_where_kafkas_controller_knows_them() -> None:
    assert rules().is_list((TOPIC, "t"), "cleanup.policy")
    assert rules().default((TOPIC, "t"), "cleanup.policy") == "delete"
    assert rules().is_list((BROKER, ""), "log.cleanup.policy")
    assert not rules().is_list((TOPIC, "t"), "retention.ms")
    assert not rules().is_list((TOPIC, "t"), "nope")
    assert not rules().is_list((CLIENT_METRICS, "m"), "metrics")


def test_the_controller_takes_configs_of_another_broker_that_is_registered() -> None:
    image = MetadataImage()
    image.brokers[2] = BrokerState(id=2, epoch=1, incarnation_id=ZERO_UUID, endpoints={})
    rate = "leader.replication.throttled.rate"
    assert refusal_of((BROKER, "2"), {rate: "5"}, image) is None
    refused = refusal_of((BROKER, "2"), {rate: "-5"}, image)
    assert refused is not None
    assert refused[0] is ErrorCode.INVALID_REQUEST
    read_only = refusal_of((BROKER, "2"), {"node.id": "7"}, image)
    assert read_only == (ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [node.id]")
    assert refusal_of((BROKER, "3"), {rate: "5"}, image) == (
        ErrorCode.INVALID_REQUEST,
        "Unexpected broker id, expected 1, but received 3",
    )
