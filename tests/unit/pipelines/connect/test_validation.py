"""Names of settings that are typed wrongly are told, and settings of Java's connectors that we do not have are not."""

from __future__ import annotations

import pytest

from barnabas.pipelines.connect.config import slips
from barnabas.pipelines.connect.plugins import need
from barnabas.pipelines.connect.worker.validation import validate

STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"key.converter": STRING, "value.converter": STRING}
FILE = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t", "name": "n"}
JDBC = {"connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:/x", "mode": "bulk", "topic.prefix": "p"}
CAPTURE = {"connector.class": "PostgresConnector", "database.dbname": "d", "topic.prefix": "p", "database.user": "u"}
# From the documentation of Confluent's and Debezium's connectors.
FOREIGN = {
    "JdbcSource": (
        "table.types", "table.poll.interval.ms", "timestamp.initial", "timestamp.granularity", "db.timezone",
        "numeric.mapping", "numeric.precision.mapping", "quote.sql.identifiers", "dialect.name", "catalog.pattern",
        "connection.attempts", "connection.backoff.ms", "query.suffix", "query.retry.attempts", "max.retries",
        "transaction.isolation.mode", "timestamp.fetch.all.when.null",
    ),
    "PostgresConnector": (
        "database.sslcert", "database.sslkey", "database.sslrootcert", "database.sslpassword", "slot.stream.params",
        "slot.max.retries", "slot.retry.delay.ms", "snapshot.locking.mode", "snapshot.query.mode", "max.queue.size",
        "snapshot.fetch.size", "snapshot.delay.ms", "schema.name.adjustment.mode", "field.name.adjustment.mode",
        "publish.via.partition.root", "event.processing.failure.handling.mode", "topic.naming.strategy", "converters",
        "topic.delimiter", "topic.cache.size", "signal.enabled.channels", "notification.enabled.channels",
        "status.update.interval.ms", "xmin.fetch.interval.ms", "lsn.flush.mode", "flush.lsn.source",
        "unavailable.value.placeholder", "database.tcpKeepAlive", "database.initial.statements",
        "max.queue.size.in.bytes",
        "incremental.snapshot.chunk.size", "schema.refresh.mode", "binary.handling.mode", "table.ignore.builtin",
        "database.history.kafka.topic", "database.history.kafka.bootstrap.servers", "sanitize.field.names",
    ),
    "S3Sink": (
        "s3.part.size", "s3.region", "s3.compression.type", "s3.acl.canned", "partition.duration.ms", "path.format",
        "locale", "timezone", "timestamp.extractor", "timestamp.field", "partition.field.name", "parquet.codec",
        "avro.codec", "behavior.on.null.values", "schema.compatibility", "topics.dir", "directory.delim", "file.delim",
        "filename.offset.zero.pad.width", "store.kafka.keys", "store.kafka.headers", "keys.format.class",
        "enhanced.avro.schema.support", "connect.meta.data", "schemas.cache.config", "retry.backoff.ms",
    ),
    "ElasticsearchSink": (
        "connection.username", "type.name", "key.ignore", "schema.ignore", "behavior.on.malformed.documents",
        "compact.map.entries", "drop.invalid.message", "flush.synchronously", "linger.ms", "max.buffered.records",
        "read.timeout.ms", "connection.timeout.ms", "connection.compression", "max.in.flight.requests", "write.method",
        "data.stream.type", "data.stream.dataset", "flush.timeout.ms", "max.connection.idle.time.ms",
    ),
}  # fmt: skip


def errors(settings: dict[str, str]) -> list[str]:
    plugin = need(settings["connector.class"], "source", "sink", setting="connector.class")
    return [text for each in validate(plugin, settings, WORKER)["configs"] for text in each["value"]["errors"]]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (FILE | {"task.max": "2"}, "task.max is unknown, is tasks.max meant?"),
        (FILE | {"errors.tolerence": "all"}, "errors.tolerence is unknown, is errors.tolerance meant?"),
        (JDBC | {"tabel.whitelist": "a"}, "tabel.whitelist is unknown, is table.whitelist meant?"),
        (CAPTURE | {"table.includelist": "a"}, "table.includelist is unknown, is table.include.list meant?"),
        (CAPTURE | {"table.whitelst": "a"}, "table.whitelst is unknown, is table.whitelist meant?"),
        (
            FILE | {"transforms": "a", "transforms.a.type": "HoistField$Value", "transforms.a.feild": "f"},
            "transforms.a.feild is unknown, is transforms.a.field meant?",
        ),
    ],
)
def test_a_name_that_is_typed_wrongly_is_told(settings: dict[str, str], text: str) -> None:
    assert text in errors(settings)


@pytest.mark.parametrize("name", FOREIGN)
def test_settings_of_javas_connectors_that_we_do_not_have_are_let_be(name: str) -> None:
    settings = {"connector.class": name, "topics": "t"} | dict.fromkeys(FOREIGN[name], "x")
    assert [text for text in errors(settings) if "is unknown" in text] == []


def test_names_of_converters_clients_and_topics_are_let_be() -> None:
    free = {
        "value.converter": STRING, "value.converter.schemas.enable": "false", "producer.override.linger.ms": "5",
        "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1",
    }  # fmt: skip
    assert errors(FILE | free) == []


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("field", "field", 0), ("feild", "field", 1), ("fild", "field", 1), ("sslcert", "sslmode", 3), ("ab", "abcd", 2)],
)
def test_slips(one: str, other: str, count: int) -> None:
    assert slips(one, other) == count
