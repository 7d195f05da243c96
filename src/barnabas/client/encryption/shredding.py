"""A data key for each record key, in a compacted topic, so that one of them can be forgotten (crypto-shredding).

The topic's records have the record key, a zero byte and the 8 bytes of the data key's number as their key, and the
wrapped data key as their value. Forgetting a record key writes a tombstone for each of its data keys; once the topic
is compacted nobody has them. Two producers that make a key for the same record key at the same time make two, and both
are kept. A writer looks every few seconds whether its keys still exist, and never writes under one that it knows to be
forgotten.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

from barnabas.client.admin.topics import create_topic
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer
from barnabas.client.encryption.keys import KEY_BYTES, Keys
from barnabas.client.errors import Refused, TimedOut
from barnabas.client.producer import Producer
from barnabas.client.records import ConsumerRecord
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode

PREFIX = "barnabas.encryption."
NUMBER_BYTES = 8
LOOK_S = 10.0
READ_LIMIT_S = 60.0
WRITE_LIMIT_S = 60.0
COMPACTION = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "600000"}


class RecordKeys:
    def __init__(self, settings: ClientSettings, topic: str, keys: Keys) -> None:
        plain = {
            name: text for name, text in settings.properties.items() if not name.startswith("barnabas.encryption.")
        }
        self._settings = replace(settings, properties=plain)
        self._topic = topic
        self._keys = keys
        self._lock = threading.RLock()
        self._opened: tuple[Cluster, AssignedConsumer, Producer] | None = None
        self._wrapped: dict[bytes, dict[bytes, bytes]] = {}  # record key -> number -> wrapped
        self._clear: dict[tuple[bytes, bytes], bytes] = {}  # what was unwrapped of them
        self._read_at = float("-inf")

    def for_writing(self, key: bytes) -> tuple[bytes, bytes]:
        """The number of the record key's data key, and the data key: a new one if it has none."""
        with self._lock:
            self._catch_up(LOOK_S)
            for number in self._wrapped.get(key, ()):
                return number, self._unwrapped(key, number)
            number, data_key = os.urandom(NUMBER_BYTES), os.urandom(KEY_BYTES)
            key_id, wrapped = self._keys.wrap(data_key)
            value = bytes((len(key_id.encode()),)) + key_id.encode() + wrapped
            self._write(key, number, value)
            self._wrapped.setdefault(key, {})[number] = value
            self._clear[key, number] = data_key
            return number, data_key

    def find(self, key: bytes, number: bytes) -> bytes | None:
        """None if it was forgotten."""
        with self._lock:
            self._catch_up(LOOK_S if number in self._wrapped.get(key, ()) else 0.0)
            return self._unwrapped(key, number) if number in self._wrapped.get(key, ()) else None

    def forget(self, key: bytes) -> int:
        """How many data keys of the record key there were. What was written under them is unreadable from now on."""
        with self._lock:
            self._catch_up(0.0)
            numbers = list(self._wrapped.get(key, ()))
            for number in numbers:
                self._write(key, number, None)
                self._drop(key, number)
            return len(numbers)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        for each in opened or ():
            each.close()

    def _unwrapped(self, key: bytes, number: bytes) -> bytes:
        known = self._clear.get((key, number))
        if known is None:
            value = self._wrapped[key][number]
            key_id = value[1 : 1 + value[0]].decode(errors="replace")
            known = self._clear[key, number] = self._keys.unwrap(key_id, value[1 + value[0] :])
        return known

    def _drop(self, key: bytes, number: bytes) -> None:
        self._clear.pop((key, number), None)
        numbers = self._wrapped.get(key, {})
        numbers.pop(number, None)
        if not numbers:
            self._wrapped.pop(key, None)

    def _write(self, key: bytes, number: bytes, value: bytes | None) -> None:
        producer = self._open()[2]
        producer.send(self._topic, value, key + b"\0" + number, partition=0).result(WRITE_LIMIT_S)

    def _catch_up(self, not_older_than_s: float) -> None:
        began_at = time.monotonic()
        if began_at - self._read_at < not_older_than_s:
            return
        cluster, consumer, _ = self._open()
        place = (self._topic, 0)
        end = cluster.list_offsets({place: -1})[place].offset
        while consumer.positions[place] < end:
            if time.monotonic() - began_at > READ_LIMIT_S:
                raise TimedOut(f"{self._topic} was not read to its end within {READ_LIMIT_S:g} s.")
            for record in consumer.poll(500):
                self._replay(record)
        self._read_at = began_at

    def _replay(self, record: ConsumerRecord) -> None:
        if record.key is None or len(record.key) <= NUMBER_BYTES:
            return
        key, number = bytes(record.key[: -NUMBER_BYTES - 1]), bytes(record.key[-NUMBER_BYTES:])
        if record.value is None:
            self._drop(key, number)
        else:
            self._wrapped.setdefault(key, {})[number] = bytes(record.value)

    def _open(self) -> tuple[Cluster, AssignedConsumer, Producer]:
        if self._opened is None:
            cluster = Cluster(self._settings)
            try:
                create_topic(cluster, self._topic, partitions=1, configs=COMPACTION)
            except Refused as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            consumer = AssignedConsumer(self._settings)
            consumer.assign({(self._topic, 0): -2})
            self._opened = cluster, consumer, Producer(self._settings)
        return self._opened
