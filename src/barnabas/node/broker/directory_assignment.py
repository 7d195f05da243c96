"""A broker tells the controller in which of its log directories each replica lies.

The controller leaves the choice to a broker with several; a replica is unassigned until it is told. Only then is a
replica whose directory is not there at a later start known to be offline, and not taken for a new and empty one. It is
told anew if the replica was about to move to a directory that has failed, and has stayed where it was, and if the disk
was replaced: a replica in a directory that its broker does not have cannot be in sync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from barnabas.core.controller.directories import directory_of, is_unassigned
from barnabas.core.metadata.state import MetadataDelta, MetadataImage, PartitionState
from barnabas.node.broker.registration import BrokerLife
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

log = logging.getLogger("barnabas.node")

RETRY_S, RETRY_MAX_S = 0.5, 30.0


class DirectoryAssignment:
    def __init__(self, node_id: int, log_dirs: LogDirs, broker: BrokerLife, *, chooses: bool = True) -> None:
        """`chooses` is False for a broker with one directory, about which the controller need not ask."""
        self._chooses = chooses
        self._node_id = node_id
        self._log_dirs = log_dirs
        self._broker = broker
        self._untold: dict[tuple[Uuid, int], str] = {}
        self._telling: asyncio.Task[None] | None = None

    def start(self, image: MetadataImage) -> None:
        self._consider(state for topic in image.topics.values() for state in topic.partitions.values())

    def apply(self, delta: MetadataDelta) -> None:
        """After the partitions themselves have followed the delta. The answer to the client does not wait for this."""
        self._consider(delta.partitions)

    def _consider(self, states: Iterable[PartitionState]) -> None:
        for state in states:
            if self._node_id not in state.replicas:
                continue
            if self._chooses if is_unassigned(state, self._node_id) else self._is_elsewhere(state):
                self._untold[state.topic_id, state.index] = state.topic
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    def _is_elsewhere(self, state: PartitionState) -> bool:
        """Whether the metadata has the replica in a directory in which it is not, and to which it does not move."""
        replica = self._log_dirs.get(state.topic, state.index)
        if replica is None:
            return False
        told = directory_of(state, self._node_id)
        if self._log_dirs.dir_of(replica).directory_id in (None, told):
            return False
        future = self._log_dirs.future_of(state.topic, state.index)
        return future is None or future.offline or self._log_dirs.dir_of(future).directory_id != told

    async def stop(self) -> None:
        """What is not told by now is told at the next start."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])

    async def _tell(self) -> None:
        pause_s = RETRY_S
        try:
            while self._untold:
                untold, self._untold = self._untold, {}
                try:
                    await self._broker.assign_replicas(self._found(untold))
                    pause_s = RETRY_S
                except KafkaError as error:
                    self._untold = untold | self._untold
                    log.warning(
                        "the controller did not accept the log directories of %d replicas; trying again: %s",
                        len(untold),
                        error.message,
                    )
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_MAX_S)
        finally:
            self._telling = None

    def _found(self, untold: dict[tuple[Uuid, int], str]) -> dict[tuple[Uuid, int], Uuid]:
        """Where these replicas lie now."""
        found: dict[tuple[Uuid, int], Uuid] = {}
        for (topic_id, index), topic in untold.items():
            replica = self._log_dirs.get(topic, index)
            directory_id = self._log_dirs.dir_of(replica).directory_id if replica is not None else None
            if directory_id is not None:
                found[topic_id, index] = directory_id
        return found
