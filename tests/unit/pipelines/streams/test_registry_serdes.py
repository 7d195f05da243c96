"""Topologies whose records have schemas in a registry."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import cloudpickle

from barnabas.client.serdes import Deserializer, Schema, Serializer, open_registry
from barnabas.client.serdes.mock import drop_mock
from barnabas.streams import STRING, SerdeError, Topology, TopologyTestDriver, avro, from_registry, protobuf

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "double"}],
    }
)
TOTAL = json.dumps({"type": "record", "name": "Total", "fields": [{"name": "sum", "type": "double"}]})
URL = "mock://streams"


@pytest.fixture(autouse=True)
def registry() -> Iterator[Any]:
    yield open_registry(URL)
    drop_mock("streams")


def test_records_are_read_with_their_schema_and_written_with_another(registry: Any) -> None:
    topology = Topology("totals")
    orders = topology.stream("orders", key=STRING, value=from_registry(URL))
    orders.map_values(lambda value: {"sum": value["amount"]}).to("totals", key=STRING, value=avro(TOTAL, registry=URL))
    written = Serializer(registry, Schema(ORDER)).encode("orders", {"id": "1", "amount": 2.5})
    with TopologyTestDriver(topology) as driver:
        driver.pipe_bytes("orders", b"k", written)
        assert driver.read_output("totals") == [("k", {"sum": 2.5})]
    assert registry.subjects() == ["orders-value", "totals-value"]
    assert Deserializer(registry).decode(written) == {"id": "1", "amount": 2.5}


def test_a_serde_travels_as_an_address_and_a_schema(registry: Any) -> None:
    serde = avro(TOTAL, registry=URL, subject="any")
    data = serde.encode({"sum": 1.0})
    there = pickle.loads(cloudpickle.dumps(serde))
    assert there.decode(data) == {"sum": 1.0}
    assert there.encode({"sum": 1.0}) == data


def test_what_is_wrong_is_an_error_of_the_record(registry: Any) -> None:
    serde = from_registry(URL)
    with pytest.raises(ValueError, match="do not begin with the id of a schema"):
        serde.decode(b"plain")
    with pytest.raises(SerdeError, match="does not give its schema: Schema 9 not found"):
        serde.decode(b"\0\0\0\0\x09x")
    with pytest.raises(SerdeError, match="neither a topic nor a subject"):
        serde.encode({})
    with pytest.raises(ValueError, match="The value does not fit"):
        avro(TOTAL, registry=URL, subject="any").encode({"sum": "x"})


def test_a_schema_that_is_none_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="The Avro schema is not valid"):
        avro('{"type": "recrod"}', registry=URL)
    with pytest.raises(ValueError, match="has no message Refund"):
        protobuf('syntax = "proto3"; message Order {}', registry=URL, message="Refund")
