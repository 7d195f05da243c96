"""What a broker's configuration is made of, and what it refuses."""

from pathlib import Path

import pytest

from barnabas.node.configuration import BrokerConfig, ConfigError, SecurityProtocol

BASE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
}


def configured(**keys: str) -> BrokerConfig:
    """The base with other keys, written with underscores for dots."""
    return BrokerConfig.from_properties(BASE | {key.replace("_", "."): text for key, text in keys.items()})


def listening(listeners: str, **keys: str) -> list[str]:
    return [str(each) for each in configured(listeners=listeners, **keys).listeners]


def test_attributes_are_keys_with_kafkas_defaults() -> None:
    config = configured(num_partitions="3", auto_create_topics_enable="false", broker_rack="r1")
    assert (config.num_partitions, config.auto_create_topics_enable, config.broker_rack) == (3, False, "r1")
    assert config.socket_request_max_bytes == 104857600
    assert config.connections_max_idle_ms == 600_000
    assert config.queued_max_request_bytes == -1
    assert config.log_flush_offset_checkpoint_interval_ms == 60_000
    assert config.value("compression.type") == "producer"
    assert config.value("log.cleanup.policy") == ("delete",)
    assert config.value("log.retention.ms") is None
    with pytest.raises(KeyError):
        config.value("no.such.key")
    with pytest.raises(AttributeError):
        config.no_such_key  # noqa: B018


def test_the_least_is_nothing() -> None:
    config = BrokerConfig.from_properties({})
    assert config.node_id == 1
    assert config.process_roles == {"broker", "controller"}
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert config.controller_listener_names == ("CONTROLLER",)
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.log_dirs == (Path("/tmp/kafka-logs"),)


def test_a_file_of_a_course_from_the_days_of_zookeeper() -> None:
    config = BrokerConfig.from_properties(
        {
            "broker.id": "0",
            "zookeeper.connect": "localhost:2181",
            "zookeeper.connection.timeout.ms": "18000",
            "listeners": "PLAINTEXT://localhost:9092",
            "log.dirs": "/tmp/kafka-logs",
            "log.retention.hours": "168",
            "inter.broker.protocol.version": "2.8",
        }
    )
    assert config.node_id == 0
    assert [str(each) for each in config.broker_listeners] == ["PLAINTEXT://localhost:9092"]
    assert [str(each) for each in config.controller_listeners] == ["CONTROLLER://127.0.0.1:0"]
    assert config.warnings == (
        "zookeeper.connect, zookeeper.connection.timeout.ms is ignored: no ZooKeeper is needed.",
        "inter.broker.protocol.version is ignored: the metadata.version of the cluster takes its place.",
    )


def test_host_and_port_were_keys_of_their_own_once() -> None:
    config = BrokerConfig.from_properties({"host.name": "localhost", "port": "9099", "advertised.host.name": "outside"})
    assert [str(each) for each in config.broker_listeners] == ["PLAINTEXT://localhost:9099"]
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://outside:9099"]
    assert len(config.warnings) == 2


def test_a_generated_broker_id_is_the_default_one() -> None:
    assert BrokerConfig.from_properties({"broker.id": "-1"}).node_id == 1


def test_unknown_keys_warn_and_are_kept() -> None:
    config = configured(num_partition="3", retention_ms="5", super_users="User:a", some_plugin="x")
    assert config.warnings == (
        "num.partition is not a key of Kafka and is ignored. Is num.partitions meant?",
        "retention.ms is ignored: it is a topic's key; the broker's is log.retention.ms.",
        "some.plugin is not a key of Kafka and is ignored.",
    )
    assert config.properties["some.plugin"] == "x"


def test_keys_of_one_listener_are_known() -> None:
    keys = {
        "listener.name.plaintext.max.connections": "5",
        "listener.name.x.scram-sha-256.sasl.jaas.config": "secret",
        "listener.name.plaintext.no.such.key": "5",
    }
    assert BrokerConfig.from_properties(BASE | keys).warnings == (
        "listener.name.plaintext.no.such.key is not a key of Kafka and is ignored.",
    )


def test_java_classes_are_warned_about() -> None:
    config = configured(metric_reporters="com.example.Reporter", create_topic_policy_class_name="com.example.Policy")
    assert config.warnings == (
        "metric.reporters is ignored: the class com.example.Reporter cannot be loaded without a JVM.",
        "create.topic.policy.class.name is ignored: the class com.example.Policy cannot be loaded without a JVM.",
    )


@pytest.mark.parametrize("name", ["RackAwareReplicaSelector", "LeaderSelector"])
def test_a_replica_selector_of_kafka_is_no_foreign_class(name: str) -> None:
    assert configured(replica_selector_class=f"org.apache.kafka.common.replica.{name}").warnings == ()


# Listeners


def test_listeners_have_names_and_a_map() -> None:
    config = configured(
        listeners="INSIDE://10.0.0.1:9092,outside://[::1]:9094,CONTROLLER://:9093",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="inside",
    )
    assert [(each.name, each.host, each.port, each.security_protocol) for each in config.listeners] == [
        ("INSIDE", "10.0.0.1", 9092, SecurityProtocol.PLAINTEXT),
        ("OUTSIDE", "::1", 9094, SecurityProtocol.SASL_SSL),
        ("CONTROLLER", "", 9093, SecurityProtocol.PLAINTEXT),
    ]
    assert config.inter_broker_listener_name == "INSIDE"
    assert [str(each) for each in config.advertised_listeners] == ["INSIDE://10.0.0.1:9092", "OUTSIDE://[::1]:9094"]


def test_ports_may_be_zero_or_shared_by_two_families() -> None:
    assert listening("PLAINTEXT://:0,CONTROLLER://:0") == ["PLAINTEXT://:0", "CONTROLLER://:0"]
    assert listening("PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092")


def test_an_empty_host_is_advertised_as_the_machine() -> None:
    config = configured(
        listeners="PLAINTEXT://:0,LOCAL://127.0.0.1:0,CONTROLLER://localhost:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,LOCAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    bound = config.with_bound_ports({"PLAINTEXT": 1111, "LOCAL": 2222, "CONTROLLER": 3333}, lambda: "machine.example")
    assert [str(each) for each in bound.listeners] == [
        "PLAINTEXT://:1111",
        "LOCAL://127.0.0.1:2222",
        "CONTROLLER://localhost:3333",
    ]
    assert [str(each) for each in bound.advertised_listeners] == [
        "PLAINTEXT://machine.example:1111",
        "LOCAL://127.0.0.1:2222",
    ]
    assert [str(each) for each in bound.advertised_controller_listeners] == ["CONTROLLER://localhost:3333"]
    assert bound.with_dynamic({"log.retention.ms": "5"}, {}).listeners == bound.listeners
    assert config.listeners[0].port == 0


def test_an_advertised_port_zero_is_the_bound_one() -> None:
    config = configured(listeners="PLAINTEXT://:0,CONTROLLER://:0", advertised_listeners="PLAINTEXT://localhost:0")
    bound = config.with_bound_ports({"PLAINTEXT": 1111, "CONTROLLER": 2222}, lambda: "machine")
    assert [str(each) for each in bound.advertised_listeners] == ["PLAINTEXT://localhost:1111"]


def test_a_controller_is_found_where_the_voters_list_says() -> None:
    config = configured(controller_quorum_voters="1@first:9093")
    assert [str(each) for each in config.advertised_controller_listeners] == ["CONTROLLER://first:9093"]


def test_of_two_voters_with_one_id_the_later_one_counts() -> None:
    config = configured(controller_quorum_voters="1@wrong:9093,2@b:9093,1@a:9093")
    assert config.controller_quorum_voters == ((1, "a", 9093), (2, "b", 9093))
    assert [str(each) for each in config.advertised_controller_listeners] == ["CONTROLLER://a:9093"]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"node.id": "x"}, "Invalid value x for configuration node.id: Not a number of type INT"),
        ({"node.id": "-3"}, "Invalid value -3 for configuration node.id: Value must be at least 0"),
        ({"node.id": "1", "broker.id": "2"}, "node.id=1 and broker.id=2 must be the same number."),
        ({"process.roles": "broker,cook"}, "Invalid value cook for configuration process.roles"),
        ({"process.roles": ""}, "Configuration 'process.roles' must not be empty."),
        ({"listeners": ""}, "Configuration 'listeners' must not be empty."),
        ({"listeners": "PLAINTEXT//:9092"}, "listeners=PLAINTEXT//:9092 is not an address"),
        ({"listeners": "PLAINTEXT://:99999,CONTROLLER://:9093"}, "listeners=PLAINTEXT://:99999 is not an address"),
        ({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}, "listeners uses port 9092 twice"),
        ({"listeners": "PLAINTEXT://1.1.1.1:1,CONTROLLER://1.1.1.2:1"}, "listeners uses port 1 twice"),
        (
            {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3"},
            "listeners names the listener PLAINTEXT",
        ),
        ({"listeners": "FOO://:1,CONTROLLER://:3"}, "listeners has a listener FOO whose protocol"),
        ({"listeners": "SSL://:1,CONTROLLER://:3"}, "listeners has a listener CONTROLLER whose protocol"),
        ({"listeners": "PLAINTEXT://:9092"}, "controller.listener.names has CONTROLLER, which is not among"),
        ({"listeners": "CONTROLLER://:9093"}, "A broker needs a listener"),
        ({"listener.security.protocol.map": "PLAINTEXT:FOO"}, "listener.security.protocol.map=PLAINTEXT:FOO cannot be"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "listener.security.protocol.map=PLAINTEXT cannot be used"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "listeners has a listener CONTROLLER whose"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners must not be PLAINTEXT://0.0.0.0"),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"},
            "advertised.listeners must not be PLAINTEXT://0.0.0.0",
        ),
        ({"advertised.listeners": "SSL://host:1"}, "advertised.listeners has SSL, which is not among the listeners."),
        ({"advertised.listeners": "CONTROLLER://host:1"}, "A broker needs a listener"),
        ({"inter.broker.listener.name": "FOO"}, "inter.broker.listener.name=FOO cannot be used: it must be one of"),
        ({"inter.broker.listener.name": "CONTROLLER"}, "inter.broker.listener.name=CONTROLLER cannot be used"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol can be given.",
        ),
        ({"controller.listener.names": "CONTROLLER,OTHER"}, "controller.listener.names has OTHER"),
        ({"controller.quorum.voters": "2@host:9093"}, "controller.quorum.voters must contain node 1"),
        ({"controller.quorum.voters": "me"}, "controller.quorum.voters=me is not a voter: id@host:port is expected."),
        (
            {"controller.quorum.voters": "1@0.0.0.0:9093"},
            "controller.quorum.voters=1@0.0.0.0:9093: the host 0.0.0.0 is",
        ),
        ({"process.roles": "broker", "controller.quorum.voters": "1@h:1"}, "controller.quorum.voters must not contain"),
        (
            {"process.roles": "broker", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
            "controller.listener.names must",
        ),
        ({"process.roles": "controller"}, "The listener PLAINTEXT is none of a node that is only a controller."),
        ({"log.dirs": ""}, "Configuration 'log.dirs' must not be empty."),
        ({"log.dirs": "/a,,/b"}, "Configuration 'log.dirs' values must not be empty."),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"auto.create.topics.enable": "maybe"}, "Invalid value maybe for configuration auto.create.topics.enable"),
        ({"log.retention.ms": "0"}, "log.retention.ms=0 cannot be used: log.retention.ms must be at least 1, or -1."),
        ({"log.retention.hours": "0"}, "log.retention.hours=0 cannot be used"),
        ({"log.roll.ms": "0"}, "log.roll.ms=0 cannot be used: log.roll.ms must be at least 1."),
        ({"queued.max.request.bytes": "10"}, "queued.max.request.bytes=10 cannot be used"),
        ({"connections.max.idle.ms": "50"}, "connections.max.idle.ms=50 cannot be used"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip can be 0 only if"),
        ({"max.connections.per.ip.overrides": "host:x"}, "max.connections.per.ip.overrides=host:x cannot be used"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.fetch.wait.max.ms=40000 cannot be used"),
        ({"log.cleaner.dedupe.buffer.size": "100"}, "log.cleaner.dedupe.buffer.size=100 cannot be used"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads=0 cannot be used"),
        ({"group.consumer.session.timeout.ms": "1"}, "group.consumer.session.timeout.ms must be greater than or equal"),
        (
            {"group.share.heartbeat.interval.ms": "50000"},
            "group.share.heartbeat.interval.ms must be less",
        ),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "group.coordinator.rebalance.protocols must contain"),
        ({"offsets.topic.compression.codec": "9"}, "offsets.topic.compression.codec=9 cannot be used"),
        ({"early.start.listeners": "FOO"}, "early.start.listeners has FOO, which is not among the listeners."),
        ({"cordoned.log.dirs": "/x"}, "cordoned.log.dirs has /x, which is not among log.dirs."),
        ({"ssl.client.auth": "perhaps"}, "Invalid value perhaps for configuration ssl.client.auth"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(keys: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_properties(BASE | keys)
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)


# While it runs


def test_dynamic_layers_lie_over_the_static_one() -> None:
    config = configured(log_retention_ms="1", message_max_bytes="1")
    changed = config.with_dynamic({"log.retention.ms": "2", "message.max.bytes": "2"}, {"log.retention.ms": "3"})
    assert changed.value("log.retention.ms") == 3
    assert changed.message_max_bytes == 2
    assert config.message_max_bytes == 1
    assert changed.node_id == config.node_id
    assert (
        changed.with_dynamic({"log.retention.ms": "2", "message.max.bytes": "2"}, {"log.retention.ms": "3"}) is changed
    )
    assert changed.with_dynamic({}, {}).value("log.retention.ms") == 1


def test_dynamic_values_that_no_longer_fit_are_left_out() -> None:
    changed = configured().with_dynamic({"log.retention.ms": "soon", "num.partitions": "9", "custom": "x"}, {})
    assert changed.value("log.retention.ms") is None
    assert changed.num_partitions == 1
    assert changed.dynamic_default == {"custom": "x"}
