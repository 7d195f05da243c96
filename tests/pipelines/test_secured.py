"""Pipelines over SASL_SSL: Spark's source and sink, SQL and Connect, each logged in by SCRAM within TLS.

SQL and Connect start a Spark of their own, which takes a while: BARNABAS_TEST_SECURED=1 runs them too.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.client.certificates import make_certificates
from barnabas.testing import Node
from tests.support.sql_server import SqlServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 240.0
WITH_OWN_SPARK = pytest.mark.skipif(not os.environ.get("BARNABAS_TEST_SECURED"), reason="BARNABAS_TEST_SECURED=1")


class Secured(NamedTuple):
    servers: str
    admin: AdminClient
    client: dict[str, str]

    @property
    def options(self) -> dict[str, str]:
        """As Spark's source and sink take them."""
        return {"kafka.bootstrap.servers": self.servers} | self.for_spark

    @property
    def for_spark(self) -> dict[str, str]:
        return {f"kafka.{key}": value for key, value in self.client.items()}

    def topic(self, name: str) -> str:
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        return name


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A node whose clients are anna, or nobody."""
    directory = tmp_path_factory.mktemp("secured")
    make_certificates(directory, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.location": str(directory / "server.p12"),
        "ssl.keystore.password": "changeit",
        "group.initial.rebalance.delay.ms": "0",
    }
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="anna" password="anna-secret";',
        "ssl.truststore.location": str(directory / "truststore.p12"),
        "ssl.truststore.password": "changeit",
        "ssl.truststore.type": "PKCS12",
    }
    with Node(config) as node:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}"})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion("anna", info, b"anna-secret")
        admin.alter_user_scram_credentials([wanted])["anna"].result(30)
        yield Secured(f"127.0.0.1:{node.ports['SASL_SSL']}", admin, client)


def values(spark: Any, secured: Secured, topic: str) -> list[str]:
    rows = spark.read.format("barnabas").options(**secured.options).option("subscribe", topic).load().collect()
    return sorted(bytes(row.value).decode() for row in rows)


def write(spark: Any, secured: Secured, topic: str, *texts: str) -> None:
    rows = spark.createDataFrame([(each, each) for each in texts], "key string, value string")
    rows.write.format("barnabas").mode("append").options(**secured.options).option("topic", topic).save()


def test_a_stream_of_spark_reads_and_writes(spark: Any, secured: Secured, tmp_path: Path) -> None:
    given, out = secured.topic("spark-in"), secured.topic("spark-out")
    write(spark, secured, given, "a", "b")
    read = spark.readStream.format("barnabas").options(**secured.options).option("subscribe", given)
    writing = read.option("startingOffsets", "earliest").load().writeStream.format("barnabas")
    writing = writing.options(**secured.options, topic=out, exactlyOnce="true", checkpointLocation=str(tmp_path))
    query = writing.trigger(availableNow=True).start()
    assert query.awaitTermination(LIMIT_S)
    assert values(spark, secured, out) == ["a", "b"]
    wrong = {"kafka.sasl.jaas.config": secured.client["sasl.jaas.config"].replace("anna-secret", "wrong")}
    with pytest.raises(Exception, match=r"(?i)authentication failed|invalid credentials"):
        spark.read.format("barnabas").options(**secured.options | wrong).option("subscribe", out).load().collect()


@WITH_OWN_SPARK
def test_a_persistent_query_of_the_sql_server_logs_in(secured: Secured, tmp_path: Path) -> None:
    settings = {key.replace(".", "_"): value for key, value in secured.client.items()}
    server = SqlServer(secured.servers, tmp_path, **settings).start()
    try:
        server.run("CREATE STREAM s (v INT) WITH (kafka_topic='sql-in', value_format='JSON', partitions=1);")
        server.run("CREATE STREAM d AS SELECT v * 2 AS v FROM s;", auto_offset_reset="earliest")
        server.run("INSERT INTO s VALUES (21);")
        rows = server.rows("SELECT v FROM d EMIT CHANGES LIMIT 1;", auto_offset_reset="earliest")
        assert rows == [[42]]
        shown = json.dumps(server.run("SHOW PROPERTIES;"))
        assert "anna-secret" not in shown
        assert "anna-secret" not in server.log()
    finally:
        server.stop()


@WITH_OWN_SPARK
def test_connectors_log_in(secured: Secured, tmp_path: Path) -> None:
    path = Path(__file__).parent.parent / "integration/connect/conftest.py"
    spec = importlib.util.spec_from_file_location("connect_stage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    settings = {key.replace(".", "_"): value for key, value in secured.client.items()}
    worker = module.Worker(tmp_path, secured.servers, **settings)
    try:
        given, written = tmp_path / "in.txt", tmp_path / "out.txt"
        given.write_text("a\nb\n")
        source = {"connector.class": "FileStreamSource", "file": str(given), "topic": "connect-lines"}
        sink = {"connector.class": "FileStreamSink", "file": str(written), "topics": "connect-lines"}
        assert worker.call("POST", "/connectors", {"name": "in", "config": source})[0] == 201
        assert worker.call("POST", "/connectors", {"name": "out", "config": sink})[0] == 201
        wait_until(lambda: written.exists() and written.read_text() == "a\nb\n", "the lines are there", LIMIT_S)
        assert "anna-secret" not in (tmp_path / "worker.log").read_text()
    finally:
        worker.close()
