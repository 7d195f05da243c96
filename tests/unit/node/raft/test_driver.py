"""The driver of a replica that ends while others wait for its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from barnabas.client.peer import PeerSettings
from barnabas.core.raft import Raft, RaftConfig
from barnabas.node.raft.driver import RaftDriver
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.wire.uuids import ONE_UUID
from tests.support.raft.cluster import CLUSTER_ID, LISTENER, directory_id, endpoints, static_voters
from tests.support.raft.socket_voter import MemoryFiles

NOW_MS = 1_700_000_000_000
WAIT_MS = 60_000


@pytest.fixture
def flusher() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def sole_voter(flusher: ThreadPoolExecutor) -> RaftDriver:
    config = RaftConfig(
        node_id=1,
        directory_id=directory_id(1),
        cluster_id=CLUSTER_ID,
        listener_name=LISTENER,
        endpoints=endpoints(1),
        static_voters=static_voters([1]),
    )
    files = MemoryFiles()
    raft = Raft(config, files.disk.log, None, Random(1), NOW_MS)
    return RaftDriver(raft, files, flusher, lambda: NOW_MS, PeerSettings(client_id="raft-client-1"))


def fetch_at(offset: int, epoch: int) -> FetchRequest:
    """Of an observer that has everything."""
    asked = FetchPartition(current_leader_epoch=epoch, last_fetched_epoch=epoch, fetch_offset=offset)
    return FetchRequest(
        cluster_id=CLUSTER_ID,
        replica_state=ReplicaState(replica_id=9),
        max_wait_ms=WAIT_MS,
        topics=[FetchTopic(topic_id=ONE_UUID, partitions=[asked])],
    )


@pytest.mark.parametrize("end", ["the disk fails", "it is stopped"])
def test_who_waits_for_a_replica_that_ends_is_told_so(flusher: ThreadPoolExecutor, end: str) -> None:
    async def story() -> None:
        driver = sole_voter(flusher)
        committed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        driver.on_commit = committed.set_result
        driver.start()
        fetch = fetch_at(await committed, driver.raft.epoch)
        waiting = asyncio.ensure_future(driver.ask(fetch, 17, LISTENER))
        await asyncio.sleep(0)
        if end == "the disk fails":
            driver.fail(OSError("no space left"))
        else:
            await driver.stop()
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        await driver.stop()

    asyncio.run(asyncio.wait_for(story(), 30))
