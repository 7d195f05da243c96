"""The cluster that tests of services run over: a node of ours, or Apache Kafka with BARNABAS_ON_APACHE=1."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import pytest

from barnabas.testing import Node
from tests.support import reference

ON_APACHE = os.environ.get("BARNABAS_ON_APACHE") == "1"
CONFIG = {"group.initial.rebalance.delay.ms": "0"}


class ServiceCluster(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None: ...


class ApacheCluster:
    def __init__(self, kafka: reference.ApacheKafka) -> None:
        self.bootstrap_servers = kafka.bootstrap_servers

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        from barnabas.client.admin.topics import create_topic
        from barnabas.client.cluster import Cluster
        from barnabas.client.settings import ClientSettings

        configs = {key: str(value) for key, value in (config or {}).items()}
        with Cluster(ClientSettings.from_properties({}, bootstrap_servers=self.bootstrap_servers)) as cluster:
            create_topic(cluster, name, partitions=partitions, replication_factor=1, configs=configs)


@contextmanager
def service_cluster() -> Iterator[ServiceCluster]:
    if not ON_APACHE:
        with Node(CONFIG) as node:
            yield node
        return
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties=CONFIG) as kafka:
        yield ApacheCluster(kafka)
