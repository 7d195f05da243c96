"""Which keys have an effect today, and which are only checked, kept and shown. Said here so that nobody is misled.

`python -m barnabas.node.configuration.honoured docs/configuration.md` writes the tables of the documentation anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from barnabas.node.configuration.definition import Definition, to_text
from barnabas.node.configuration.definitions import BROKER, group_definitions, table, topic_definitions
from barnabas.node.configuration.rules import BOUNDED

TOPIC_KEYS = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
GROUP_KEYS = frozenset(
    {
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "share.assignment.interval.ms",
        "share.auto.offset.reset",
        "share.delivery.count.limit",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.renew.acknowledge.enable",
        "share.session.timeout.ms",
        "streams.assignment.interval.ms",
        "streams.heartbeat.interval.ms",
        "streams.initial.rebalance.delay.ms",
        "streams.num.standby.replicas",
        "streams.session.timeout.ms",
    }
)
OWN_BROKER_KEYS = frozenset(
    {
        "advertised.listeners",
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "authorizer.class.name",
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "barnabas.answer.max.bytes",
        "barnabas.audit.allowed",
        "barnabas.audit.topic",
        "barnabas.fetch.session.max.partitions",
        "barnabas.produce.validation",
        "barnabas.request.max.elements",
        "broker.heartbeat.interval.ms",
        "broker.id",
        "broker.rack",
        "broker.session.timeout.ms",
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "controller.listener.names",
        "controller.quorum.auto.join.enable",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.election.backoff.max.ms",
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "controller.quorum.fetch.timeout.ms",
        "controller.quorum.request.timeout.ms",
        "controller.quorum.retry.backoff.ms",
        "controller.quorum.voters",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "default.replication.factor",
        "delete.topic.enable",
        "fetch.max.bytes",
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.coordinator.rebalance.protocols",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "group.share.assignment.interval.ms",
        "group.share.delivery.count.limit",
        "group.share.heartbeat.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.max.share.sessions",
        "group.share.max.size",
        "group.share.partition.max.record.locks",
        "group.share.persister.class.name",
        "group.share.record.lock.duration.ms",
        "group.share.session.timeout.ms",
        "group.streams.assignment.interval.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.initial.rebalance.delay.ms",
        "group.streams.max.size",
        "group.streams.num.standby.replicas",
        "group.streams.session.timeout.ms",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "initial.broker.registration.timeout.ms",
        "leader.imbalance.check.interval.seconds",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "log.dir",
        "log.dirs",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.initial.task.delay.ms",
        "log.retention.check.interval.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.incremental.fetch.session.cache.slots",
        "max.request.partition.size.limit",
        "metadata.log.dir",
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata.log.max.snapshot.interval.ms",
        "metadata.log.segment.bytes",
        "metadata.log.segment.ms",
        "metadata.max.idle.interval.ms",
        "metadata.max.retention.bytes",
        "metadata.max.retention.ms",
        "node.id",
        "num.partitions",
        "num.recovery.threads.per.data.dir",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "process.roles",
        "producer.id.expiration.check.interval.ms",
        "producer.id.expiration.ms",
        "queued.max.request.bytes",
        "quota.window.num",
        "quota.window.size.seconds",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.timeout.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "sasl.enabled.mechanisms",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.mechanism.controller.protocol",
        "sasl.server.max.receive.size",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.write.timeout.ms",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transactional.id.expiration.ms",
        "unclean.leader.election.interval.ms",
    }
)

# Bounds of what is configured for brokers and groups.
BOUNDING_KEYS = frozenset(
    {
        "group.streams.max.standby.replicas",
        *(f"{prefix}{end}.{name}" for prefix, name in BOUNDED for end in ("min", "max")),
    }
)

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def broker_keys() -> frozenset[str]:
    """The node's own, and those that stand behind a topic's."""
    behind_topics = {key for name in TOPIC_KEYS for key, _ in topic_definitions()[name].from_broker}
    return OWN_BROKER_KEYS | BOUNDING_KEYS | behind_topics


def markdown() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    honoured = broker_keys()
    yield "### Broker keys that have an effect today\n"
    yield from _table([BROKER[key] for key in sorted(honoured)])
    yield "\n### Topic configs that have an effect today\n"
    yield from _table([each for name, each in sorted(topic_definitions().items()) if name in TOPIC_KEYS])
    yield "\n### Group configs that have an effect today\n"
    yield from _table([each for name, each in sorted(group_definitions().items()) if name in GROUP_KEYS])
    yield "\n### Accepted, checked, kept and shown, without effect yet\n"
    kept = sorted(key for key in BROKER if key not in honoured)
    yield f"Of a broker ({len(kept)}): {_list(kept)}.\n"
    yield f"Of a topic: {_list(sorted(name for name in topic_definitions() if name not in TOPIC_KEYS))}.\n"
    yield f"Of a group: {_list(sorted(name for name in group_definitions() if name not in GROUP_KEYS))}.\n"
    yield f"Of a client metrics subscription: {_list(sorted(table('client_metrics')))}."


def _table(definitions: list[Definition]) -> Iterator[str]:
    yield "| key | default | |"
    yield "| --- | --- | --- |"
    for definition in definitions:
        yield f"| `{definition.name}` | {_default(definition)} | {definition.doc} |"


def _default(definition: Definition) -> str:
    text = to_text(definition.default)
    return f"`{text}`" if text else ""


def _list(names: list[str]) -> str:
    # A line each: who changes one changes one line.
    return ",\n".join(f"`{name}`" for name in names)


def rewrite(document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text()))
