"""The controller role of a node, as the handlers on the listeners of controllers see it."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.local import LocalController
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.raft.interface import Raft


class ControllerRole:
    def __init__(
        self,
        config: BrokerConfig,
        loader: MetadataLoader,
        raft: Raft,
        controller: LocalController,
        *,
        cluster_id: str,
        clock: Callable[[], int],
    ) -> None:
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.topic_configs = TopicConfigs(config)
        self.raft = raft
        self.controller = controller
        self.clock = clock
        self._loader = loader

    @property
    def image(self) -> MetadataImage:
        return self._loader.image

    @property
    def config(self) -> BrokerConfig:
        return self.topic_configs.broker(self.image)
