"""What a broker's keys must have in common with each other. A rule is looked at if one of its keys was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.node.configuration.definition import ConfigError, Value

if TYPE_CHECKING:
    from barnabas.node.configuration.broker import BrokerConfig

MEBIBYTE = 1 << 20
CODECS = range(5)


class Numbers(Protocol):
    def __call__(self, key: str) -> float: ...


class Rule(NamedTuple):
    keys: tuple[str, ...]
    holds: Callable[[Numbers], bool]
    sentence: str


RULES = (
    Rule(("log.roll.ms",), lambda n: n("log.roll.ms") >= 1, "log.roll.ms must be at least 1"),
    Rule(("log.roll.jitter.ms",), lambda n: n("log.roll.jitter.ms") >= 0, "log.roll.jitter.ms must be at least 0"),
    Rule(("log.retention.ms",), lambda n: n("log.retention.ms") != 0, "log.retention.ms must be at least 1, or -1"),
    Rule(("log.retention.minutes",), lambda n: n("log.retention.minutes") != 0, "log.retention.minutes must not be 0"),
    Rule(("log.retention.hours",), lambda n: n("log.retention.hours") != 0, "log.retention.hours must not be 0"),
    Rule(
        ("log.cleaner.dedupe.buffer.size", "log.cleaner.threads"),
        lambda n: (
            n("log.cleaner.threads") > 0 and n("log.cleaner.dedupe.buffer.size") // n("log.cleaner.threads") > MEBIBYTE
        ),
        "log.cleaner.threads must be at least 1 and log.cleaner.dedupe.buffer.size more than 1 MiB for each of them",
    ),
    Rule(
        ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
        lambda n: n("replica.fetch.wait.max.ms") <= n("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms must be at least replica.fetch.wait.max.ms",
    ),
    Rule(
        ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
        lambda n: n("replica.fetch.wait.max.ms") <= n("replica.lag.time.max.ms"),
        "replica.lag.time.max.ms must be at least replica.fetch.wait.max.ms",
    ),
    Rule(
        ("queued.max.request.bytes", "socket.request.max.bytes"),
        lambda n: not 0 < n("queued.max.request.bytes") < n("socket.request.max.bytes"),
        "queued.max.request.bytes must be at least socket.request.max.bytes",
    ),
    Rule(
        ("connections.max.idle.ms", "connection.failed.authentication.delay.ms"),
        lambda n: not 0 <= n("connections.max.idle.ms") <= n("connection.failed.authentication.delay.ms"),
        "connections.max.idle.ms must be more than connection.failed.authentication.delay.ms",
    ),
    Rule(
        ("offsets.topic.compression.codec",),
        lambda n: n("offsets.topic.compression.codec") in CODECS,
        "offsets.topic.compression.codec must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
    ),
    Rule(
        ("share.coordinator.state.topic.compression.codec",),
        lambda n: n("share.coordinator.state.topic.compression.codec") in CODECS,
        "share.coordinator.state.topic.compression.codec must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)",
    ),
)

# Of each the broker has a smallest and a largest value: group.consumer.min.session.timeout.ms and so on.
BOUNDED = (
    *(
        (f"group.{kind}.", key)
        for kind in ("consumer", "share", "streams")
        for key in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    ),
    *(
        ("group.share.", key)
        for key in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
    ),
)


def check_together(config: BrokerConfig) -> None:
    def number(key: str) -> float:
        value = config.value(key)
        assert isinstance(value, (int, float)), key
        return value

    for rule in RULES:
        if any(map(config.is_given, rule.keys)) and not rule.holds(number):
            given = ", ".join(f"{key}={config.text(key)}" for key in rule.keys if config.is_given(key))
            raise ConfigError(f"{given} cannot be used: {rule.sentence}.")
    for sentence in (*_outside_bounds(config, number), *_other_conflicts(config)):
        raise ConfigError(sentence)


def _outside_bounds(config: BrokerConfig, number: Numbers) -> Iterator[str]:
    for prefix, name in BOUNDED:
        key, lowest, highest = f"{prefix}{name}", f"{prefix}min.{name}", f"{prefix}max.{name}"
        if any(map(config.is_given, (key, lowest, highest))):
            if number(key) < number(lowest):
                yield f"{key} must be greater than or equal to {lowest}"
            if number(key) > number(highest):
                yield f"{key} must be less than or equal to {highest}"
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if (config.is_given(session) or config.is_given(heartbeat)) and number(heartbeat) >= number(session):
            yield f"{heartbeat} must be less than {session}"


def _other_conflicts(config: BrokerConfig) -> Iterator[str]:
    protocols = config.text("group.coordinator.rebalance.protocols")
    if protocols is not None and "classic" not in _entries(config.value("group.coordinator.rebalance.protocols")):
        yield "group.coordinator.rebalance.protocols must contain classic: it cannot be switched off."
    overrides = config.text("max.connections.per.ip.overrides") or ""
    for entry in filter(None, (part.strip() for part in overrides.split(","))):
        host, _, count = entry.rpartition(":")
        if not host or not count.strip().isdecimal():
            yield f"max.connections.per.ip.overrides={overrides} cannot be used: {entry} must be host:number."
    if config.is_given("max.connections.per.ip") and config.value("max.connections.per.ip") == 0 and not overrides:
        yield "max.connections.per.ip can be 0 only if max.connections.per.ip.overrides lets somebody in."
    if config.is_given("early.start.listeners"):
        names = {endpoint.name for endpoint in config.listeners} | set(config.controller_listener_names)
        for name in _entries(config.value("early.start.listeners")):
            if name.upper() not in names:
                yield f"early.start.listeners has {name}, which is not among the listeners."
    if config.is_given("cordoned.log.dirs"):
        directories = {str(path) for path in config.log_dirs}
        for name in _entries(config.value("cordoned.log.dirs")):
            if name != "*" and name.rstrip("/") not in directories:
                yield f"cordoned.log.dirs has {name}, which is not among log.dirs."


def _entries(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
