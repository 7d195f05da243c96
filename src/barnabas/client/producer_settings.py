"""How a producer batches, waits and retries, in Kafka's property names and with the defaults of Kafka 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import INT32_MAX, INT64_MAX, boolean, integer, one_of

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
IDEMPOTENT_IN_FLIGHT_MAX = 5  # so many batches a broker remembers per producer and partition
DEFAULT_PARTITIONERS = ("", "DefaultPartitioner", "UniformStickyPartitioner")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    acks: int = -1
    batch_size: int = 16_384
    linger_ms: int = 5
    compression: str = "none"
    compression_level: int | None = None
    idempotent: bool = True
    in_flight_max: int = 5
    retries: int = INT32_MAX
    refusals_max: int = INT32_MAX  # because too few replicas are in sync, of one batch
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    buffer_memory: int = 32 * 1024 * 1024
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    round_robin: bool = False
    ignore_keys: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[one_of(properties, "acks", "all", ("all", "-1", "0", "1"))]
        retries = integer(properties, "retries", INT32_MAX)
        in_flight_max = integer(properties, "max.in.flight.requests.per.connection", 5, least=1)
        linger_ms = integer(properties, "linger.ms", 5, greatest=INT64_MAX)
        request_timeout_ms = integer(properties, "request.timeout.ms", 30_000)
        compression = one_of(properties, "compression.type", "none", COMPRESSIONS)
        return cls(
            acks=acks,
            batch_size=integer(properties, "batch.size", 16_384),
            linger_ms=linger_ms,
            compression=compression,
            compression_level=_level(properties, compression),
            idempotent=_idempotent(properties, acks, retries, in_flight_max),
            in_flight_max=in_flight_max,
            retries=retries,
            delivery_timeout_ms=_delivery_timeout_ms(properties, linger_ms + request_timeout_ms),
            request_timeout_ms=request_timeout_ms,
            buffer_memory=integer(properties, "buffer.memory", 32 * 1024 * 1024, greatest=INT64_MAX),
            max_block_ms=integer(properties, "max.block.ms", 60_000, greatest=INT64_MAX),
            max_request_size=integer(properties, "max.request.size", 1_048_576),
            round_robin=_round_robin(properties),
            ignore_keys=boolean(properties, "partitioner.ignore.keys", False),
        )


def _level(properties: Mapping[str, str], compression: str) -> int | None:
    name = f"compression.{compression}.level"
    return integer(properties, name, 0, least=-131_072, greatest=22) if name in properties else None


def _idempotent(properties: Mapping[str, str], acks: int, retries: int, in_flight_max: int) -> bool:
    """On by default; what contradicts it switches it off quietly, unless it was asked for."""
    wanted = boolean(properties, "enable.idempotence", True)
    if not wanted:
        return False
    contradictions = [
        ("acks", "must be all", acks != -1),
        ("retries", "must be above 0", retries == 0),
        (
            "max.in.flight.requests.per.connection",
            f"must be at most {IDEMPOTENT_IN_FLIGHT_MAX}",
            in_flight_max > IDEMPOTENT_IN_FLIGHT_MAX,
        ),
    ]
    for name, demand, broken in contradictions:
        if broken and ("enable.idempotence" in properties or name.startswith("max.in.flight")):
            raise InvalidSetting(name, f"{demand} for a producer with enable.idempotence.")
    return not any(broken for _, _, broken in contradictions)


def _delivery_timeout_ms(properties: Mapping[str, str], least_ms: int) -> int:
    given = integer(properties, "delivery.timeout.ms", 120_000)
    if given >= least_ms:
        return given
    if "delivery.timeout.ms" in properties:
        raise InvalidSetting("delivery.timeout.ms", "must be at least linger.ms + request.timeout.ms.")
    return min(least_ms, INT32_MAX)


def _round_robin(properties: Mapping[str, str]) -> bool:
    name = properties.get("partitioner.class", "").strip().rpartition(".")[2]
    if name not in (*DEFAULT_PARTITIONERS, "RoundRobinPartitioner"):
        raise InvalidSetting("partitioner.class", f"is {name}, a class of Java; RoundRobinPartitioner is known here.")
    return name == "RoundRobinPartitioner"
