"""The cases of groups and transactions."""

import asyncio
import os
import statistics
import struct
import time
from collections.abc import Callable

from barnabas.wire.apis import request_header_version
from barnabas.wire.errors import ErrorCode
from barnabas.wire.headers import RequestHeader
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from benchmarks import load, members
from benchmarks.case import Case, Figures, Settings, connection, drop_topic, new_topic
from benchmarks.sides import BarnabasSide, KafkaSide, Side
from tests.support.reference_exchange import Connection

COMMIT_VERSION, FETCH_VERSION = 9, 9
COMMITS_IN_FLIGHT = 100
LOADED_PARTITIONS = 1_000  # offsets of one commit
ANSWER_LIMIT_S = 60.0


def commits(side: Side, settings: Settings) -> Figures:
    """A client that assigns its partition to itself commits it again and again; its request is encoded once."""
    topic, group = new_topic(side, "commits"), f"commits-{os.urandom(4).hex()}"
    with connection(side) as asked:
        find_coordinator(asked, group)
        _commit(asked, group, topic, [1])
        request = _offsets(group, topic, [1])
        header = RequestHeader(
            request_api_key=request.api_key, request_api_version=COMMIT_VERSION, client_id="benchmark"
        )
        body = header.encode(request_header_version(OffsetCommitRequest, COMMIT_VERSION)) + request.encode(
            COMMIT_VERSION
        )
        frame = struct.pack(">i", len(body)) + body
        asked.send_bytes(frame)
        answer = asked.receive_frame()
        rates = [_commits_per_s(asked, frame, answer, settings.commits, window) for window in (1, COMMITS_IN_FLIGHT)]
    drop_topic(side, topic)
    return {"commits.rate": rates[0], "commits.pipelined.rate": rates[1]}


def _commits_per_s(asked: Connection, frame: bytes, wanted: bytes, times: int, window: int) -> float:
    began = time.perf_counter()
    sent = 0
    for received in range(times):
        while sent < min(times, received + window):
            asked.send_bytes(frame)
            sent += 1
        if asked.receive_frame() != wanted:
            raise RuntimeError("OffsetCommit was answered with an error")
    return times / (time.perf_counter() - began)


def first_message(side: Side, settings: Settings) -> Figures:
    """A new group waits 3 s for more members by default, with Kafka; not with a node that tests or `up` start. The
    second figure is without that wait on both sides: mostly the client's own."""
    delay = "group.initial.rebalance.delay.ms"
    if isinstance(side, KafkaSide):
        side.set(delay, "3000")
    side.start()
    topic = new_topic(side, "first")
    load.produce(side.bootstrap_servers, topic, 1, 100)
    first = [_first_message(side, topic) for _ in range(settings.subscriptions)]
    if isinstance(side, KafkaSide):
        side.set(delay, "0")
        side.restart()
    prompt = [_first_message(side, topic) for _ in range(settings.subscriptions)]
    return {"group.first": statistics.median(first) * 1e3, "group.prompt": statistics.median(prompt) * 1e3}


def _first_message(side: Side, topic: str) -> float:
    group = {"group.id": f"first-{os.urandom(4).hex()}", "auto.offset.reset": "earliest"}
    reader = load.consumer(side.bootstrap_servers, **group)
    reader.list_topics(topic, timeout=load.WAIT_S)  # connected, as an application that runs already
    began = time.perf_counter()
    reader.subscribe([topic])
    message = reader.poll(load.WAIT_S)
    took = time.perf_counter() - began
    if message is None or message.error() is not None:
        raise RuntimeError("the new group got no message")
    reader.close()
    return took


def joining(side: Side, settings: Settings) -> Figures:
    topic, group = new_topic(side, "joining"), f"joining-{os.urandom(4).hex()}"
    with connection(side) as asked:
        find_coordinator(asked, group)
    took = asyncio.run(members.joining(side.bootstrap_servers, group, topic, settings.group_members))
    drop_topic(side, topic)
    return {"group.joined": took * 1e3}


def rebalance(side: Side, settings: Settings) -> Figures:
    topic, group = new_topic(side, "rebalance", partitions=64), f"rebalance-{os.urandom(4).hex()}"
    with connection(side) as asked:
        find_coordinator(asked, group)
    took = asyncio.run(members.rebalances(side.bootstrap_servers, group, topic, 64, 8, settings.rebalances))
    drop_topic(side, topic)
    return {"group.rebalance": statistics.median(took) * 1e3}


def transactions(side: Side, settings: Settings) -> Figures:
    figures = {}
    for records, times in ((100, settings.transactions_100), (10_000, settings.transactions_10000)):
        topic = new_topic(side, f"transactions-{records}")
        took = load.produce_in_transactions(side.bootstrap_servers, topic, times, records, 100)
        figures[f"transactions.{records}.rate"] = records * times / took
        drop_topic(side, topic)
    return figures


def loading(side: Side, settings: Settings) -> Figures:
    """Ours alone: so many keys in the offsets topic, a clean stop, and a start until every group's offsets are told."""
    if not isinstance(side, BarnabasSide):
        return {}
    side.start()
    topic = new_topic(side, "loading", partitions=LOADED_PARTITIONS)
    groups = [f"loading-{number}" for number in range(settings.loaded_offsets // LOADED_PARTITIONS)]
    with connection(side) as asked:
        find_coordinator(asked, groups[0])
        for group in groups:
            _commit(asked, group, topic, list(range(LOADED_PARTITIONS)))
    side.stop()
    began = time.perf_counter()
    side.start()
    with connection(side) as asked:
        for group in groups:
            # Without its topics an answer is short: that the group is loaded is what is asked.
            _until(lambda group=group: _fetch_error(asked, group) == ErrorCode.NONE)  # type: ignore[misc]
        took = time.perf_counter() - began
        answer = asked.ask(_fetch(groups[-1], every=True), FETCH_VERSION)
        found = len(answer.groups[0].topics[0].partitions)  # type: ignore[attr-defined]
        if found != LOADED_PARTITIONS:
            raise RuntimeError(f"{found} offsets are there after the start instead of {LOADED_PARTITIONS}")
    return {"offsets.start": took}


GROUP_CASES = [
    Case("commits", "offset commits of one client", commits),
    Case("first", "first message of a new group", first_message, alone=True, warm=False),
    Case("joining", "200 members joining one group", joining),
    Case("rebalance", "a rebalance of 8 members over 64 partitions", rebalance),
    Case("transactions", "produce in transactions", transactions),
    Case("loading", "loading a million offsets at the start", loading, alone=True, warm=False, once=True),
]


def find_coordinator(asked: Connection, group: str) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[group])
    _until(lambda: asked.ask(request, 4).coordinators[0].error_code == ErrorCode.NONE)  # type: ignore[attr-defined]
    _until(lambda: _fetch_error(asked, group) == ErrorCode.NONE)


def _fetch(group: str, *, every: bool = False) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None if every else [])])


def _fetch_error(asked: Connection, group: str) -> int:
    return int(asked.ask(_fetch(group), FETCH_VERSION).groups[0].error_code)  # type: ignore[attr-defined]


def _offsets(group: str, topic: str, offsets: list[int]) -> OffsetCommitRequest:
    """One offset for each partition from 0 on."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index, offset in enumerate(offsets)
    ]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)


def _commit(asked: Connection, group: str, topic: str, offsets: list[int]) -> None:
    def done() -> bool:
        answer = asked.ask(_offsets(group, topic, offsets), COMMIT_VERSION)
        codes = {each.error_code for each in answer.topics[0].partitions}  # type: ignore[attr-defined]
        if codes == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            return False
        if codes != {ErrorCode.NONE}:
            raise RuntimeError(f"OffsetCommit was answered with {codes}")
        return True

    _until(done)


def _until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + ANSWER_LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError(f"not so within {ANSWER_LIMIT_S:.0f} s")
        time.sleep(0.005)
