"""Raw batches from a real node: in order, ahead of the reader, across restarts and seeks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import OffsetOutOfRange, Refused
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.compression import Compression
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

LIMIT_S = 20.0


def cluster(node: Node, **properties: str) -> Cluster:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return Cluster(ClientSettings.from_properties(given, bootstrap_servers=node.bootstrap_servers))


def batch(first: int, count: int, compression: Compression = Compression.NONE) -> bytearray:
    now_ms = int(time.time() * 1000)
    records = [Record(number, now_ms, None, b"%d" % (first + number)) for number in range(count)]
    return build_batch(records, compression=compression)


def read(fetcher: Fetcher, wanted: int) -> dict[tuple[str, int], list[bytes | None]]:
    """Values by partition, until there are so many."""
    found: dict[tuple[str, int], list[bytes | None]] = {}
    deadline = time.monotonic() + LIMIT_S
    while sum(map(len, found.values())) < wanted:
        assert time.monotonic() < deadline, found
        for fetched in fetcher.poll(200):
            values = [record.value for record in iterate_records(fetched)]
            found.setdefault((fetched.topic, fetched.partition), []).extend(values)
    return found


def test_every_codec_and_every_partition_is_read_in_order(node: Node, log_client: Any) -> None:
    node.create_topic("codecs", partitions=3)
    with log_client(node) as log:
        for partition in range(3):
            for index, codec in enumerate(Compression):
                log.append("codecs", batch(index * 20, 20, codec), partition)
    settings = FetchSettings(max_bytes=700, partition_max_bytes=400)  # several rounds
    with cluster(node) as ours, Fetcher(ours, settings) as fetcher:
        fetcher.assign({("codecs", partition): 0 for partition in range(3)})
        found = read(fetcher, 300)
        assert found == {("codecs", partition): [b"%d" % n for n in range(100)] for partition in range(3)}
        assert fetcher.positions == {("codecs", partition): 100 for partition in range(3)}
        assert fetcher.poll(0) == []


def test_a_seek_drops_what_is_under_way_and_a_pause_holds_it_back(node: Node, log_client: Any) -> None:
    node.create_topic("seek", partitions=2)
    with log_client(node) as log:
        for partition in range(2):
            log.append("seek", batch(0, 10), partition)
    with cluster(node) as ours, Fetcher(ours) as fetcher:
        fetcher.assign({("seek", 0): 0, ("seek", 1): 0})
        fetcher.pause([("seek", 1)])
        assert list(read(fetcher, 10)) == [("seek", 0)]
        fetcher.seek("seek", 0, 7)  # the next request asks from 10 already
        assert read(fetcher, 3) == {("seek", 0): [b"7", b"8", b"9"]}
        fetcher.resume([("seek", 1)])
        assert read(fetcher, 10) == {("seek", 1): [b"%d" % n for n in range(10)]}
        fetcher.assign({("seek", 1): 9})
        assert read(fetcher, 1) == {("seek", 1): [b"9"]}


def test_an_offset_that_is_not_there_is_told_with_what_is(node: Node, log_client: Any) -> None:
    node.create_topic("range", partitions=2)
    with log_client(node) as log:
        log.append("range", batch(0, 10))
        log.append("range", batch(0, 1), 1)
        topics = [DeleteRecordsTopic(name="range", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])]
        log.connection.request(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2)
    with cluster(node) as ours, Fetcher(ours) as fetcher:
        fetcher.assign({("range", 0): 2, ("range", 1): 0})
        with pytest.raises(
            OffsetOutOfRange, match="Offset 2 of range-0 is not there: its log reaches from 4 to 10"
        ) as at:
            read(fetcher, 2)
        assert (at.value.log_start_offset, at.value.log_end_offset) == (4, 10)
        fetcher.assign({("range", 0): at.value.log_start_offset, ("range", 1): 0})
        assert read(fetcher, 7) == {("range", 0): [b"%d" % n for n in range(4, 10)], ("range", 1): [b"0"]}


def test_reading_goes_on_when_the_node_comes_back(log_client: Any) -> None:
    with Node() as node, cluster(node) as ours, Fetcher(ours) as fetcher:
        node.create_topic("back")
        with log_client(node) as log:
            log.append("back", batch(0, 5))
        fetcher.assign({("back", 0): 0})
        assert read(fetcher, 5) == {("back", 0): [b"0", b"1", b"2", b"3", b"4"]}
        node.kill()
        assert fetcher.poll(300) == []
        node.restart()
        with log_client(node) as log:
            log.append("back", batch(5, 5))
        assert read(fetcher, 5) == {("back", 0): [b"5", b"6", b"7", b"8", b"9"]}


def test_a_topic_that_never_comes_is_said_so_in_the_end(node: Node) -> None:
    with cluster(node, default_api_timeout_ms="300", retry_backoff_ms="50") as ours, Fetcher(ours) as fetcher:
        fetcher.assign({("never", 0): 0})
        with pytest.raises(Refused, match=r"never-0 cannot be read \(UNKNOWN_TOPIC_OR_PARTITION\)"):
            fetcher.poll(int(LIMIT_S * 1000))
        node.create_topic("never")
        assert fetcher.poll(0) == []


def test_partitions_that_were_added_are_read_beside_those_that_were_known(node: Node, log_client: Any) -> None:
    node.create_topic("grown", partitions=1)
    with cluster(node) as ours, cluster(node) as admin, Fetcher(ours) as fetcher:
        with log_client(node) as log:
            log.append("grown", batch(0, 5))
        fetcher.assign({("grown", 0): 0})
        assert list(read(fetcher, 5)) == [("grown", 0)]
        added = CreatePartitionsTopic(name="grown", count=3, assignments=None)
        answer = admin.ask_controller(CreatePartitionsRequest(topics=[added], timeout_ms=15_000))
        assert answer.results[0].error_code == 0
        with log_client(node) as log:
            for partition in (1, 2):
                log.append("grown", batch(0, 5), partition)
        fetcher.assign({("grown", partition): 0 for partition in (0, 2, 1)})
        assert sorted(read(fetcher, 15)) == [("grown", partition) for partition in range(3)]
