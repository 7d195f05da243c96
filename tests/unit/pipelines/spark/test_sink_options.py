from __future__ import annotations

import pytest

from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.wire.compression import Compression


def parse(**options: str) -> SinkOptions:
    named = {"kafka.bootstrap.servers": "localhost:9092"} | {
        name.replace("_", "."): text for name, text in options.items()
    }
    return SinkOptions.parse(named)


def test_defaults_are_at_least_once_by_an_idempotent_producer() -> None:
    options = parse()
    assert (options.exactly_once, options.acks, options.idempotent) == (False, -1, True)
    assert (options.topic, options.sink_name, options.compression) == (None, None, Compression.NONE)
    assert options.transaction_timeout_ms == 60_000


def test_names_are_case_insensitive() -> None:
    options = parse(EXACTLYONCE="TRUE", SinkName="alerts", TOPIC="Plant", KAFKA_Compression_Type="zstd")
    assert (options.exactly_once, options.sink_name, options.topic) == (True, "alerts", "Plant")
    assert options.compression is Compression.ZSTD


def test_producer_settings_are_honoured() -> None:
    options = parse(
        kafka_acks="1",
        kafka_batch_size="1000",
        kafka_compression_type="gzip",
        kafka_compression_gzip_level="9",
        kafka_request_timeout_ms="5000",
        kafka_linger_ms="5",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="PLAIN",
        kafka_ssl_truststore_location="/ca.pem",
        kafka_partitioner_ignore_keys="true",
    )
    assert (options.acks, options.idempotent, options.batch_bytes) == (1, False, 1000)
    assert (options.compression, options.compression_level) == (Compression.GZIP, 9)
    assert (options.request_timeout_ms, options.ignore_keys) == (5000, True)
    assert options.properties["sasl.mechanism"] == "PLAIN"


def test_a_mistyped_option_is_refused_with_the_nearest_name() -> None:
    for mistyped, meant in (("exactlyOne", "exactlyOnce"), ("topics", "topic"), ("kafka.ack", "kafka.acks")):
        with pytest.raises(OptionError, match=f"there is no option {mistyped}: is {meant} meant"):
            SinkOptions.parse({"kafka.bootstrap.servers": "h:1", mistyped: "x"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kafka_key_serializer": "x"}, r"kafka\.key\.serializer is not an option here: keys are written as the bytes"),
        ({"kafka_transactional_id": "x"}, r"kafka\.transactional\.id is not an option here: .*sinkName"),
        ({"kafka_partitioner_class": "x"}, "give a partition column instead"),
        ({"kafka_group_id": "g"}, r"kafka\.group\.id is not a setting of a producer"),
        ({"kafka_acks": "2"}, r"kafka\.acks is all, 1 or 0, not '2'"),
        ({"exactlyOnce": "yes"}, "exactlyOnce is true or false, not 'yes'"),
        ({"exactlyOnce": "true", "kafka_acks": "1"}, r"exactlyOnce=true needs kafka\.acks=all, not 1"),
        ({"exactlyOnce": "true", "kafka_enable_idempotence": "false"}, "needs kafka.enable.idempotence=true"),
        ({"kafka_acks": "0", "kafka_enable_idempotence": "true"}, r"idempotence=true needs kafka\.acks=all"),
        ({"kafka_max_in_flight_requests_per_connection": "6"}, "at most 5 requests in flight, not 6"),
        ({"kafka_compression_type": "brotli"}, "one of none, gzip, snappy, lz4, zstd, not 'brotli'"),
        ({"kafka_compression_type": "gzip", "kafka_compression_gzip_level": "10"}, "at most 9"),
        ({"kafka_batch_size": "many"}, r"kafka\.batch\.size is a whole number, not 'many'"),
        ({"kafka_batch_size": "0"}, r"kafka\.batch\.size is at least 1"),
        ({"kafka_transaction_timeout_ms": "5000"}, "is for exactlyOnce=true"),
        ({"exactlyOnce": "true", "kafka_transaction_timeout_ms": "900001"}, "at most 900000 .15 minutes."),
        ({"sinkName": "a.b"}, "sinkName consists of 1 to 100 letters, digits, _ and -, unlike 'a.b'"),
        ({"topic": " "}, "topic is empty"),
        ({"kafka_bootstrap_servers": ""}, r"kafka\.bootstrap\.servers is missing"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse(**options)
