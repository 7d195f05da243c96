"""A node's part in the quorum: the log, the loader behind it, and the controller in front of it.

member = QuorumMember(load_metadata(root, ...), ...)   # `load_metadata` refuses before anything is written
await member.start()                                   # leads, and takes commands
await member.stop()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace

from barnabas.client.peer import PeerSettings
from barnabas.core.metadata.state import Endpoint
from barnabas.core.raft import Endpoints, RaftConfig, ReplicaKey, Voter, VoterSet
from barnabas.node.broker.channel import ControllerChannel
from barnabas.node.broker.forwarding import ControllerPeers
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.controller import Controller
from barnabas.node.controller.decisions import deciding
from barnabas.node.controller.local import LocalController
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.metadata.snapshotting import SnapshotPolicy, Snapshotting
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.load import LoadedMetadata
from barnabas.node.raft.log import MetadataLog, MetadataLogConfig
from barnabas.node.raft.replica import RaftReplica
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid


class QuorumMember:
    def __init__(
        self,
        loaded: LoadedMetadata,
        flusher: Executor,
        *,
        node_id: int,
        cluster_id: str,
        directory_id: Uuid,
        endpoints: Sequence[Endpoint],
        topic_configs: TopicConfigs,
        clock: Callable[[], int],
        on_fault: Callable[[str], None],
        raft: RaftConfig | None = None,
        peers: PeerSettings | None = None,
        log_config: MetadataLogConfig | None = None,
        snapshots: SnapshotPolicy | None = None,
    ) -> None:
        """Opens the metadata log of a formatted directory whose lock we hold, and cuts a torn tail.

        Without `raft` this node is the whole quorum. `clock` never goes back. `on_fault` is given a sentence when the
        node has to stop.
        """
        self._directory = loaded.directory
        try:
            metadata_log = MetadataLog.open(loaded, log_config or MetadataLogConfig(), flusher, clock)
        except OSError as error:
            raise StartError(f"The metadata log in {loaded.directory} cannot be opened: {error}") from error
        config = raft or sole_voter(node_id, directory_id, cluster_id, endpoints)
        self.raft = RaftReplica(
            loaded, metadata_log, config, flusher, clock=clock, peers=peers or PeerSettings(client_id="raft-client")
        )
        self.raft.on_failed = lambda error: on_fault(f"The metadata log cannot be written any more: {error}")
        self.loader = MetadataLoader(loaded.image, on_fault)
        self.snapshotting = Snapshotting(loaded, self.loader, self.raft, clock, snapshots or SnapshotPolicy())
        self.controller = Controller(
            self.raft,
            self.loader,
            node_id=node_id,
            cluster_id=cluster_id,
            topic_configs=topic_configs,
            deciding=deciding,
            bootstrap_records=loaded.bootstrap_records,
            first_level=loaded.level,
            clock=clock,
        )
        self.local = LocalController(self.controller, self.loader, self.raft)
        to_leader = replace(peers or PeerSettings(), client_id=str(node_id))
        self.channel = ControllerChannel(self.local, self.raft, ControllerPeers(self.raft, to_leader))
        self.raft.register(self.loader)
        self.raft.register(self.controller)

    async def start(self) -> None:
        """Leads and takes commands, if this node is the whole quorum; otherwise the rest comes by itself."""
        try:
            await self.raft.start()
            if self.raft.is_alone:
                await self.controller.until_active()
        except (OSError, KafkaError) as error:
            reason = self.raft.failure or error
            raise StartError(f"The metadata log in {self._directory} cannot be written: {reason}") from error

    async def stop(self) -> None:
        """Writes what was decided, and closes the log."""
        await self.channel.close()
        await self.controller.stop()
        await self.raft.stop()
        await self.loader.stop()
        await self.snapshotting.stop()


def sole_voter(node_id: int, directory_id: Uuid, cluster_id: str, endpoints: Sequence[Endpoint]) -> RaftConfig:
    """A quorum of this node alone."""
    at = Endpoints.of((each.name, each.host, each.port) for each in endpoints)
    return RaftConfig(
        node_id=node_id,
        directory_id=directory_id,
        cluster_id=cluster_id,
        listener_name=endpoints[0].name,
        endpoints=at,
        static_voters=VoterSet([Voter(ReplicaKey(node_id), at)]),
    )
