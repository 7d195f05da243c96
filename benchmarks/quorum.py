"""Three controllers beside Apache Kafka's three: fail-over, new topics, a long metadata log, and what idling costs.

    python -m benchmarks.quorum                     # all cases
    python -m benchmarks.quorum kill stop --rounds 3

Three controllers and one broker on each side, all of them processes on this machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from barnabas.client.errors import ClientError
from barnabas.client.peer import Peer, PeerSettings
from barnabas.core.metadata.records import LEVEL_WRITTEN
from barnabas.node.raft.batches import build_batch
from barnabas.wire.batch import iterate_batches
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.records import metadata as records
from barnabas.wire.uuids import Uuid
from benchmarks.cluster_run import ClusterCase, Figures, Shape, main
from benchmarks.cluster_sides import Side, cpu_seconds, memory_mb
from benchmarks.rows import Row, ratio_at_least, ratio_at_most, value_at_most

LIMIT_S = 60.0
IN_FLIGHT = 50
ABSENT_BROKER = 99
BATCH_RECORDS = 1000
NO_SNAPSHOTS = (
    ("metadata.log.max.record.bytes.between.snapshots", str(10**12)),
    ("metadata.log.max.snapshot.interval.ms", "0"),
)


def first_idle(cluster: Side) -> Figures:
    """Before anything was asked of it."""
    time.sleep(5)
    return {"memory": memory_mb(cluster, cluster.controller_ids)}


def idle(cluster: Side, quick: bool) -> Figures:
    seconds = 3.0 if quick else 20.0
    before = cpu_seconds(cluster, cluster.controller_ids)
    time.sleep(seconds)
    spent = cpu_seconds(cluster, cluster.controller_ids) - before
    return {"idle.cpu": 100 * spent / seconds}


def creation(name: str, timeout_ms: int = 30_000) -> CreateTopicsRequest:
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[wanted], timeout_ms=timeout_ms)


def new_name() -> str:
    return f"topic-{os.urandom(6).hex()}"


def create_until_it_succeeds(cluster: Side) -> None:
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        if not cluster.running:
            raise RuntimeError(f"{cluster.name} has ended: {cluster.nodes[1].log()[-3000:]}")
        try:
            with cluster.connect() as connection:
                (created,) = connection.request(creation(new_name())).topics
        except ClientError:
            continue
        if created.error_code == 0:
            return
    raise TimeoutError(f"{cluster.name}: no topic could be created in {LIMIT_S:.0f} s")


def fail_over(cluster: Side, action: str) -> float:
    create_until_it_succeeds(cluster)
    leader = cluster.controller_id()
    time.sleep(3)  # all others have fetched from it
    if action == "kill":
        began = time.perf_counter()
        cluster.kill(leader)
        create_until_it_succeeds(cluster)
        took = time.perf_counter() - began
    else:
        took = longest_until_stopped(cluster, leader)
    cluster.start(leader)
    return took


def longest_until_stopped(cluster: Side, leader: int) -> float:
    """The longest that a topic took, of one after the other until the process is gone: it leads on for a moment."""
    longest = 0.0
    with ThreadPoolExecutor(1) as threads:
        stopping = threads.submit(cluster.stop, leader)
        is_over = False
        while not is_over:
            is_over = stopping.done()  # and one more
            began = time.perf_counter()
            create_until_it_succeeds(cluster)
            longest = max(longest, time.perf_counter() - began)
        stopping.result()
    return longest


def kill(cluster: Side, quick: bool) -> Figures:
    return {"kill": fail_over(cluster, "kill")}


def stop(cluster: Side, quick: bool) -> Figures:
    return {"stop": fail_over(cluster, "stop")}


def create_in_sequence(cluster: Side, quick: bool) -> Figures:
    topics = 50 if quick else 1000
    with cluster.connect() as connection:
        connection.request(creation(new_name()))
        began = time.perf_counter()
        for _ in range(topics):
            (created,) = connection.request(creation(new_name())).topics
            if created.error_code:
                raise RuntimeError(f"{cluster.name}: {created.error_message}")
    return {"create.sequence": topics / (time.perf_counter() - began)}


def create_in_flight(cluster: Side, quick: bool) -> Figures:
    topics = 100 if quick else 1000
    host, _, port = cluster.bootstrap_servers.partition(",")[0].rpartition(":")

    async def create_share(peer: Peer, count: int) -> None:
        for _ in range(count):
            (created,) = (await peer.send(creation(new_name()))).topics
            if created.error_code:
                raise RuntimeError(f"{cluster.name}: {created.error_message}")

    async def create_all() -> float:
        peers = [Peer((host, int(port)), PeerSettings(client_id=f"benchmark-{n}")) for n in range(IN_FLIGHT)]
        await asyncio.gather(*(create_share(peer, 1) for peer in peers))  # connected
        began = time.perf_counter()
        await asyncio.gather(*(create_share(peer, topics // IN_FLIGHT) for peer in peers))
        took = time.perf_counter() - began
        await asyncio.gather(*(peer.close() for peer in peers))
        return took

    return {"create.flight": topics / asyncio.run(create_all())}


def start_on_many_records(side: type[Side], quick: bool) -> Figures:
    """One node, whose metadata log has a million records and no snapshot."""
    cluster = Shape(1, config=NO_SNAPSHOTS).build(side)
    with cluster:
        node = cluster.nodes[1]
        create_until_it_succeeds(cluster)
        cluster.stop(1)
        directory = node.data_dir / "__cluster_metadata-0"
        count = add_records(directory, 50_000 if quick else 1_000_000)
        began = time.perf_counter()
        cluster.start(1)
        create_until_it_succeeds(cluster)
        took = time.perf_counter() - began
        return {"start": took, "start.memory": memory_mb(cluster, [1]), "start.records": count}


def add_records(directory: os.PathLike[str], count: int) -> int:
    """Topics of a broker that is not there, with ten partitions each, and changes of them: what the last controller
    might have appended. The same bytes for both."""
    path = max(each.path for each in os.scandir(directory) if each.name.endswith(".log"))
    with open(path, "rb") as file:
        data = file.read()
    last = [header for _, header in iterate_batches(data)][-1]
    offset, epoch, now_ms = last.last_offset + 1, last.leader_epoch, int(time.time() * 1000)
    topics = count // 50
    made: list[records.Record] = []
    written = 0
    with open(path, "ab") as file:

        def flush() -> None:
            nonlocal offset, written
            file.write(build_batch(made, LEVEL_WRITTEN, base_offset=offset, epoch=epoch, now_ms=now_ms))
            offset, written = offset + len(made), written + len(made)
            made.clear()

        for number in range(topics):
            topic_id = Uuid.random()
            made.append(records.TopicRecord(name=f"old-{number}", topic_id=topic_id))
            made += (
                records.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=[ABSENT_BROKER],
                    isr=[ABSENT_BROKER],
                    leader=ABSENT_BROKER,
                    directories=[Uuid(bytes(15) + b"\1")],
                )
                for index in range(10)
            )
            made += (
                records.PartitionChangeRecord(partition_id=index % 10, topic_id=topic_id, leader=ABSENT_BROKER)
                for index in range(39)
            )
            if len(made) >= BATCH_RECORDS:
                flush()
        if made:
            flush()
    return written


CASES = [
    ClusterCase("start", "a node starts on 1 million metadata records", by_itself=start_on_many_records),
    ClusterCase("idle", "CPU of three controllers that have nothing to do", idle),
    ClusterCase("sequence", "1,000 topics, one request after the other", create_in_sequence),
    ClusterCase("flight", "1,000 topics, 50 requests in flight", create_in_flight),
    ClusterCase("kill", "kill -9 of the active controller until a topic is created", kill),
    ClusterCase("stop", "SIGTERM of the active controller until a topic is created", stop),
]
ROWS = [
    Row("kill", "active controller killed (`kill -9`) until a topic is created", "s", ratio_at_most(1.0)),
    Row("stop", "active controller stopped in order: longest creation of a topic", "s", ratio_at_most(0.5)),
    Row("create.sequence", "topics of one partition, one request after the other", "topics/s", ratio_at_least(1.0)),
    Row("create.flight", "the same with 50 in flight", "topics/s", ratio_at_least(1.0)),
    Row("start", "start of a node on 1 million metadata records, until a topic is created", "s", ratio_at_most(0.5)),
    Row("start.memory", "its memory then", "MB"),
    Row("idle.cpu", "three controllers, idle: CPU of one core", "%", value_at_most(1.0)),
    Row("memory", "three controllers, idle: memory", "MB", ratio_at_most(0.15)),
]

if __name__ == "__main__":
    sys.exit(main("benchmarks.quorum", __doc__, CASES, ROWS, Shape(1, 3), first=first_idle))
