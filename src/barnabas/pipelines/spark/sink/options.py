"""The sink's options: those of the JVM Kafka connector with its rules, the producer's settings, and some of ours.

Ours: `exactlyOnce`, `sinkName` (needed inside foreachBatch, where one query may have several sinks) and `anchorTopic`
(the topic in which the sinks note which batch they have written), and `timestampColumn` (where a record's time
stands; without it a record has the time of its writing, as with the JVM connector). Names are case-insensitive. Options
nobody knows are ignored, as Spark does everywhere, unless they look like one that was mistyped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.client.producer_settings import ProducerSettings
from barnabas.pipelines.spark.option_values import OptionError, boolean, check_names, kafka_properties
from barnabas.wire.compression import Compression

ANCHOR_TOPIC = "__barnabas_sink_marks"
FORMER_ANCHOR_TOPIC = "__barnabas_sinks"  # on which versions before marks committed offsets
TRANSACTION_TIMEOUT_MS = 60_000
TRANSACTION_TIMEOUT_MS_MAX = 900_000
BATCH_BYTES = 512 * 1024
SINK_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")

REFUSED_PROPERTIES = {
    "key.serializer": "keys are written as the bytes they are, serialize them with DataFrame operations",
    "value.serializer": "values are written as the bytes they are, serialize them with DataFrame operations",
    "transactional.id": "the sink names its transactions by query and task, set sinkName to tell sinks apart",
    "partitioner.class": "there is no producer in the JVM, give a partition column instead",
    "interceptor.classes": "there is no producer in the JVM to intercept",
    "metric.reporters": "there is no producer in the JVM to report on",
    "transaction.two.phase.commit.enable": "exactlyOnce=true prepares and commits in two steps by itself",
}
TAKEN_PROPERTIES = frozenset(
    {
        "acks",
        "batch.size",
        "bootstrap.servers",
        "buffer.memory",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "partitioner.ignore.keys",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "transaction.timeout.ms",
    }
)
TAKEN_FAMILIES = ("ssl.", "sasl.")
KNOWN = (
    "topic", "exactlyOnce", "sinkName", "anchorTopic", "timestampColumn", "includeHeaders", "path",
    "checkpointLocation", *(f"kafka.{name}" for name in TAKEN_PROPERTIES),
)  # fmt: skip
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    properties: Mapping[str, str] = field(repr=False)
    topic: str | None
    exactly_once: bool
    sink_name: str | None
    timestamp_column: str | None
    anchor_topic: str
    acks: int
    idempotent: bool
    compression: Compression
    compression_level: int | None
    ignore_keys: bool
    batch_bytes: int
    request_bytes_max: int
    in_flight_max: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    max_block_ms: int
    transaction_timeout_ms: int

    @property
    def producer(self) -> ProducerSettings:
        """How ready batches are sent; what concerns records is done here."""
        return ProducerSettings(
            acks=self.acks,
            idempotent=self.idempotent,
            in_flight_max=self.in_flight_max,
            delivery_timeout_ms=self.delivery_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            max_request_size=self.request_bytes_max,
        )

    @property
    def former_anchor_topic(self) -> str:
        return FORMER_ANCHOR_TOPIC if self.anchor_topic == ANCHOR_TOPIC else self.anchor_topic

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        check_names(given, KNOWN)
        options = {name.lower(): value for name, value in given.items()}
        properties = kafka_properties(options, REFUSED_PROPERTIES)
        for name in sorted(properties):
            if name not in TAKEN_PROPERTIES and not name.startswith(TAKEN_FAMILIES):
                raise OptionError(f"kafka.{name} is not a setting of a producer that this sink could honour")
        exactly_once = boolean(options, "exactlyOnce", False)
        acks = _acks(properties, exactly_once)
        compression = _compression(properties)
        return cls(
            properties=properties,
            topic=_topic(options),
            exactly_once=exactly_once,
            sink_name=_sink_name(options),
            timestamp_column=options.get("timestampcolumn"),
            anchor_topic=options.get("anchortopic", ANCHOR_TOPIC),
            acks=acks,
            idempotent=_idempotent(properties, acks, exactly_once),
            compression=compression,
            compression_level=_level(properties, compression),
            ignore_keys=_flag(properties, "partitioner.ignore.keys", False),
            batch_bytes=_number(properties, "batch.size", BATCH_BYTES, 1),
            request_bytes_max=_number(properties, "max.request.size", 1_048_576, 1),
            in_flight_max=_number(properties, "max.in.flight.requests.per.connection", 5, 1),
            request_timeout_ms=_number(properties, "request.timeout.ms", 30_000, 1),
            delivery_timeout_ms=_number(properties, "delivery.timeout.ms", 120_000, 1),
            max_block_ms=_number(properties, "max.block.ms", 60_000, 0),
            transaction_timeout_ms=_transaction_timeout(properties, exactly_once),
        )


def _topic(options: Mapping[str, str]) -> str | None:
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic is empty: name the topic to write to, or leave the option out and give a topic column")
    return topic


def _sink_name(options: Mapping[str, str]) -> str | None:
    name = options.get("sinkname")
    if name is not None and not SINK_NAME.fullmatch(name):
        raise OptionError(f"sinkName consists of 1 to 100 letters, digits, _ and -, unlike '{name}'")
    return name


def _acks(properties: Mapping[str, str], exactly_once: bool) -> int:
    text = properties.get("acks", "all").strip().lower()
    if text not in ACKS:
        raise OptionError(f"kafka.acks is all, 1 or 0, not '{text}'")
    if exactly_once and ACKS[text] != -1:
        raise OptionError(f"exactlyOnce=true needs kafka.acks=all, not {text}")
    return ACKS[text]


def _idempotent(properties: Mapping[str, str], acks: int, exactly_once: bool) -> bool:
    wanted = _flag(properties, "enable.idempotence", acks == -1)
    if exactly_once and not wanted:
        raise OptionError("exactlyOnce=true needs kafka.enable.idempotence=true")
    if wanted and acks != -1:
        raise OptionError(f"kafka.enable.idempotence=true needs kafka.acks=all, not {acks}")
    in_flight = _number(properties, "max.in.flight.requests.per.connection", 5, 1)
    if wanted and in_flight > 5:
        raise OptionError(f"an idempotent producer has at most 5 requests in flight, not {in_flight}")
    return wanted


def _compression(properties: Mapping[str, str]) -> Compression:
    text = properties.get("compression.type", "none").strip().lower()
    names = [codec.name.lower() for codec in Compression]
    if text not in names:
        raise OptionError(f"kafka.compression.type is one of {', '.join(names)}, not '{text}'")
    return Compression[text.upper()]


def _level(properties: Mapping[str, str], codec: Compression) -> int | None:
    name = f"compression.{codec.name.lower()}.level"
    if name not in properties:
        return None
    bounds = {Compression.GZIP: (-1, 9), Compression.LZ4: (1, 17), Compression.ZSTD: (-131_072, 22)}
    lowest, highest = bounds[codec]
    level = _number(properties, name, 0, lowest)
    if level > highest or (codec is Compression.GZIP and level == 0):
        raise OptionError(f"kafka.{name} is at most {highest} and not 0, not {level}")
    return level


def _transaction_timeout(properties: Mapping[str, str], exactly_once: bool) -> int:
    if "transaction.timeout.ms" in properties and not exactly_once:
        raise OptionError("kafka.transaction.timeout.ms is for exactlyOnce=true")
    timeout_ms = _number(properties, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS, 1)
    if timeout_ms > TRANSACTION_TIMEOUT_MS_MAX:
        raise OptionError(
            f"kafka.transaction.timeout.ms is at most {TRANSACTION_TIMEOUT_MS_MAX} (15 minutes), not {timeout_ms}"
        )
    return timeout_ms


def _flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    text = properties.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"kafka.{name} is true or false, not '{text}'")
    return text == "true"


def _number(properties: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    try:
        number = int(text.strip())
    except ValueError:
        raise OptionError(f"kafka.{name} is a whole number, not '{text}'") from None
    if number < least:
        raise OptionError(f"kafka.{name} is at least {least}, not {number}")
    return number
