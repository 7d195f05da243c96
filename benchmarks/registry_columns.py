"""Avro records to columns of structs: `python -m benchmarks.registry_columns [--spark]`.

Without Spark: batches of 10,000 values decoded in this process, records for a second of CPU. With `--spark`: a topic
read by `from_registry` on one core of a local Spark, and the same topic read without it.
"""

from __future__ import annotations

import argparse
import json
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from barnabas.client.producer import Producer
from barnabas.client.serdes import Schema, Serializer, open_registry
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.registry.decoding import Decoding
from barnabas.testing import Node
from barnabas.testing.registry import Registry

ROWS, SECONDS, RECORDS = 10_000, 3.0, 2_000_000


def record(name: str, *fields: tuple[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}
    )


PLAIN = record(
    "Reading",
    ("id", "string"),
    ("plant", "string"),
    ("value", "double"),
    ("count", "long"),
    ("ok", "boolean"),
    ("unit", ["null", "string"]),
    ("at", "long"),
)
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
ORDER = record(
    "Order",
    ("id", "string"),
    ("items", {"type": "array", "items": ITEM}),
    ("total", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
)
CHOICE = record("Choice", ("id", "string"), ("f", {"type": "enum", "name": "E", "symbols": ["A", "B"]}))
CASES: dict[str, tuple[str, Any]] = {
    "seven plain fields": (
        PLAIN,
        lambda n: {
            "id": f"r{n}",
            "plant": "p",
            "value": n / 3,
            "count": n,
            "ok": True,
            "unit": None if n % 3 else "C",
            "at": n,
        },
    ),
    "an order with items, a decimal and a time": (
        ORDER,
        lambda n: {"id": f"o{n}", "items": [{"sku": f"s{n}", "n": 2}] * 2, "total": Decimal("12.34"), "at": n},
    ),
    "an enum": (CHOICE, lambda n: {"id": f"c{n}", "f": "AB"[n % 2]}),
}


def decoded(name: str) -> None:
    schema, value = CASES[name]
    registry = open_registry("mock://columns")
    serializer = Serializer(registry, Schema(schema))
    values = pa.array([serializer.encode(f"t-{name}", value(number)) for number in range(ROWS)], pa.binary())
    registered = registry.latest(f"t-{name}-value")
    decoding = Decoding(registry.url, {}, registered.schema, registered.id)
    decoding.decode(values)
    began, batches = time.process_time(), 0
    while time.process_time() - began < SECONDS:
        decoding.decode(values)
        batches += 1
    print(f"{name}: {batches * ROWS / (time.process_time() - began):,.0f} records for a second of CPU")


def on_spark() -> None:
    import barnabas.spark

    schema, value = CASES["seven plain fields"]
    with Node() as node, Registry(node.bootstrap_servers) as process:
        node.create_topic("readings")
        serializer = Serializer(open_registry(process.url), Schema(schema))
        encoded = [serializer.encode("readings", value(number)) for number in range(ROWS)]
        with Producer(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)) as producer:
            for number in range(RECORDS):
                producer.send("readings", encoded[number % ROWS], partition=0)
        session = barnabas.spark.session("columns", master="local[1]", conf={"spark.log.level": "ERROR"})
        options = {"kafka.bootstrap.servers": node.bootstrap_servers, "subscribe": "readings"}
        frame = session.read.format("barnabas").options(**options).load()
        structs = barnabas.spark.from_registry(frame, process.url, topic="readings")
        for round_ in ("first", "second", "third"):
            for name, query in (
                ("the topic's bytes", frame.selectExpr("sum(length(value))")),
                ("structs, one field", structs.selectExpr("sum(data.value)")),
                ("structs, all fields", structs.select("data.*").selectExpr("sum(value)", "max(id)", "count(unit)")),
            ):
                began = time.perf_counter()
                query.collect()
                took_s = time.perf_counter() - began
                print(f"{round_} round, {name}: {RECORDS / took_s:,.0f} records/s on one core")
        session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    for name in CASES:
        decoded(name)
    if given.spark:
        on_spark()


if __name__ == "__main__":
    main()
