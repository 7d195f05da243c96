"""Flags win over variables, variables over the file; and each alone is enough."""

from pathlib import Path

import pytest

from barnabas.node.configuration import ConfigError
from barnabas.node.configuration.sources import (
    key_of_variable,
    load,
    parse_overrides,
    properties_from_environment,
)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "listener.security.protocol.map"),
        ("KAFKA_LISTENER_NAME_MY__LISTENER_MAX_CONNECTIONS", "listener.name.my_listener.max.connections"),
        ("KAFKA_LISTENER_NAME_X_SCRAM___SHA___256_SASL_JAAS_CONFIG", "listener.name.x.scram-sha-256.sasl.jaas.config"),
        ("KAFKA_CFG_NODE_ID", "node.id"),
    ],
)
def test_a_variable_names_a_key(variable: str, key: str) -> None:
    assert key_of_variable(variable) == key


def test_the_images_own_switches_are_no_keys() -> None:
    environ = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "-Dx=y",
        "KAFKA_JMX_PORT": "9101",
        "KAFKA_JMX_HOSTNAME": "localhost",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "DEBUG",
        "KAFKA_LOG4J_OPTS": "-Dlog4j=x",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL": "ERROR",
        "KAFKA_JVM_PERFORMANCE_OPTS": "-server",
        "KAFKA_GC_LOG_OPTS": "-x",
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_HOME": "/opt/kafka",
        "PATH": "/bin",
        "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
    }
    assert properties_from_environment(environ) == {}


def test_nothing_at_all_is_a_node_of_its_own() -> None:
    config = load(environ={})
    assert (config.node_id, config.process_roles) == (1, {"broker", "controller"})
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.offsets_topic_replication_factor == 1
    assert config.warnings == ()


def test_nothing_but_variables() -> None:
    config = load(
        environ={
            "KAFKA_NODE_ID": "7",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:19092,CONTROLLER://0.0.0.0:9093,HOST://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:19092,HOST://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@broker:9093",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
        }
    )
    assert config.node_id == 7
    assert config.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://broker:19092", "HOST://localhost:9092"]
    assert [str(each) for each in config.advertised_controller_listeners] == ["CONTROLLER://broker:9093"]
    assert config.log_dirs == (Path("/var/lib/kafka/data"),)
    assert config.warnings == ()


def test_variables_of_a_course_from_the_days_of_zookeeper() -> None:
    config = load(
        environ={
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_JMX_PORT": "9101",
        }
    )
    assert [str(each) for each in config.listeners] == [
        "PLAINTEXT://0.0.0.0:29092",
        "PLAINTEXT_HOST://0.0.0.0:9092",
        "CONTROLLER://127.0.0.1:0",
    ]
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.warnings == ("zookeeper.connect is ignored: no ZooKeeper is needed.",)


def test_a_single_variable_is_enough() -> None:
    config = load(environ={"KAFKA_NUM_PARTITIONS": "6"})
    assert (config.node_id, config.num_partitions) == (1, 6)
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]


def test_what_is_advertised_is_bound_everywhere_unless_listeners_say_otherwise() -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker.example:29092"}
    config = load(environ=advertised)
    assert str(config.broker_listeners[0]) == "PLAINTEXT://0.0.0.0:29092"
    config = load(environ=advertised, overrides={"listeners": "PLAINTEXT://127.0.0.1:1"})
    assert str(config.broker_listeners[0]) == "PLAINTEXT://127.0.0.1:1"


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=3\nnum.partitions=1\nlog.retention.hours=1\nlog.dirs=/file\n")
    environ = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_RETENTION_HOURS": "2"}
    config = load(path, environ=environ, overrides={"log.retention.hours": "3"})
    assert config.node_id == 3
    assert config.value("log.dirs") == ("/file",)
    assert config.num_partitions == 2
    assert config.value("log.retention.hours") == 3


def test_secrets_lie_in_files(tmp_path: Path) -> None:
    (tmp_path / "creds").write_text("s3cret\n")
    properties = properties_from_environment(
        {
            "KAFKA_SSL_KEYSTORE_FILENAME": "broker.jks",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
            "KAFKA_SSL_KEY_CREDENTIALS": "creds",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "trust.jks",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "creds",
        },
        secrets_dir=tmp_path,
    )
    assert properties == {
        "ssl.keystore.location": str(tmp_path / "broker.jks"),
        "ssl.keystore.password": "s3cret",
        "ssl.key.password": "s3cret",
        "ssl.truststore.location": str(tmp_path / "trust.jks"),
        "ssl.truststore.password": "s3cret",
    }


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^KAFKA_SSL_KEY_CREDENTIALS names the file .*nowhere, which cannot be read"):
        properties_from_environment({"KAFKA_SSL_KEY_CREDENTIALS": "nowhere"}, secrets_dir=tmp_path)


def test_an_empty_variable_is_an_empty_value() -> None:
    assert properties_from_environment({"KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": ""}) == {
        "ssl.endpoint.identification.algorithm": ""
    }


def test_overrides_stand_on_the_command_line() -> None:
    assert parse_overrides(["a.b=c=d", "e="]) == {"a.b": "c=d", "e": ""}
    with pytest.raises(ConfigError, match="key=value is expected"):
        parse_overrides(["nonsense"])


def test_a_cluster_id_must_be_one() -> None:
    with pytest.raises(ConfigError, match=r"^CLUSTER_ID=nonsense is not"):
        load(environ={"CLUSTER_ID": "nonsense"})
