"""The connectors that come with us, and the Java classes whose place they take."""

from __future__ import annotations

from barnabas.pipelines.connect.plugins import HERE, KAFKA, Plugin

CONFLUENT = "io.confluent.connect"
DEBEZIUM = "io.debezium.connector"


def _plugin(kind: str, place: str, *names: str) -> Plugin:
    return Plugin(kind, names, f"{HERE}.connectors.{place}")


CONNECTORS: tuple[Plugin, ...] = (
    _plugin("source", "files:FileStreamSource", f"{KAFKA}.file.FileStreamSourceConnector"),
    _plugin("sink", "files:FileStreamSink", f"{KAFKA}.file.FileStreamSinkConnector"),
    _plugin("source", "jdbc_source:JdbcSource", f"{CONFLUENT}.jdbc.JdbcSourceConnector"),
    _plugin("source", "changes.postgres:PostgresChanges", f"{DEBEZIUM}.postgresql.PostgresConnector"),
    _plugin("source", "changes.mysql:MariaDbChanges", f"{DEBEZIUM}.mariadb.MariaDbConnector"),
    _plugin("source", "changes.mysql:MySqlChanges", f"{DEBEZIUM}.mysql.MySqlConnector"),
    _plugin("sink", "jdbc_sink:JdbcSink", f"{CONFLUENT}.jdbc.JdbcSinkConnector"),
    _plugin(
        "source",
        "datagen:Datagen",
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        "com.github.jcustenborder.kafka.connect.twitter.TwitterSourceConnector",
    ),
)
