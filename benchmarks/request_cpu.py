"""What one request costs the node: `python -m benchmarks.request_cpu`, with `--base PATH` beside another checkout.

One connection, one request in flight, each request prepared before it is timed. The figure is the processor time of the
node's whole process, user and system, per request: the least of many short chunks, because everything else that runs on
a machine only adds to it. With a base, the two nodes take turns chunk by chunk, in alternating order.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from barnabas.client.exchange import request_frame
from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.schema import Request
from barnabas.wire.uuids import Uuid
from tests.support.raw import RawClient
from tests.support.waiting import wait_until

PRODUCE, FETCH, LIST_OFFSETS, METADATA, COMMIT, HEARTBEAT = 12, 16, 7, 12, 9, 4
TOPIC, GROUP = "request-cpu", "request-cpu"
VALUE_BYTES, BATCH_RECORDS = 100, 150
SESSION_TIMEOUT_MS = 1_800_000
PAUSE_S = 0.05  # for what a chunk has left to do in the background
CORRELATION_ID = 1

Frames = Callable[[int], list[bytes]]


def main() -> int:
    options = arguments()
    sources = {"now": None} if options.base is None else {"base": options.base, "now": None}
    with ExitStack() as stack:
        measured = {name: stack.enter_context(measured_node(source)) for name, source in sources.items()}
        wanted = options.cases or list(measured["now"].cases)
        least = {name: {case: float("inf") for case in wanted} for name in measured}
        for case in wanted:
            for each in measured.values():
                each.chunk_us(case, options.requests)
            for chunk in range(options.chunks):
                for name in sorted(measured, reverse=bool(chunk % 2)):
                    took_us = measured[name].chunk_us(case, options.requests)
                    least[name][case] = min(least[name][case], took_us)
            print(f"{case}: {' '.join(f'{name} {found[case]:.1f}' for name, found in least.items())}", file=sys.stderr)
    print("\n".join(table(least, wanted)))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request_cpu", description=__doc__)
    parser.add_argument("cases", nargs="*", help="some cases only, by the names in the table")
    parser.add_argument("--base", type=Path, help="another checkout, for instance of `git worktree add`")
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--requests", type=int, default=200, help="in a chunk")
    return parser.parse_args()


def table(least: dict[str, dict[str, float]], cases: list[str]) -> list[str]:
    if "base" not in least:
        return ["| request | node CPU |", "| --- | --- |"] + [
            f"| {case} | {least['now'][case]:.1f} us |" for case in cases
        ]
    lines = ["| request | node CPU, base | node CPU, now | now / base |", "| --- | --- | --- | --- |"]
    for case in cases:
        before, now = least["base"][case], least["now"][case]
        lines.append(f"| {case} | {before:.1f} us | {now:.1f} us | {now / before:.2f} |")
    return lines


class MeasuredNode:
    """A node with a topic, a group with one member, and a fetch session."""

    def __init__(self, node: Node, client: RawClient) -> None:
        self._node = node
        self._client = client
        self._topic_id = self._create_topic()
        self._generation = self._join()
        self._session_id, self._session_epoch = self._begin_session(), 0
        self.cases: dict[str, Frames] = {
            "produce 1": self._same(produce(1), PRODUCE),
            "produce 150": self._same(produce(BATCH_RECORDS), PRODUCE),
            "fetch": self._same(self._fetch(0, -1), FETCH),
            "fetch in a session": self._session_fetches,
            "commit": self._same(self._commit(), COMMIT),
            "metadata": self._same(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), METADATA),
            "heartbeat": self._same(self._heartbeat(), HEARTBEAT),
            "list offsets": self._same(list_offsets(), LIST_OFFSETS),
        }

    def chunk_us(self, case: str, requests: int) -> float:
        frames = self.cases[case](requests)
        clock = cpu_clock(self._node.pid)
        send, receive = self._client.socket.sendall, self._client.receive_frame
        time.sleep(PAUSE_S)
        began = time.clock_gettime_ns(clock)
        for frame in frames:
            send(frame)
            receive()
        return (time.clock_gettime_ns(clock) - began) / requests / 1e3

    def _same(self, request: Request, version: int) -> Frames:
        require_success(self._client.ask(request, version))
        frame = bytes(request_frame(request, version, CORRELATION_ID, "benchmark"))
        return lambda requests: [frame] * requests

    def _session_fetches(self, requests: int) -> list[bytes]:
        """A consumer that has read a batch asks for the next one, which here is the same."""
        frames = []
        for _ in range(requests):
            self._session_epoch += 1
            request = self._fetch(self._session_id, self._session_epoch)
            frames.append(bytes(request_frame(request, FETCH, CORRELATION_ID, "benchmark")))
        return frames

    def _create_topic(self) -> Uuid:
        self._node.create_topic(TOPIC)
        metadata = self._client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), METADATA)
        for _ in range(2):
            require_success(self._client.ask(produce(BATCH_RECORDS), PRODUCE))
        topic_id: Uuid = metadata.topics[0].topic_id
        return topic_id

    def _begin_session(self) -> int:
        answer = require_success(self._client.ask(self._fetch(0, 0), FETCH))
        session_id: int = answer.session_id
        return session_id

    def _fetch(self, session_id: int, session_epoch: int) -> FetchRequest:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        return FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )

    def _join(self) -> tuple[str, int]:
        ask = self._client.ask
        wait_until(lambda: not ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4).coordinators[0].error_code)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        request.member_id = ask(request, 7).member_id
        joined = require_success(ask(request, 7))
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id)
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assignment]
        )
        require_success(ask(sync, 4))
        return joined.member_id, joined.generation_id

    def _commit(self) -> OffsetCommitRequest:
        member_id, generation = self._generation
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        return OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

    def _heartbeat(self) -> HeartbeatRequest:
        member_id, generation = self._generation
        return HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)


@contextmanager
def measured_node(source: Path | None) -> Iterator[MeasuredNode]:
    """`source` is the checkout whose node is started; None is the one that is installed."""
    before = os.environ.get("PYTHONPATH")
    if source is not None:
        os.environ["PYTHONPATH"] = str((source / "src").resolve())
    node = Node()
    try:
        node.start()
    finally:
        os.environ.pop("PYTHONPATH", None)
        if before is not None:
            os.environ["PYTHONPATH"] = before
    with node_closed(node), RawClient(node.port) as client:
        yield MeasuredNode(node, client)


@contextmanager
def node_closed(node: Node) -> Iterator[None]:
    try:
        yield
    finally:
        node.close()


def produce(records: int) -> ProduceRequest:
    now_ms = int(time.time() * 1000)
    value = os.urandom(VALUE_BYTES)
    batch = build_batch(Record(offset=offset, timestamp=now_ms, key=None, value=value) for offset in range(records))
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])


def list_offsets() -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])


def require_success(answer: Any) -> Any:
    said = repr(answer)
    if "error_code=" in said and any(f"error_code={digit}" in said for digit in "123456789"):
        raise RuntimeError(f"the node answered with an error: {said}")
    return answer


def cpu_clock(pid: int) -> int:
    """The clock of a process's processor time, as clock_getcpuclockid(3) gives it."""
    return (~pid << 3) | 2


if __name__ == "__main__":
    sys.exit(main())
