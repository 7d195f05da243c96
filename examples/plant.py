"""The plant of the demo: sensors and motors that write to one topic, and what must come out of that."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

PLANT, METADATA = "myPlant", "plant-metadata"
MEASUREMENTS, ALERTS, AVERAGES = "plant-measurements", "plant-alerts", "plant-averages"
RESULTS = (MEASUREMENTS, ALERTS, AVERAGES)
PARTITIONS = {PLANT: 3, METADATA: 1, MEASUREMENTS: 3, ALERTS: 1, AVERAGES: 1}
TOPIC_EXISTS = 36

KINDS = {  # unit, lowest and highest value
    "temperature": ("°C", 20.0, 120.0),
    "pressure": ("bar", 0.0, 16.0),
    "level": ("cm", 0.0, 400.0),
    "speed": ("rpm", 0.0, 3000.0),
}
LOCATIONS = ("hall 1", "hall 2", "boiler house")
MOTORS = [f"motor-{number}" for number in range(1, 5)]
MOTOR_STATES = ("running", "idle", "error")
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Sensor:
    id: str
    kind: str
    location: str

    @property
    def metadata(self) -> dict[str, Any]:
        """A row of the metadata table. An alert is due in the highest fifth of what a sensor can measure."""
        unit, lowest, highest = KINDS[self.kind]
        above = round(lowest + 0.8 * (highest - lowest), 3)
        return {"id": self.id, "kind": self.kind, "unit": unit, "location": self.location, "alert_above": above}


SENSORS = [
    Sensor(f"sensor-{number:02d}", kind, LOCATIONS[number % len(LOCATIONS)])
    for number, kind in enumerate([kind for kind in KINDS for _ in range(3)], start=1)
]


@dataclass
class Expected:
    """Counted by who produced it, without Spark."""

    readings: int = 0
    measurements: Counter[str] = field(default_factory=Counter)
    alerts: Counter[str] = field(default_factory=Counter)
    sums: dict[tuple[str, int], tuple[int, float]] = field(default_factory=lambda: defaultdict(lambda: (0, 0.0)))

    def add(self, reading: dict[str, Any], alert_above: float | None) -> None:
        self.readings += 1
        if alert_above is None:
            self.alerts[reading["id"]] += reading["state"] == "error"
            return
        self.measurements[reading["id"]] += 1
        self.alerts[reading["id"]] += reading["value"] > alert_above
        minute = reading["id"], reading["at"] // MINUTE_MS * MINUTE_MS
        count, total = self.sums[minute]
        self.sums[minute] = count + 1, total + reading["value"]


class Plant(threading.Thread):
    """Produces `rate` readings a second until it is stopped, three of four from sensors."""

    def __init__(self, settings: ClientSettings, rate: int) -> None:
        super().__init__(name="plant", daemon=True)
        self.expected = Expected()
        self.error: BaseException | None = None
        self._settings = settings
        self._rate = rate
        self._random = random.Random(42)
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            with Producer(self._settings) as producer:
                began = time.monotonic()
                while not self._stop_asked.is_set():
                    while self.expected.readings < (time.monotonic() - began) * self._rate:
                        self._send_one(producer)
                    time.sleep(0.005)
                producer.flush()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stop_asked.set()
        if self.ident is not None:
            self.join()

    def _send_one(self, producer: Producer) -> None:
        number = self.expected.readings
        reading: dict[str, Any] = {"sequence": number, "at": time.time_ns() // 1_000_000}
        if number % 4 == 3:
            reading |= {"id": self._random.choice(MOTORS)}
            reading |= {"state": self._random.choices(MOTOR_STATES, (80, 15, 5))[0]}
            self.expected.add(reading, None)
        else:
            sensor = self._random.choice(SENSORS)
            _, lowest, highest = KINDS[sensor.kind]
            reading |= {"id": sensor.id, "value": round(self._random.uniform(lowest, highest), 2)}
            self.expected.add(reading, sensor.metadata["alert_above"])
        producer.send(PLANT, json.dumps(reading).encode(), key=reading["id"].encode(), timestamp=reading["at"])


def prepare_topics(cluster: Cluster, settings: ClientSettings) -> None:
    """Topics that are there already are left as they are; the metadata table is written anew."""
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")] if name == METADATA else [],
        )
        for name, partitions in PARTITIONS.items()
    ]
    for made in cluster.ask_controller(CreateTopicsRequest(topics=topics, timeout_ms=30_000)).topics:
        if made.error_code not in (0, TOPIC_EXISTS):
            raise RuntimeError(f"topic {made.name} cannot be created: {made.error_message}")
    with Producer(settings) as producer:
        for sensor in SENSORS:
            producer.send(METADATA, json.dumps(sensor.metadata).encode(), key=sensor.id.encode())
        producer.flush()


def end_offsets(cluster: Cluster, *topics: str) -> dict[tuple[str, int], int]:
    wanted = {(topic, partition): -1 for topic in topics for partition in cluster.topic(topic).partitions}
    return {partition: found.offset for partition, found in cluster.list_offsets(wanted).items()}
