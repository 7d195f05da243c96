"""Transactions beside Apache Kafka: the same scenes, good and bad, and the records they leave behind."""

import time
from typing import Any

import pytest

from barnabas.core.coordinator.partitioning import partition_for
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.list_transactions import ListTransactionsRequest
from barnabas.wire.records.transactions import TransactionLogValue
from barnabas.wire.schema import Request
from tests.support import reference

from .transaction_stage import GROUP, Stage, batches, coordinate, error_codes

TIMES = ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms")


@pytest.fixture
def stage(both: Any) -> Stage:
    return Stage(both)


@pytest.fixture
def producer(stage: Stage) -> Stage:
    return stage.init()


def describe(stage: Stage) -> None:
    request = DescribeTransactionsRequest(transactional_ids=[stage.name])
    stage.both.same(request, 0, ignoring=["transaction_start_time_ms"])


def fetch(stage: Stage, partition: int = 0, offset: int = 0, isolation: int = 1) -> Any:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=stage.topic, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, isolation_level=isolation, topics=topics)
    return stage.both.same(request, 11, ignoring=["records"])


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_an_id_is_initialized_again_and_again(stage: Stage, version: int) -> None:
    stage.init()
    for _ in range(3):
        stage.same_init(version)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize(("epoch", "other"), [(0, 0), (1, 0), (7, 0), (-1, 0), (0, 5), (2, 5), (32766, 5)])
def test_a_producer_comes_with_its_epoch(producer: Stage, version: int, epoch: int, other: int) -> None:
    producer.same_init(version, epoch=epoch, other=other)
    producer.same_init(version, epoch=epoch, other=other)
    producer.same_init(version)
    producer.same_init(version, epoch=epoch, other=other)


@pytest.mark.parametrize("timeout_ms", [0, -1, 1, 900_000, 900_001, 2_147_483_647])
def test_time_outs_have_bounds(producer: Stage, timeout_ms: int) -> None:
    producer.same_init(timeout_ms=timeout_ms)
    describe(producer)


def test_an_open_transaction_is_aborted_first(producer: Stage) -> None:
    producer.same_add()
    producer.same_produce(11)
    assert producer.same_init().error_code == 51
    producer.completed("CompleteAbort")
    fetch(producer)
    producer.same_init()
    describe(producer)


# AddPartitionsToTxn


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added(producer: Stage, version: int) -> None:
    producer.same_add(version)
    producer.same_add(version)
    producer.same_add(version, partitions={producer.topic: [0, 1]})
    describe(producer)


@pytest.mark.parametrize("version", range(6))
def test_partitions_that_cannot_be_added(producer: Stage, version: int) -> None:
    producer.same_add(version, epoch=1)
    producer.same_add(version, epoch=-1)
    producer.same_add(version, other=3)
    producer.same_add(version, name="somebody-else's")
    producer.same_add(version, name="")
    producer.same_add(version, partitions={producer.topic: [0, 7], "not-there": [0]})
    producer.same_add(version, partitions={})
    describe(producer)


@pytest.mark.parametrize("version", range(4))
def test_clients_do_not_add_internal_topics(producer: Stage, version: int) -> None:
    producer.same_add(version, partitions={"__transaction_state": [0], producer.topic: [0]})


@pytest.mark.parametrize("version", [4, 5])
def test_partitions_are_verified(producer: Stage, version: int) -> None:
    producer.same_add(version, verify=True)
    producer.same_add(version)
    producer.same_add(version, partitions={producer.topic: [0, 1]}, verify=True)
    producer.same_add(version, epoch=1, verify=True)
    producer.same_add(version, other=1, verify=True)
    producer.same_add(version, name="somebody-else's", verify=True)
    producer.same_add(version, name="", verify=True)
    describe(producer)


# Produce


@pytest.mark.parametrize("version", [3, 9, 10, 11])
def test_a_write_to_a_partition_that_was_not_added(producer: Stage, version: int) -> None:
    assert error_codes(producer.same_produce(version)) == [120 if version >= 11 else 48]
    producer.same_add()
    producer.same_produce(version)
    producer.same_produce(version, partition=1)
    producer.same_produce(version, sequence=1)


@pytest.mark.parametrize("version", [9, 11, 12])
def test_writes_of_somebody_else(producer: Stage, version: int) -> None:
    producer.same_add()
    producer.same_produce(version, epoch=5)
    producer.same_produce(version, other=1000)
    producer.same_produce(version, name="somebody-else's")
    producer.same_produce(version, name="")
    producer.same_produce(version, attributes=0)


@pytest.mark.parametrize("version", [11, 12])
def test_a_plain_batch_within_a_transaction(producer: Stage, version: int) -> None:
    producer.same_add()
    producer.same_produce(version)
    producer.same_produce(version, attributes=0, sequence=1)


def test_newer_clients_add_by_writing(producer: Stage) -> None:
    producer.same_produce(12)
    describe(producer)
    producer.same_produce(12, sequence=0)
    producer.same_produce(12, sequence=1)
    producer.same_produce(12, partition=1)
    describe(producer)


def test_sequences_of_a_transaction(producer: Stage) -> None:
    assert error_codes(producer.same_produce(12, sequence=4)) == [45]
    producer.same_produce(12, sequence=0)
    producer.same_produce(12, sequence=4)
    producer.same_produce(11, partition=1, sequence=3)
    producer.same_add(partitions={producer.topic: [1]})
    assert error_codes(producer.same_produce(11, partition=1, sequence=4)) == [45]
    producer.same_produce(11, partition=1, sequence=3)


# EndTxn


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction(producer: Stage, version: int, committed: bool) -> None:
    producer.same_add()
    producer.same_produce(11)
    fetch(producer)
    assert producer.same_end(committed, version).error_code == 0
    producer.completed("CompleteCommit" if committed else "CompleteAbort")
    describe(producer)
    for isolation in (0, 1):
        for offset in (0, 1):
            fetch(producer, offset=offset, isolation=isolation)
    for again, epoch in [(committed, 0), (not committed, 0), (committed, 1), (committed, 7)]:
        if producer.same_end(again, version, epoch=epoch).error_code == 0:
            producer.completed("CompleteCommit" if again else "CompleteAbort")


@pytest.mark.parametrize("version", [1, 4, 5])
@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_nothing(producer: Stage, version: int, committed: bool) -> None:
    if producer.same_end(committed, version).error_code == 0:
        producer.completed("CompleteAbort")
    describe(producer)


@pytest.mark.parametrize("version", [1, 4, 5])
def test_ends_of_somebody_else(producer: Stage, version: int) -> None:
    producer.same_add()
    producer.same_end(True, version, epoch=1)
    producer.same_end(True, version, epoch=-1)
    producer.same_end(True, version, other=1)
    producer.same_end(True, version, name="somebody-else's")
    producer.same_end(True, version, name="")
    describe(producer)


@pytest.mark.parametrize(("version", "committed"), [(4, True), (4, False), (5, True), (5, False)])
def test_a_transaction_that_has_run_out_of_time_cannot_be_ended(stage: Stage, version: int, committed: bool) -> None:
    stage.init()
    epoch = stage.same_init(timeout_ms=200).producer_epoch
    stage.same_produce(12, epoch=epoch)
    stage.completed("CompleteAbort")
    fetch(stage)
    stage.same_end(committed, version, epoch=epoch)
    stage.same_produce(12, epoch=epoch, sequence=1)
    stage.same_add(epoch=epoch)
    describe(stage)


@pytest.mark.parametrize("version", [1, 5])
def test_a_fenced_producer_can_do_nothing_more(producer: Stage, version: int) -> None:
    producer.same_add()
    producer.same_produce(11)
    producer.same_init()
    producer.init(2)
    producer.same_produce(11, sequence=1)
    producer.same_produce(12, sequence=1)
    producer.same_add(version=min(version, 3))
    producer.same_end(True, version)
    producer.same_end(False, version)
    producer.same_init(epoch=0)
    describe(producer)


# WriteTxnMarkers


def test_markers_from_a_client(producer: Stage) -> None:
    for version in (0, 2):
        producer.same_marker(True, epoch=1, transaction_version=version)
    producer.same_marker(True, epoch=0)
    producer.same_marker(True, epoch=1, coordinator_epoch=5)
    producer.same_marker(True, epoch=2, coordinator_epoch=4)
    producer.same_marker(True, epoch=2, partitions={producer.topic: [0, 9], "not-there": [0]})
    fetch(producer)


def test_a_hanging_transaction_is_ended_by_a_marker(producer: Stage) -> None:
    producer.same_produce(12)
    producer.same_marker(False, epoch=0, transaction_version=2)
    fetch(producer)
    producer.same_marker(False, epoch=0)
    fetch(producer)
    producer.same_produce(12, sequence=1)
    producer.same_end(True)
    producer.completed("CompleteCommit")
    fetch(producer)


# What is seen of transactions


def test_the_last_stable_offset_and_the_producers(producer: Stage) -> None:
    def latest(isolation: int) -> Request:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [ListOffsetsTopic(name=producer.topic, partitions=[wanted])]
        return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)

    producers = DescribeProducersRequest(topics=[TopicRequest(name=producer.topic, partition_indexes=[0, 1])])
    producer.same_produce(12)
    for isolation in (0, 1):
        producer.both.same(latest(isolation), 8)
    producer.both.same(producers, 0)
    producer.same_end(False)
    producer.completed("CompleteAbort")
    for isolation in (0, 1):
        producer.both.same(latest(isolation), 8)
    producer.both.same(producers, 0)


def test_several_transactions_and_what_was_aborted(producer: Stage) -> None:
    other = Stage(producer.both).init()
    other.topic = producer.topic
    producer.same_produce(12)
    other.same_produce(12)
    producer.same_end(False)
    producer.completed("CompleteAbort")
    fetch(producer)
    other.same_produce(12, sequence=1)
    other.same_end(False)
    other.completed("CompleteAbort")
    for offset in range(6):
        fetch(producer, offset=offset)


@pytest.mark.parametrize("committed", [True, False])
def test_records_are_deleted_from_within_an_open_transaction(producer: Stage, committed: bool) -> None:
    both = producer.both
    producers = DescribeProducersRequest(topics=[TopicRequest(name=producer.topic, partition_indexes=[0])])
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in (-1,)]
    latest = ListOffsetsRequest(
        replica_id=-1, isolation_level=1, topics=[ListOffsetsTopic(name=producer.topic, partitions=wanted)]
    )
    for sequence in range(4):
        producer.same_produce(12, sequence=sequence)
    for offset in (2, 4):
        both.delete_records(producer.topic, offset)
        both.same(latest, 8)
        both.same(producers, 0)
        fetch(producer, offset=offset)
    producer.same_produce(12, sequence=4)
    producer.same_end(committed)
    producer.completed("CompleteCommit" if committed else "CompleteAbort")
    both.same(latest, 8)
    both.same(producers, 0)
    for offset in (3, 4, 5, 6):
        fetch(producer, offset=offset)
    both.delete_records(producer.topic, -1)
    both.same(latest, 8)
    both.same(producers, 0)
    fetch(producer, offset=6)


def test_unknown_ids_are_described_as_such(producer: Stage) -> None:
    request = DescribeTransactionsRequest(transactional_ids=["not-there", "", producer.name, producer.name])
    producer.both.same(request, 0, ignoring=["transaction_start_time_ms"])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_transactions_are_listed(producer: Stage, version: int) -> None:
    producer.same_add()

    def listed(**filters: Any) -> None:
        request = ListTransactionsRequest(**filters)
        answers = [side.ask(request, version) for side in producer.both.sides]
        told = [
            (
                each.error_code,
                sorted(each.unknown_state_filters),
                [one.transaction_state for one in each.transaction_states if one.transactional_id == producer.name],
            )
            for each in answers
        ]
        assert told == told[:1] * len(told), (filters, told)

    listed()
    for states in (["Ongoing"], ["Empty"], ["ongoing", "Nonsense", "Ongoing"], ["Dead"], ["PrepareEpochFence"]):
        listed(state_filters=states)
    listed(producer_id_filters=[123_456_789])
    if version >= 1:
        for duration_ms in (-1, 3_600_000):
            listed(duration_filter=duration_ms)
    if version >= 2:
        for pattern in (producer.name, "tx-.*", "tx", "", "((", "[a-z]+-[0-9]+", "nothing"):
            listed(transactional_id_pattern=pattern)


# Offsets


@pytest.fixture
def group(both: Any) -> str:
    name = both.new_name("group")
    for side in both.sides:
        coordinate(side, GROUP, name)
    return str(name)


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_added(producer: Stage, group: str, version: int) -> None:
    producer.same_add_offsets(group, version, epoch=3)
    producer.same_add_offsets(group, version, other=1)
    producer.same_add_offsets(group, version)
    producer.same_add_offsets(group, version)
    describe(producer)


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_a_transaction(producer: Stage, group: str, version: int) -> None:
    producer.same_offsets(group, version)
    producer.same_add_offsets(group)
    producer.same_offsets(group, version)
    producer.same_offsets(group, version, topics={producer.topic: [0, 9], "not-there": [0]})
    producer.same_offsets(group, version, metadata="m" * 5000)
    producer.same_offsets(group, version, epoch=1)
    producer.same_offsets(group, version, other=1)
    producer.same_offsets("", version)
    if version >= 3:
        producer.same_offsets(group, version, member=(4, "nobody"))
    producer.same_end(True)
    producer.completed("CompleteCommit")
    producer.same_offsets(group, version, epoch=0)
    describe(producer)


# Records


def test_the_records_are_those_of_kafka(producer: Stage, group: str) -> None:
    producer.same_add(partitions={producer.topic: [0]})
    producer.same_produce(11)
    producer.same_end(True, 1)
    producer.completed("CompleteCommit")
    producer.same_produce(12, sequence=1)
    producer.same_offsets(group)
    producer.same_end(False)
    producer.completed("CompleteAbort")
    producer.same_init()
    states = [state_records(side, producer) for side in producer.both.sides]
    assert states == states[:1] * len(states)
    assert [value["transaction_status"] for value in states[0]] == [0, 1, 2, 4, 1, 1, 3, 5, 0]
    for topic, index in [(producer.topic, 0), ("__consumer_offsets", partition_for(group, 50))]:
        logs = [control_and_data(side, topic, index, producer) for side in producer.both.sides]
        assert logs == logs[:1] * len(logs)


def state_records(side: Any, stage: Stage) -> list[dict[str, Any]]:
    found = []
    for _, records in batches(side, "__transaction_state", partition_for(stage.name, 50)):
        for record in records:
            if record.key == b"\x00\x00" + len(stage.name).to_bytes(2, "big") + stage.name.encode():
                version = int.from_bytes(record.value[:2], "big")
                fields = vars(TransactionLogValue.decode(record.value[2:], version)).copy()
                for name in ("producer_id", "previous_producer_id", "next_producer_id"):
                    if fields[name] != -1:
                        fields[name] -= stage.ids[side.name]
                for name in TIMES:
                    fields[name] = fields[name] > 0
                topics = fields["transaction_partitions"]
                if topics is not None:  # Kafka's order is that of a hash
                    fields["transaction_partitions"] = sorted((each.topic, each.partition_ids) for each in topics)
                found.append(fields | {"version": version})
    return found


def control_and_data(side: Any, topic: str, index: int, stage: Stage) -> list[tuple[Any, ...]]:
    return [
        (header.attributes, header.producer_epoch, header.base_sequence, header.records_count, kind(header, records))
        for header, records in batches(side, topic, index)
        if header.producer_id == stage.ids[side.name]
    ]


def kind(header: Any, records: list[Any]) -> list[bytes]:
    """The coordinator's epoch is the leader's epoch of a partition, which is 0 on both sides."""
    return [record.key + record.value for record in records] if header.is_control else []


def test_kafkas_dump_tool_reads_our_transactions(producer: Stage, barnabas_node: Any) -> None:
    producer.same_produce(12)
    producer.same_end(True)
    producer.completed("CompleteCommit")
    index = partition_for(producer.name, 50)
    path = barnabas_node.data_dir / f"__transaction_state-{index}" / f"{0:020}.log"
    deadline = time.monotonic() + 10
    while True:
        told = reference.run_tool("kafka-dump-log", "--transaction-log-decoder", "--files", str(path)).stdout
        lines = [line for line in told.splitlines() if f'"transactionalId":"{producer.name}"' in line]
        if len(lines) >= 4 or time.monotonic() > deadline:
            break
    assert [line.partition('"transactionStatus":')[2][:1] for line in lines] == ["0", "1", "2", "4"]
