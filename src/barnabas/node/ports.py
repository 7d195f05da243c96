"""What handlers and coordinators see of a node: small protocols, a few nouns each.

Nobody but the assembly knows the whole. A test gives a handler just what its protocol names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.core.metadata.state import MetadataImage
    from barnabas.node.broker.automatic_topics import AutomaticTopics
    from barnabas.node.broker.channel import ToController
    from barnabas.node.broker.coordinators.groups import GroupCoordinator
    from barnabas.node.broker.fetch_sessions import FetchSessions
    from barnabas.node.broker.metadata_cache import MetadataCache
    from barnabas.node.broker.partitions import Partitions
    from barnabas.node.broker.producer_ids import ProducerIds
    from barnabas.node.broker.recompression import Recompression
    from barnabas.node.broker.replica_moves import ReplicaMoves
    from barnabas.node.broker.replication.peers import Peers
    from barnabas.node.broker.replication.throttles import Throttles
    from barnabas.node.broker.shares.coordinator import ShareCoordinator
    from barnabas.node.broker.shares.partitions import SharePartitions
    from barnabas.node.broker.shares.persister import Persister
    from barnabas.node.broker.transactions.coordinator import TransactionCoordinator
    from barnabas.node.configuration import BrokerConfig
    from barnabas.node.configuration.topics import TopicConfigs
    from barnabas.node.raft.interface import Raft
    from barnabas.node.storage.directory.log_dirs import LogDirs


class Metadata(Protocol):
    """Who this node is, and the cluster as it knows it: committed, and applied here."""

    @property
    def node_id(self) -> int: ...

    @property
    def cluster_id(self) -> str: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def topic_configs(self) -> TopicConfigs: ...

    @property
    def raft(self) -> Raft: ...

    def clock(self) -> int:
        """Milliseconds since 1970."""
        ...


class Topics(Metadata, Protocol):
    """Topics as clients are told of them, and those that come into being by being asked for."""

    @property
    def metadata_cache(self) -> MetadataCache: ...

    @property
    def automatic_topics(self) -> AutomaticTopics: ...


class Logs(Metadata, Protocol):
    """The partitions of this node, and where they lie."""

    @property
    def partitions(self) -> Partitions: ...

    @property
    def log_dirs(self) -> LogDirs: ...

    @property
    def recompression(self) -> Recompression: ...


class Groups(Metadata, Protocol):
    """The groups that this node coordinates."""

    @property
    def groups(self) -> GroupCoordinator: ...


class StreamsGroups(Groups, Protocol):
    """Streams groups, and the internal topics that they need."""

    @property
    def automatic_topics(self) -> AutomaticTopics: ...


class Neighbourhood(Metadata, Protocol):
    """The way to other brokers."""

    @property
    def peers(self) -> Peers: ...


class Transactions(Neighbourhood, Protocol):
    """The transactions that this node coordinates."""

    @property
    def transactions(self) -> TransactionCoordinator: ...


class Coordinators(Groups, Transactions, Protocol):
    """Both coordinators."""


class Producing(Logs, Transactions, Protocol):
    """What a write needs."""


class Consuming(Logs, Protocol):
    """What a fetch needs."""

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def throttles(self) -> Throttles: ...


class Moves(Logs, Protocol):
    """Replicas that change their directory."""

    @property
    def replica_moves(self) -> ReplicaMoves: ...


class Forwarding(Metadata, Protocol):
    """The way to the active controller."""

    @property
    def controller(self) -> ToController: ...


class Shares(Logs, Groups, Neighbourhood, Protocol):
    """Share groups: their partitions here, and what the share coordinator knows of them."""

    @property
    def share_coordinator(self) -> ShareCoordinator: ...

    @property
    def persister(self) -> Persister: ...

    @property
    def share_partitions(self) -> SharePartitions: ...


class Finding(Coordinators, Protocol):
    """All coordinators."""

    @property
    def share_coordinator(self) -> ShareCoordinator: ...


class Marking(Logs, Groups, Protocol):
    """What a transaction's marker needs."""


class EndingTransactions(Marking, Transactions, Protocol):
    """Markers that another coordinator asks for."""


class Coordinating(Marking, Neighbourhood, Protocol):
    """What a coordinator needs."""

    @property
    def automatic_topics(self) -> AutomaticTopics: ...

    @property
    def producer_ids(self) -> ProducerIds: ...


class BrokerPorts(Topics, Coordinating, Shares, Finding, Producing, Consuming, Moves, Forwarding, Protocol):
    """Everything that the handlers of a broker see."""
