"""What the server asks of the cluster."""

from __future__ import annotations

import pytest

from barnabas.client.admin import topics
from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.sql.server import kafka
from barnabas.pipelines.sql.server.kafka import Kafka


def test_a_new_topic_is_waited_for_until_brokers_tell_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka's controller answers before its brokers know."""
    settings = ClientSettings.from_properties({}, bootstrap_servers="localhost:1")
    made: list[str] = []
    answers = iter([0, 0, 3])
    asked: list[str] = []

    def partitions(self: Kafka, topic: str) -> int:
        asked.append(topic)
        return next(answers)

    def create_topic(cluster: Cluster, name: str, **more: object) -> None:
        made.append(name)

    monkeypatch.setattr(topics, "create_topic", create_topic)
    monkeypatch.setattr(Kafka, "partitions", partitions)
    monkeypatch.setattr(kafka, "SEEN_PAUSE_S", 0.0)
    server = Kafka(settings)
    server.create_topic("new", 3, None, {})
    server.close()
    assert (made, asked) == (["new"], ["new", "new", "new"])
