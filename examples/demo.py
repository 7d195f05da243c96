"""The demo: sensors of a plant write to a topic, a consumer reads it back, the counts are compared.

python examples/demo.py [--records 20000] [--bootstrap-server HOST:PORT]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from barnabas.testing import Node

TOPIC = "myPlant"
PARTITIONS = 3
SENSORS = 12


@dataclass
class Seen:
    per_sensor: Counter[str] = field(default_factory=Counter)
    per_partition: Counter[int] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    out_of_order: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description="A plant's sensors, from socket to disk.")
    parser.add_argument("--records", type=int, default=20_000, help="how many measurements are produced (20000)")
    parser.add_argument("--bootstrap-server", help="a running cluster instead of a node of the demo's own")
    options = parser.parse_args()
    if options.records < 1:
        parser.error("--records must be at least 1")
    if options.bootstrap_server:
        return asyncio.run(_demo(options.bootstrap_server, options.records))
    began = time.perf_counter()
    with Node() as node:
        print(f"A node is up at {node.bootstrap_servers} after {time.perf_counter() - began:.2f} s.")
        return asyncio.run(_demo(node.bootstrap_servers, options.records))


async def _demo(bootstrap_servers: str, records: int) -> int:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaConnectionError, TopicAlreadyExistsError

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        await admin.start()
    except KafkaConnectionError as error:
        await admin.close()
        print(f"No broker answers at {bootstrap_servers}: {error}", file=sys.stderr)
        return 1
    try:
        await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    except TopicAlreadyExistsError:
        print(f"Topic {TOPIC} is there already: its older records are left alone.")
    finally:
        await admin.close()

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=5, compression_type="gzip")
    await consumer.start()
    await producer.start()
    try:
        partitions = [TopicPartition(TOPIC, index) for index in sorted(await producer.partitions_for(TOPIC))]
        consumer.assign(partitions)
        await consumer.seek_to_end(*partitions)
        for partition in partitions:
            await consumer.position(partition)
        print(f"{SENSORS} sensors write {records:,} measurements to {TOPIC}, keyed by sensor ...")
        began = time.perf_counter()
        produced, seen = await asyncio.gather(_produce(producer, records), _consume(consumer, records))
        elapsed_s = time.perf_counter() - began
    finally:
        await producer.stop()
        await consumer.stop()
    return _report(produced, seen, elapsed_s)


async def _produce(producer: Any, records: int) -> Counter[str]:
    produced: Counter[str] = Counter()
    pending = []
    for number in range(records):
        sensor = f"sensor-{number % SENSORS:02d}"
        measurement = {"sensor": sensor, "sequence": produced[sensor], "at": time.time(), "value": number * 37 % 101}
        pending.append(await producer.send(TOPIC, json.dumps(measurement).encode(), key=sensor.encode()))
        produced[sensor] += 1
        if len(pending) >= 1_000:
            await asyncio.gather(*pending)
            pending.clear()
    await asyncio.gather(*pending)
    return produced


async def _consume(consumer: Any, records: int) -> Seen:
    seen = Seen()
    count = 0
    while count < records:
        batches = await consumer.getmany(timeout_ms=10_000, max_records=5_000)
        if not batches:
            break
        now = time.time()
        for partition, messages in batches.items():
            seen.per_partition[partition.partition] += len(messages)
            for message in messages:
                measurement = json.loads(message.value)
                sensor = measurement["sensor"]
                seen.out_of_order += measurement["sequence"] != seen.per_sensor[sensor]
                seen.per_sensor[sensor] += 1
                seen.latencies_ms.append((now - measurement["at"]) * 1000)
                seen.last = measurement
                count += 1
    return seen


def _report(produced: Counter[str], seen: Seen, elapsed_s: float) -> int:
    total = sum(produced.values())
    print()
    print(f"  {'sensor':12} {'produced':>9} {'consumed':>9}")
    for sensor in sorted(produced):
        print(f"  {sensor:12} {produced[sensor]:>9,} {seen.per_sensor[sensor]:>9,}")
    print()
    print("  partitions  " + ", ".join(f"{index}: {count:,}" for index, count in sorted(seen.per_partition.items())))
    latencies = sorted(seen.latencies_ms) or [0.0]
    print(f"  rate        {total / elapsed_s:,.0f} records/s in and out, by a client in Python")
    median_ms, most_ms = latencies[len(latencies) // 2], latencies[-len(latencies) // 100]
    print(f"  latency     median {median_ms:.1f} ms, 99% within {most_ms:.1f} ms")
    print(f"  last        {json.dumps(seen.last)}")
    if seen.per_sensor != produced or seen.out_of_order:
        print(
            f"\nNot everything came back: {seen.per_sensor.total():,} of {total:,}, {seen.out_of_order:,} out of order."
        )
        return 1
    print(f"\nAll {total:,} measurements came back, each sensor's in order.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
