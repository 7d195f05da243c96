"""A broker with several log directories tells the controller in which of them each replica lies.

The controller leaves the choice to the broker; a replica is unassigned until it is told. Only then is a replica whose
directory is not there at a later start known to be offline, and not taken for a new and empty one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from barnabas.core.controller.directories import assign, is_unassigned
from barnabas.core.metadata.state import MetadataDelta, MetadataImage, PartitionState
from barnabas.node.metadata.controller import Controller
from barnabas.node.storage.log_dirs import LogDirs
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

log = logging.getLogger("barnabas.node")


class DirectoryAssignment:
    def __init__(self, node_id: int, log_dirs: LogDirs, controller: Controller) -> None:
        self._node_id = node_id
        self._log_dirs = log_dirs
        self._controller = controller
        self._untold: dict[tuple[Uuid, int], Uuid] = {}
        self._telling: asyncio.Task[None] | None = None

    def start(self, image: MetadataImage) -> None:
        self._consider(state for topic in image.topics.values() for state in topic.partitions.values())

    def apply(self, delta: MetadataDelta) -> None:
        """After the partitions themselves have followed the delta. The answer to the client does not wait for this."""
        self._consider(delta.partitions)

    def _consider(self, states: Iterable[PartitionState]) -> None:
        for state in states:
            if is_unassigned(state, self._node_id) and (found := self._log_dirs.get(state.topic, state.index)):
                directory_id = self._log_dirs.dir_of(found).directory_id
                if directory_id is not None:
                    self._untold[state.topic_id, state.index] = directory_id
        if self._untold and self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        """What cannot be told now is told at the next start."""
        try:
            while self._untold:
                told, self._untold = self._untold, {}
                await self._controller.submit(partial(assign, broker_id=self._node_id, chosen=told))
        except KafkaError as error:
            log.warning("Where replicas lie could not be told: %s", error.message)
        finally:
            self._telling = None
