"""Names that SET takes: ksqlDB's own, and those of Kafka's streams, consumers and producers."""

from __future__ import annotations

PREFIXES = ("ksql.streams.", "consumer.", "producer.", "main.consumer.", "restore.consumer.", "global.consumer.")
CLIENT = """
auto.commit.interval.ms auto.offset.reset bootstrap.servers check.crcs client.dns.lookup client.id client.rack
connections.max.idle.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
group.id group.instance.id heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.ms
retry.backoff.max.ms security.protocol send.buffer.bytes session.timeout.ms value.deserializer
acks batch.size buffer.memory compression.type delivery.timeout.ms enable.idempotence key.serializer linger.ms
max.block.ms max.in.flight.requests.per.connection max.request.size partitioner.class retries transaction.timeout.ms
transactional.id value.serializer
"""
STREAMS = """
acceptable.recovery.lag application.id application.server buffered.records.per.partition cache.max.bytes.buffering
commit.interval.ms default.deserialization.exception.handler default.key.serde default.production.exception.handler
default.timestamp.extractor default.value.serde max.task.idle.ms max.warmup.replicas num.standby.replicas
num.stream.threads poll.ms probing.rebalance.interval.ms processing.guarantee replication.factor rocksdb.config.setter
state.cleanup.delay.ms state.dir statestore.cache.max.bytes task.timeout.ms topology.optimization
window.size.ms windowstore.changelog.additional.retention.ms
"""
KSQL = """
ksql.connect.url ksql.extension.dir ksql.fail.on.deserialization.error ksql.fail.on.production.error
ksql.functions.collect_list.limit ksql.functions.collect_set.limit ksql.insert.into.values.enabled
ksql.internal.topic.min.insync.replicas ksql.internal.topic.replicas ksql.output.topic.name.prefix
ksql.persistence.default.format.key ksql.persistence.default.format.value ksql.persistence.wrap.single.values
ksql.query.pull.enable.standby.reads ksql.query.pull.max.allowed.offset.lag ksql.query.pull.max.qps
ksql.query.pull.table.scan.enabled ksql.query.push.v2.enabled ksql.query.retry.backoff.initial.ms
ksql.query.retry.backoff.max.ms ksql.schema.registry.url ksql.service.id ksql.sink.partitions ksql.sink.replicas
ksql.state.dir ksql.suppress.enabled ksql.timestamp.throw.on.invalid ksql.udf.collect.metrics ksql.udfs.enabled
ksql.variable.substitution.enable
"""
KNOWN = frozenset(f"{CLIENT}{STREAMS}{KSQL}".split())


def is_known(name: str) -> bool:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return is_known(name.removeprefix(prefix))
    return name in KNOWN or name.startswith(("ssl.", "sasl.", "ksql.functions.", "ksql.schema.registry."))
