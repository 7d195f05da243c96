"""Kafka's producer properties."""

from __future__ import annotations

import pytest

from barnabas.client.errors import InvalidSetting
from barnabas.client.producer_settings import ProducerSettings


def settings(**properties: str) -> ProducerSettings:
    return ProducerSettings.from_properties({name.replace("_", "."): value for name, value in properties.items()})


def test_the_defaults_are_those_of_kafka_4() -> None:
    assert settings() == ProducerSettings()
    assert (settings().acks, settings().idempotent, settings().linger_ms, settings().batch_size) == (-1, True, 5, 16384)


def test_what_contradicts_idempotence_switches_it_off_unless_it_was_asked_for() -> None:
    assert not settings(acks="1").idempotent
    assert not settings(retries="0").idempotent
    with pytest.raises(InvalidSetting, match=r"^acks must be all for a producer with enable\.idempotence\.$"):
        settings(acks="0", enable_idempotence="true")
    with pytest.raises(InvalidSetting, match=r"^max\.in\.flight\.requests\.per\.connection must be at most 5"):
        settings(max_in_flight_requests_per_connection="6")
    assert settings(max_in_flight_requests_per_connection="6", enable_idempotence="false").in_flight_max == 6


def test_a_delivery_may_not_take_less_than_one_request() -> None:
    with pytest.raises(InvalidSetting, match=r"^delivery\.timeout\.ms must be at least linger\.ms"):
        settings(delivery_timeout_ms="30004")
    assert settings(request_timeout_ms="200000").delivery_timeout_ms == 200_005
    assert settings(request_timeout_ms="100", delivery_timeout_ms="105").delivery_timeout_ms == 105


def test_levels_and_partitioners_are_read() -> None:
    assert settings(compression_type="ZSTD", compression_zstd_level="-1").compression_level == -1
    assert settings(partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner").round_robin
    with pytest.raises(InvalidSetting, match=r"^partitioner\.class is MyPartitioner, a class of Java"):
        settings(partitioner_class="com.example.MyPartitioner")
    with pytest.raises(
        InvalidSetting, match=r"^compression\.type must be one of none, gzip, snappy, lz4, zstd, not 'lzma'"
    ):
        settings(compression_type="lzma")
