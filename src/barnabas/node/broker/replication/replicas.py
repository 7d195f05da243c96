"""The followed partitions of this broker, each with the fetcher that copies it, as the committed metadata says.

There are up to `num.replica.fetchers` connections to each leader; a partition always takes the same one of them.
`apply` follows every committed change: a partition that gets another leader epoch, leader or address goes to the
fetcher of that leader, one that is led here or has no leader is not copied.

Here is also the clock of the in-sync replicas: followers that lag are looked for at half of
`replica.lag.time.max.ms`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.partitions import Partitions
from barnabas.node.broker.replication.fetch_session import PartitionKey
from barnabas.node.broker.replication.fetcher import Fetcher, FetchLimits
from barnabas.node.broker.replication.peers import Peers
from barnabas.node.broker.replication.throttles import ReplicaThrottle
from barnabas.node.broker.replication.versions import fetch_version, list_offsets_version
from barnabas.node.configuration import BrokerConfig
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.turns import in_turns

log = logging.getLogger("barnabas.replication")

FetcherKey = tuple[int, int]  # the leader's id, and which of the connections to it


class Replicas:
    def __init__(
        self,
        node_id: int,
        partitions: Partitions,
        log_dirs: LogDirs,
        peers: Peers,
        config: Callable[[], BrokerConfig],
        *,
        throttle: ReplicaThrottle,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        clock: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._log_dirs = log_dirs
        self._peers = peers
        self._config = config
        self._throttle = throttle
        self._image = image
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._fetchers: dict[FetcherKey, Fetcher] = {}
        self._at: dict[PartitionKey, FetcherKey] = {}
        self._shrinking: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """After the partitions have been loaded."""
        self._follow(self._partitions)
        self._shrinking = asyncio.get_running_loop().create_task(self._shrink_forever(), name="in-sync-clock")

    def apply(self, delta: MetadataDelta) -> None:
        """After the partitions have been changed."""
        for topic in delta.deleted_topics:
            for index in topic.partitions:
                self._leave((topic.topic_id, index))
        changed = []
        for state in delta.partitions:
            partition = self._partitions.get(state.topic, state.index)
            if partition is None:
                self._leave((state.topic_id, state.index))
            else:
                changed.append(partition)
        self._follow(changed)
        if delta.brokers_changed:
            self._readdress()
            now_ms = self._clock()
            for partition in self._partitions:
                partition.review_in_sync(now_ms)  # a broker that is in service again may be in sync

    def log_dir_failed(self) -> None:
        """What was in it is not fetched any more: by its fetches the leader would take it for in sync again."""
        for partition in self._partitions:
            if partition.log.offline:
                self._leave((partition.topic_id, partition.index))

    async def stop(self) -> None:
        if self._shrinking is not None:
            self._shrinking.cancel()
            await asyncio.wait([self._shrinking])
        self._at.clear()
        for key in list(self._fetchers):
            self._end(key)
        if self._ending:
            await asyncio.wait(self._ending)

    # Who copies what

    def _follow(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            key = (partition.topic_id, partition.index)
            if partition.is_leader or partition.is_gone or partition.log.offline or partition.leader < 0:
                self._leave(key)
                continue
            number = hash(key) % max(self._config().num_replica_fetchers, 1)
            fetcher = self._fetcher((partition.leader, number))
            if fetcher is None:
                self._leave(key)
                continue
            if self._at.get(key) != (partition.leader, number):
                self._leave(key)
                self._at[key] = (partition.leader, number)
            fetcher.add(partition)

    def _leave(self, key: PartitionKey) -> None:
        at = self._at.pop(key, None)
        fetcher = None if at is None else self._fetchers.get(at)
        if fetcher is not None and at is not None:
            fetcher.remove(key)
            if not len(fetcher):
                self._end(at)

    def _fetcher(self, key: FetcherKey) -> Fetcher | None:
        fetcher = self._fetchers.get(key)
        if fetcher is not None:
            return fetcher
        leader_id, number = key
        address = self._peers.address_of(leader_id)
        if address is None:
            log.warning("broker %d has no listener for brokers: the partitions that it leads are not copied", leader_id)
            return None
        peer = self._peers.open(address, f"broker-{leader_id}-fetcher-{number}", negotiate=False)
        fetcher = self._fetchers[key] = Fetcher(
            self._node_id,
            leader_id,
            peer,
            self._log_dirs,
            limits_of(self._config()),
            self._throttle,
            broker_epoch=self._broker_epoch,
            fetch_version=lambda: fetch_version(self._image().metadata_version),
            list_offsets_version=lambda: list_offsets_version(self._image().metadata_version),
            clock=self._clock,
        )
        return fetcher

    def _end(self, key: FetcherKey) -> None:
        task = asyncio.get_running_loop().create_task(self._fetchers.pop(key).stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _readdress(self) -> None:
        """A leader that was started anew may be somewhere else, and one that was unknown may be known now."""
        for key, fetcher in list(self._fetchers.items()):
            address = self._peers.address_of(key[0])
            if address is not None and address != fetcher.address:
                self._end(key)
                self._at = {partition: at for partition, at in self._at.items() if at != key}
        self._follow(
            each
            for each in self._partitions
            if not each.is_leader and each.leader >= 0 and (each.topic_id, each.index) not in self._at
        )

    # Who lags

    async def _shrink_forever(self) -> None:
        while True:
            await asyncio.sleep(self._config().replica_lag_time_max_ms / 2 / 1000)
            try:
                async for partition in in_turns(list(self._partitions)):
                    partition.review_in_sync(self._clock())
            except Exception:
                log.exception("could not check which followers lag; the next check tries again")


def limits_of(config: BrokerConfig) -> FetchLimits:
    return FetchLimits(
        wait_max_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        partition_max_bytes=config.replica_fetch_max_bytes,
        backoff_s=config.replica_fetch_backoff_ms / 1000,
    )
