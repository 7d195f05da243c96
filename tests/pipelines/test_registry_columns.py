"""Records with schemas in Spark: read to structs, what cannot be read set aside, and written back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.producer import Producer
from barnabas.client.serdes import Deserializer, Schema, Serializer, open_registry
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.option_values import OptionError
from barnabas.spark import from_registry, to_registry
from barnabas.testing.registry import Registry

pytestmark = pytest.mark.timeout(600)
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "amount", "type": ["null", "double"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)


def test_a_topic_goes_through_a_query_with_schemas(spark: Any, stage: Any, tmp_path: Path) -> None:
    topic, dead, out = stage.topic(), stage.topic(), stage.topic()
    with Registry(stage.servers) as process:
        registry = open_registry(process.url)
        serializer = Serializer(registry, Schema(ORDER))
        orders = [{"id": f"o{n}", "amount": n / 2 if n else None, "at": n * 1000, "tags": ["a"] * n} for n in range(3)]
        with Producer(ClientSettings.from_properties({}, bootstrap_servers=stage.servers)) as producer:
            for value in [*(serializer.encode(topic, each) for each in orders), b"plain", None]:
                producer.send(topic, value, b"k").result(60)
        options = stage.options({"subscribe": topic, "startingOffsets": "earliest"})
        frame = spark.readStream.format("barnabas").options(**options).load()
        letters = {"kafka.bootstrap.servers": stage.servers, "topic": dead}
        read = from_registry(frame, process.url, topic=topic, dead_letter=letters)
        assert read.schema["data"].dataType.simpleString() == (
            "struct<id:string,amount:double,at:timestamp,tags:array<string>>"
        )
        written = to_registry(read.where("data is not null"), process.url, topic=out, schema=ORDER)
        query = (
            written.select("key", "value")
            .writeStream.format("barnabas")
            .options(**{"kafka.bootstrap.servers": stage.servers, "topic": out})
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)
        decoder = Deserializer(registry, logical_types=False)
        found = spark.read.format("barnabas").options(**stage.options({"subscribe": out})).load().orderBy("offset")
        assert [decoder.decode(bytes(row.value)) for row in found.collect()] == orders
        refused = spark.read.format("barnabas").options(**stage.options({"subscribe": dead})).load().collect()
        assert [bytes(row.value) for row in refused] == [b"plain"]
        with pytest.raises(OptionError, match="name topic=, subject= or schema="):
            from_registry(frame, process.url)
        plain = spark.read.format("barnabas").options(**stage.options({"subscribe": topic})).load()
        said = f"the record at offset 3 of {topic}-0 can't be read: The bytes do not begin"
        with pytest.raises(Exception, match=said):
            from_registry(plain, process.url, schema=ORDER).collect()
        registry.close()
