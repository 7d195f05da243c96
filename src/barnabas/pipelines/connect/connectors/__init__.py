"""The connectors that come with us, and the Java classes whose place they take."""

from __future__ import annotations

from barnabas.pipelines.connect.plugins import HERE, KAFKA, Plugin

CONFLUENT = "io.confluent.connect"
SPOOL = "com.github.jcustenborder.kafka.connect.spooldir"


def _plugin(kind: str, place: str, *names: str) -> Plugin:
    return Plugin(kind, names, f"{HERE}.connectors.{place}")


CONNECTORS: tuple[Plugin, ...] = (
    _plugin("source", "files:FileStreamSource", f"{KAFKA}.file.FileStreamSourceConnector"),
    _plugin("sink", "files:FileStreamSink", f"{KAFKA}.file.FileStreamSinkConnector"),
    _plugin("source", "jdbc_source:JdbcSource", f"{CONFLUENT}.jdbc.JdbcSourceConnector"),
    _plugin("sink", "jdbc_sink:JdbcSink", f"{CONFLUENT}.jdbc.JdbcSinkConnector"),
    _plugin(
        "source",
        "datagen:Datagen",
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        "com.github.jcustenborder.kafka.connect.twitter.TwitterSourceConnector",
    ),
    _plugin(
        "sink",
        "storage.sink:FilesSink",
        f"{CONFLUENT}.s3.S3SinkConnector",
        f"{CONFLUENT}.hdfs.HdfsSinkConnector",
        f"{CONFLUENT}.hdfs3.Hdfs3SinkConnector",
        f"{CONFLUENT}.gcs.GcsSinkConnector",
        f"{CONFLUENT}.azure.blob.AzureBlobStorageSinkConnector",
        "barnabas.FilesSinkConnector",
    ),
    _plugin(
        "source",
        "storage.source:FilesSource",
        f"{CONFLUENT}.s3.source.S3SourceConnector",
        f"{CONFLUENT}.gcs.GcsSourceConnector",
        f"{CONFLUENT}.azure.blob.storage.AzureBlobStorageSourceConnector",
        "barnabas.FilesSourceConnector",
    ),
    _plugin(
        "source",
        "storage.spool:SpoolSource",
        *(
            f"{SPOOL}.SpoolDir{kind}SourceConnector"
            for kind in ("", "Csv", "SchemaLessJson", "Json", "LineDelimited", "Avro", "Parquet")
        ),
    ),
    _plugin("sink", "http_sink:HttpSink", f"{CONFLUENT}.http.HttpSinkConnector"),
    _plugin("source", "http_source:HttpSource", "com.github.castorm.kafka.connect.http.HttpSourceConnector"),
    _plugin(
        "sink",
        "search_sink:SearchSink",
        f"{CONFLUENT}.elasticsearch.ElasticsearchSinkConnector",
        "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
    ),
    _plugin("source", "mqtt:MqttSource", f"{CONFLUENT}.mqtt.MqttSourceConnector"),
    _plugin("sink", "mqtt:MqttSink", f"{CONFLUENT}.mqtt.MqttSinkConnector"),
    _plugin("sink", "topics:TopicSink", "barnabas.TopicSinkConnector"),
)
