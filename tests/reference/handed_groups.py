"""Groups whose coordinator assigns, which are handed from one server to the next with their directory.

One of each kind. At each server a new member comes, those of before go on with their epochs, and when all have settled
the groups are described. The next server has to describe them alike before anybody speaks to it.
"""

from __future__ import annotations

import time
from typing import Any

from barnabas.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from barnabas.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.support.reference_batches import crafted_batch
from tests.support.reference_exchange import Side, differences
from tests.support.waiting import wait_until

CONSUMERS, STREAMS, SHARES = "handed-consumers", "handed-streams", "handed-shares"
TOPIC, PARTITIONS = "worked-on", 4
CONFIGS = {
    CONSUMERS: {"consumer.session.timeout.ms": "60000", "consumer.assignment.interval.ms": "0"},
    STREAMS: {
        "streams.session.timeout.ms": "60000",
        "streams.initial.rebalance.delay.ms": "0",
        "streams.assignment.interval.ms": "0",
    },
    SHARES: {"share.session.timeout.ms": "60000", "share.auto.offset.reset": "earliest"},
}
ACCEPT, RELEASE = 1, 2


class HandedGroups:
    def __init__(self) -> None:
        self._epochs: dict[tuple[str, str], int] = {}
        self._consumed: dict[str, list[Any]] = {}
        self._tasks: dict[str, list[Any]] = {}
        self._seen: list[Any] = []

    def live(self, side: Side) -> None:
        side.create_topic(TOPIC, partitions=PARTITIONS)
        for group, configs in CONFIGS.items():
            altered = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in configs.items()]
            resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=altered)
            answer: Any = side.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert answer.responses[0].error_code == 0
        self._work(side, "first")

    def go_on(self, side: Side, name: str) -> None:
        """`name` is that of the member which comes at this server."""
        side.wait_for_leaders(TOPIC, PARTITIONS)
        self._wait_for_coordinators(side)
        found = differences(self._seen, self._described(side))
        assert not found, "\n".join([f"{side.name} describes groups otherwise than they were left", *found])
        self._work(side, name)

    def _work(self, side: Side, name: str) -> None:
        self._wait_for_coordinators(side)
        self._epochs |= {(CONSUMERS, name): 0, (STREAMS, name): 0}
        wait_until(lambda: self._settle(side), f"the groups settle at {side.name}", limit_s=30)
        self._share(side, name)
        self._seen = self._described(side)

    def _wait_for_coordinators(self, side: Side) -> None:
        for group in CONFIGS:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            side.wait_until(find, 4, lambda answer: answer.coordinators[0].error_code == 0)
        describe = ConsumerGroupDescribeRequest(group_ids=list(CONFIGS))
        side.wait_until(describe, 1, lambda answer: not {each.error_code for each in answer.groups} & {14, 15, 16})

    # Consumers and streams: a heartbeat of each, until nobody is told anything new.

    def _settle(self, side: Side) -> bool:
        is_settled = True
        for (group, name), epoch in list(self._epochs.items()):
            beat = self._consume if group == CONSUMERS else self._stream
            self._epochs[group, name], news = beat(side, name, epoch)
            is_settled &= not news and self._epochs[group, name] == epoch
        epochs = [{epoch for (each, _), epoch in self._epochs.items() if each == group} for group in CONFIGS]
        return is_settled and all(len(each) <= 1 for each in epochs)

    def _consume(self, side: Side, name: str, epoch: int) -> tuple[int, bool]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMERS,
            member_id=name,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else 60_000,
            subscribed_topic_names=None if epoch else [TOPIC],
            topic_partitions=self._consumed.get(name, []),
        )
        answer: Any = side.ask(request, 1)
        assert answer.error_code == 0, f"{side.name}: {answer}"
        if answer.assignment is not None:
            self._consumed[name] = answer.assignment.topic_partitions
        return answer.member_epoch, answer.assignment is not None

    def _stream(self, side: Side, name: str, epoch: int) -> tuple[int, bool]:
        topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=[TOPIC])])
        request = StreamsGroupHeartbeatRequest(
            group_id=STREAMS,
            member_id=name,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else 60_000,
            topology=None if epoch else topology,
            process_id=None if epoch else f"process-of-{name}",
            active_tasks=self._tasks.get(name, []),
            standby_tasks=[],
            warmup_tasks=[],
        )
        answer: Any = side.ask(request, 0)
        assert answer.error_code == 0, f"{side.name}: {answer}"
        if answer.active_tasks is not None:
            self._tasks[name] = answer.active_tasks
        return answer.member_epoch, answer.active_tasks is not None

    # A share group: of three new records one is accepted and one given back, so that the rest is redelivered later.

    def _share(self, side: Side, name: str) -> None:
        batch = crafted_batch(
            [(None, b"task-%d" % number) for number in range(3)], base_timestamp=int(time.time() * 1000)
        )
        data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(records=batch)])]
        answer: Any = side.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
        first = answer.responses[0].partition_responses[0].base_offset
        epoch, assigned = 0, False

        def is_assigned() -> bool:
            nonlocal epoch, assigned
            request = ShareGroupHeartbeatRequest(
                group_id=SHARES, member_id=name, member_epoch=epoch, subscribed_topic_names=None if epoch else [TOPIC]
            )
            answer: Any = side.ask(request, 1)
            assert answer.error_code == 0, f"{side.name}: {answer}"
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        wait_until(is_assigned, f"{SHARES} is assigned at {side.name}", limit_s=30)
        topic_id = side.topic_id(TOPIC)
        acquired: list[Any] = []

        def is_taken() -> bool:
            part = FetchPartition(partition_index=0)
            request = ShareFetchRequest(
                group_id=SHARES,
                member_id=name,
                share_session_epoch=len(sessions),
                max_wait_ms=500,
                min_bytes=1,
                max_records=100,
                batch_size=100,
                topics=[] if sessions else [FetchTopic(topic_id=topic_id, partitions=[part])],
            )
            answer: Any = side.ask(request, 2)
            assert answer.error_code == 0, f"{side.name}: {answer}"
            sessions.append(answer)
            for topic in answer.responses:
                acquired.extend(each for part in topic.partitions for each in part.acquired_records)
            return any(each.last_offset == first + 2 for each in acquired)

        sessions: list[Any] = []
        wait_until(is_taken, f"records of {SHARES} are taken at {side.name}", limit_s=30)
        # What was given back at the server before comes once more: its count of deliveries was handed over as well.
        assert [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired] == [
            *((each, each, first // 3 - each // 3 + 1) for each in range(2, first, 3)),
            (first, first + 2, 1),
        ]
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=first + 1, acknowledge_types=[ACCEPT]),
            AcknowledgementBatch(first_offset=first + 2, last_offset=first + 2, acknowledge_types=[RELEASE]),
        ]
        acknowledge = ShareAcknowledgeRequest(
            group_id=SHARES,
            member_id=name,
            share_session_epoch=-1,  # the last of the session: whatever else is held is given back
            topics=[
                AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)],
                )
            ],
        )
        answer = side.ask(acknowledge, 2)
        assert [answer.error_code, answer.responses[0].partitions[0].error_code] == [0, 0], f"{side.name}: {answer}"
        leave = ShareGroupHeartbeatRequest(group_id=SHARES, member_id=name, member_epoch=-1)
        answer = side.ask(leave, 1)
        assert answer.error_code == 0

    def _described(self, side: Side) -> list[Any]:
        answers: list[Any] = [
            side.ask(ConsumerGroupDescribeRequest(group_ids=[CONSUMERS]), 1),
            side.ask(StreamsGroupDescribeRequest(group_ids=[STREAMS]), 0),
            side.ask(
                DescribeShareGroupOffsetsRequest(
                    groups=[DescribeShareGroupOffsetsRequestGroup(group_id=SHARES, topics=None)]
                ),
                1,
            ),
        ]
        for answer in answers[:2]:
            assert answer.groups[0].error_code == 0, f"{side.name}: {answer}"
            answer.groups[0].members.sort(key=lambda member: member.member_id)
        return answers
