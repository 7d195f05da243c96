"""MQTT source and sink, under Confluent's names; they need paho-mqtt (`pip install 'barnabas[mqtt]'`).

Source: at least once with QoS 1 or 2. The session is kept by the broker under a fixed client id, so messages wait there
between turns; they are acknowledged when their records are committed, so a turn has no more messages than the broker
sends unacknowledged (`max_inflight_messages` of mosquitto, 20 by default).

Sink: at least once. A turn ends when the broker has acknowledged every message.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from barnabas.pipelines.connect.config import Definition, Setting, not_empty
from barnabas.pipelines.connect.connector import Settings, SinkConnector, SourceConnector, TopicPartition
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import BOOLEAN, BYTES, INT32, STRING
from barnabas.pipelines.connect.errors import ConfigError, RetriableError

WAIT_S = 0.5
MORE_S = 0.02
BATCH = 1_000
PORTS = {"tcp": 1883, "mqtt": 1883, "ssl": 8883, "mqtts": 8883}


def _level(name: str, value: Any) -> None:
    if value not in (0, 1, 2):
        raise ConfigError("must be 0, 1 or 2", name, value)


CONNECTION = (
    Setting("mqtt.server.uri", "LIST", doc="Brokers, as tcp://host:1883 or ssl://host:8883", check=not_empty),
    Setting("mqtt.username", "STRING", "", "MEDIUM", "Of the broker."),
    Setting("mqtt.password", "PASSWORD", "", "MEDIUM", "Of the broker."),
    Setting("mqtt.connect.timeout.seconds", "INT", 30, "LOW", "How long a connection may take."),
    Setting("mqtt.keepalive.interval.seconds", "INT", 60, "LOW", "Time between signs of life."),
)


class MqttLink:
    """A connection to the first broker that answers."""

    def __init__(self, values: Mapping[str, Any], client_id: str, *, keeps_session: bool) -> None:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise ConfigError("needs paho-mqtt: pip install 'barnabas[mqtt]'", "connector.class", "MQTT") from None
        self.timeout_s = values["mqtt.connect.timeout.seconds"]
        self.arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._connected: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, clean_session=not keeps_session, manual_ack=keeps_session
        )
        self.client.max_inflight_messages_set(BATCH)
        if values["mqtt.username"]:
            self.client.username_pw_set(values["mqtt.username"], values["mqtt.password"] or None)
        self.client.on_connect = lambda _client, _data, _flags, reason, _properties: self._connected.put(reason)
        self._answered: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.client.on_unsubscribe = lambda *_: self._answered.put(True)
        self.client.on_message = lambda _client, _data, message: self.arrived.put(message)
        self._connect(values)

    def _connect(self, values: Mapping[str, Any]) -> None:
        reason: object = None
        for uri in values["mqtt.server.uri"]:
            scheme, host, port = address(uri)
            if scheme in ("ssl", "mqtts"):
                self.client.tls_set()
            try:
                self.client.connect(host, port, values["mqtt.keepalive.interval.seconds"])
                self.client.loop_start()
                reason = self._connected.get(timeout=self.timeout_s)
                if not reason.is_failure:  # type: ignore[attr-defined]
                    return
            except (OSError, queue.Empty) as error:
                reason = error or "no answer"
            self.client.loop_stop()
        raise RetriableError(f"no MQTT broker of {', '.join(values['mqtt.server.uri'])} lets us in: {reason}")

    def wait_for_broker(self) -> None:
        """The broker has read what was sent before: a connection closed earlier may lose it."""
        self.client.unsubscribe("barnabas/nothing")
        try:
            self._answered.get(timeout=self.timeout_s)
        except queue.Empty:
            return  # what is not acknowledged comes again

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def address(uri: str) -> tuple[str, str, int]:
    found = urlsplit(uri if "://" in uri else f"tcp://{uri}")
    try:
        port = found.port
    except ValueError:
        port = -1
    if found.scheme not in PORTS or not found.hostname or port == -1:
        raise ConfigError("must be tcp://host:port or ssl://host:port", "mqtt.server.uri", uri)
    return found.scheme, found.hostname, port or PORTS[found.scheme]


class MqttSource(SourceConnector):
    doc = "Messages of an MQTT broker."
    idle_ms = 200
    definition = Definition(
        [
            *CONNECTION,
            Setting("mqtt.topics", "LIST", doc="Topics or filters as sensors/+/temperature.", check=not_empty),
            Setting("mqtt.qos", "INT", 1, doc="0 may lose messages between turns.", check=_level),
            Setting("mqtt.client.id", "STRING", "", "LOW", "Empty: connect-NAME-TASK. The broker keeps its session."),
            Setting("kafka.topic", "STRING", "mqtt", doc="Where records go.", check=not_empty),
        ]
    )

    def configure(self) -> None:
        for uri in self.values["mqtt.server.uri"]:
            address(uri)
        self._taken: list[Any] = []

    def open(self) -> None:
        name = self.values["mqtt.client.id"] or f"connect-{self.name}-{self.task}"
        self._link = MqttLink(self.values, name, keeps_session=True)
        self._link.client.subscribe([(topic, self.values["mqtt.qos"]) for topic in self.values["mqtt.topics"]])

    def close(self) -> None:
        if hasattr(self, "_link"):
            self._link.close()

    def poll(self) -> Sequence[Record]:
        records: list[Record] = []
        # A broker sends only so many unacknowledged messages: who has some does not wait long for more.
        until = time.monotonic() + (MORE_S if self._taken else WAIT_S)
        while len(records) < BATCH:
            left = until - time.monotonic() if not records else 0.0
            try:
                message = self._link.arrived.get(timeout=left) if left > 0 else self._link.arrived.get_nowait()
            except queue.Empty:
                break
            self._taken.append(message)
            records.append(self._record(message))
        return records

    def _record(self, message: Any) -> Record:
        headers = (
            Header("mqtt.message.id", message.mid, INT32),
            Header("mqtt.qos", message.qos, INT32),
            Header("mqtt.retained", message.retain, BOOLEAN),
            Header("mqtt.duplicate", message.dup, BOOLEAN),
        )
        return Record(self.values["kafka.topic"], bytes(message.payload), BYTES, message.topic, STRING, headers=headers)

    def committed(self, offsets: Mapping[str, dict[str, Any]]) -> None:
        for message in self._taken:
            if message.qos:
                self._link.client.ack(message.mid, message.qos)
        self._taken = []
        self._link.wait_for_broker()


class MqttSink(SinkConnector):
    doc = "Records as messages of an MQTT broker."
    definition = Definition(
        [
            *CONNECTION,
            Setting("mqtt.qos", "INT", 1, doc="0 may lose messages.", check=_level),
            Setting("mqtt.retained.enabled", "BOOLEAN", False, "MEDIUM", "Whether the broker keeps the last message."),
            Setting("mqtt.topic.format", "STRING", "${topic}", "MEDIUM", "${topic} and ${key} are replaced."),
        ]
    )

    def configure(self) -> None:
        for uri in self.values["mqtt.server.uri"]:
            address(uri)
        self._sent: list[Any] = []

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        return [dict(settings)] * tasks_max

    def open(self) -> None:
        self._link = MqttLink(self.values, "", keeps_session=False)

    def close(self) -> None:
        if hasattr(self, "_link"):
            self._link.close()

    def put(self, records: Sequence[Record]) -> None:
        retain = self.values["mqtt.retained.enabled"]
        for record in records:
            value = record.value
            payload = value if value is None or isinstance(value, bytes) else java_text(value).encode()
            key = "" if record.key is None else java_text(record.key)
            topic = self.values["mqtt.topic.format"].replace("${topic}", record.topic).replace("${key}", key)
            self._sent.append(self._link.client.publish(topic, payload, self.values["mqtt.qos"], retain))

    def flush(self, positions: Mapping[TopicPartition, int]) -> None:
        until = time.monotonic() + self._link.timeout_s
        for sent in self._sent:
            try:
                sent.wait_for_publish(max(until - time.monotonic(), 0.01))
            except (ValueError, RuntimeError) as error:
                raise RetriableError(f"the MQTT broker did not take a message: {error}") from error
            if not sent.is_published():
                raise RetriableError("the MQTT broker did not acknowledge a message in time")
        self._sent = []
