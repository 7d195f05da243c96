"""What a decision may look at: the cluster as the active controller sees it, and how decisions are found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.liveness import Sessions, TopicRules
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.steps import Steps
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.raft.interface import Raft
from barnabas.node.raft.quorum import Quorum
from barnabas.node.requests import RequestContext


@dataclass(slots=True)
class Cluster:
    """`image` holds everything that was appended, committed or not, so the next decision builds on the last one."""

    cluster_id: str
    node_id: int
    image: MetadataImage
    topic_configs: TopicConfigs
    raft: Raft
    sessions: Sessions
    clock: Callable[[], int]

    def quorum(self) -> Quorum:
        return self.raft.quorum()

    @property
    def rules(self) -> TopicRules:
        def value(topic: str, key: str) -> Any:
            return self.topic_configs.values(self.image, topic)[key]

        return TopicRules(
            lambda topic: int(value(topic, "min.insync.replicas")),
            lambda topic: bool(value(topic, "unclean.leader.election.enable")),
        )

    def is_alone_with(self, broker_id: int) -> bool:
        """Whether this node is the quorum, and the broker in its process the only broker there is."""
        return broker_id == self.node_id and self.raft.is_alone and not self.image.brokers.keys() - {broker_id}

    @property
    def config(self) -> BrokerConfig:
        """That of this node, with what was changed while it ran."""
        return self.topic_configs.broker(self.image)


# A decision about many items is taken in steps, between which others are served.
Decide: TypeAlias = Callable[[RequestContext, Any, Cluster], ControllerDecision[Any] | Steps[ControllerDecision[Any]]]


class Deciding(NamedTuple):
    """How one API is decided. One that needs something from outside first awaits it in `prepare`, which gives the
    decision. What the quorum itself answers (changes of voters) is no decision: `ask_quorum` does it."""

    decide: Decide | None
    prepare: Callable[[RequestContext, Any], Awaitable[Decide]] | None = None
    ask_quorum: Callable[[RequestContext, Any, Cluster], Awaitable[Any]] | None = None

    async def prepared(self, context: RequestContext, request: Any) -> Decide:
        if self.prepare is not None:
            return await self.prepare(context, request)
        assert self.decide is not None
        return self.decide
