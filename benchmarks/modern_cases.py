"""The cases of groups whose coordinator assigns: consumer groups (KIP-848) and share groups (KIP-932)."""

import asyncio
import os
import statistics
import time

from confluent_kafka.admin import ResourceType

from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.uuids import Uuid
from benchmarks import load, process
from benchmarks.case import Case, Figures, Settings, connection, drop_topic, new_topic, percentiles
from benchmarks.group_cases import find_coordinator
from benchmarks.modern_members import Consumer, ConsumerCrew, ShareMember
from benchmarks.sides import Side

HEARTBEAT_MEMBERS, HEARTBEATS_IN_FLIGHT = 16, 16
IDLE_CONNECTIONS, IDLE_HEARTBEAT_S = 50, 5.0
SHARE_MEMBERS, SHARE_PARTITIONS = 4, 4


def consumers_joined(side: Side, settings: Settings) -> Figures:
    count = settings.group_members
    topic, group = new_topic(side, "modern-joining", partitions=count), _new_group(side, "modern-joining")

    async def joined() -> float:
        crew = ConsumerCrew(side.bootstrap_servers, group, topic, count, heartbeat_s=0.1)
        try:
            return await crew.add(*[await crew.connect() for _ in range(count)])
        finally:
            crew.close()

    took = asyncio.run(joined())
    drop_topic(side, topic)
    return {"consumers.joined": took * 1e3}


def consumers_balanced(side: Side, settings: Settings) -> Figures:
    """A ninth member comes to eight and goes. The others give back what moves, and go on with all the rest."""
    partitions, members = 64, 8
    topic, group = new_topic(side, "modern-balance", partitions=partitions), _new_group(side, "modern-balance")
    came: list[float] = []
    went: list[float] = []

    async def balance() -> None:
        crew = ConsumerCrew(side.bootstrap_servers, group, topic, partitions, heartbeat_s=0.02)
        try:
            await crew.add(*[await crew.connect() for _ in range(members)])
            stopped = sum(each.given_back for each in crew.members)
            for _ in range(settings.rebalances):
                ninth = await crew.connect()
                came.append(await crew.add(ninth))
                went.append(await crew.remove(ninth))
            moved = settings.rebalances * -(-partitions // (members + 1))
            stopped = sum(each.given_back for each in crew.members) - stopped
            if stopped > moved:
                raise RuntimeError(f"{stopped} partitions were given back where {moved} moved")
        finally:
            crew.close()

    asyncio.run(balance())
    drop_topic(side, topic)
    return {
        "consumers.came": statistics.median(came) * 1e3,
        "consumers.went": statistics.median(went) * 1e3,
    }


def heartbeats(side: Side, settings: Settings) -> Figures:
    """Of members that have nothing to say; requests are encoded once, and several of each member are under way."""
    topic, group = new_topic(side, "heartbeats", partitions=HEARTBEAT_MEMBERS), _new_group(side, "heartbeats")

    async def beat() -> tuple[float, float]:
        crew = ConsumerCrew(side.bootstrap_servers, group, topic, HEARTBEAT_MEMBERS, heartbeat_s=0.02)
        try:
            await crew.add(*[await crew.connect() for _ in range(HEARTBEAT_MEMBERS)])
            await asyncio.sleep(0.2)  # until all have confirmed what they have
            await crew.silence(*crew.members)
            before, began = process.cpu_seconds(side.pid), time.perf_counter()
            each = settings.heartbeats // HEARTBEAT_MEMBERS
            await asyncio.gather(*[_beat(member, each) for member in crew.members])
            return time.perf_counter() - began, process.cpu_seconds(side.pid) - before
        finally:
            crew.close()

    took, cpu = asyncio.run(beat())
    drop_topic(side, topic)
    return {"heartbeats.rate": settings.heartbeats / took, "heartbeats.core": settings.heartbeats / cpu}


async def _beat(member: Consumer, times: int) -> None:
    frame, sent = member.heartbeat_frame(), 0
    wanted = b""
    for received in range(times):
        while sent < min(times, received + HEARTBEATS_IN_FLIGHT):
            member.send_bytes(frame)
            sent += 1
        answer = await member.receive_frame()
        wanted = wanted or answer
        if answer != wanted:
            raise RuntimeError("ConsumerGroupHeartbeat was answered in two ways")


def idle_groups(side: Side, settings: Settings) -> Figures:
    """Each has a member, whose heartbeats come at the default interval."""
    topic = new_topic(side, "idle-groups")
    name = f"idle-{os.urandom(4).hex()}"
    with connection(side) as asked:
        find_coordinator(asked, name)

    async def idle() -> float:
        members = [Consumer(f"{name}-{number}", topic, lambda: None) for number in range(settings.idle_groups)]
        lanes = [members[number::IDLE_CONNECTIONS] for number in range(IDLE_CONNECTIONS)]
        for lane in lanes:
            await lane[0].connect(side.bootstrap_servers)
            for member in lane[1:]:
                member.share(lane[0])
        await asyncio.gather(*[_join_in_turn(lane) for lane in lanes])
        lives = [asyncio.ensure_future(_beat_in_turn(lane)) for lane in lanes]
        await asyncio.sleep(IDLE_HEARTBEAT_S)
        before, began = process.cpu_seconds(side.pid), time.perf_counter()
        await asyncio.sleep(settings.idle_cpu_s)
        used = (process.cpu_seconds(side.pid) - before) / (time.perf_counter() - began)
        for life in lives:
            if life.done():
                life.result()
            life.cancel()
        for lane in lanes:
            lane[0].close()
        return used

    used = asyncio.run(idle())
    return {"groups.idle": used * 100}


async def _join_in_turn(members: list[Consumer]) -> None:
    for member in members:
        await member.join()


async def _beat_in_turn(members: list[Consumer]) -> None:
    pause_s = IDLE_HEARTBEAT_S / len(members)
    while True:
        for member in members:
            await member.beat()
            await asyncio.sleep(pause_s)


def share(side: Side, settings: Settings) -> Figures:
    """Four members, one for each partition, and what each takes is acknowledged with its next fetch."""
    topic, group = new_topic(side, "share", partitions=SHARE_PARTITIONS), _new_group(side, "share", "earliest")
    load.produce_everywhere(side.bootstrap_servers, [topic], SHARE_PARTITIONS, settings.shared_records)
    topic_id = _topic_id(side, topic)

    async def work() -> tuple[float, float, list[float]]:
        members = [ShareMember(group, topic, (topic_id, index)) for index in range(SHARE_MEMBERS)]
        for member in members:
            await member.connect(side.bootstrap_servers)
        await asyncio.gather(*[member.join() for member in members])
        before, began = process.cpu_seconds(side.pid), time.perf_counter()
        counts = await asyncio.gather(*[_take_all(member, settings.shared_records // 4) for member in members])
        took, cpu = time.perf_counter() - began, process.cpu_seconds(side.pid) - before
        if sum(counts) != settings.shared_records:
            raise RuntimeError(f"{sum(counts)} records were taken instead of {settings.shared_records}")
        load.produce_everywhere(side.bootstrap_servers, [topic], SHARE_PARTITIONS, settings.acknowledgements)
        singly: list[float] = []
        while len(singly) < settings.acknowledgements // 4:
            await members[0].take()
            singly += await members[0].acknowledge_singly()
        for member in members:
            member.close()
        return took, cpu, singly

    took, cpu, singly = asyncio.run(work())
    drop_topic(side, topic)
    return {
        "share.rate": settings.shared_records / took,
        "share.cpu": cpu / settings.shared_records * 1e6,
        **percentiles("share.acknowledge", singly),
    }


async def _take_all(member: ShareMember, records: int) -> int:
    count = 0
    while count < records:
        count += await member.take()
    await member.take(wait_ms=0)  # which acknowledges the last ones
    return count


MODERN_CASES = [
    Case("consumers", "200 members joining one group of the consumer protocol", consumers_joined),
    Case("balance", "a member that comes to 8 over 64 partitions, and goes", consumers_balanced),
    Case("heartbeats", "heartbeats of the consumer protocol", heartbeats),
    Case("share", "a share group of 4 members", share),
    Case("idlegroups", "1,000 idle groups", idle_groups, warm=False, once=True),
]


def _new_group(side: Side, purpose: str, reset: str = "") -> str:
    """Its coordinator is there, and it assigns at once: who waits for whom is not what is measured."""
    group = f"{purpose}-{os.urandom(4).hex()}"
    with connection(side) as asked:
        find_coordinator(asked, group)
    kind = "share" if reset else "consumer"
    config = {f"{kind}.assignment.interval.ms": "0"} | ({"share.auto.offset.reset": reset} if reset else {})
    load.configure(side.bootstrap_servers, ResourceType.GROUP, group, config)
    return group


def _topic_id(side: Side, topic: str) -> Uuid:
    with connection(side) as asked:
        answer = asked.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return answer.topics[0].topic_id  # type: ignore[attr-defined,no-any-return]
