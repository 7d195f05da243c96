"""A topic's hash: the same with and without the short way of a cluster that has no racks."""

import time
from types import SimpleNamespace

from barnabas.core.groups.topic_hashes import topic_hash
from tests.unit.core.groups.consumer.consumers import cluster


def test_brokers_without_racks_count_as_no_racks() -> None:
    image = cluster(lines=300)
    plain = topic_hash(image.topics["lines"], image)
    image.brokers[1] = SimpleNamespace(rack=None)  # type: ignore[assignment]
    assert topic_hash(image.topics["lines"], image) == plain
    # A rack of a broker that has no replica makes the hash go the long way, to the same end.
    image.brokers[2] = SimpleNamespace(rack="r2")  # type: ignore[assignment]
    assert topic_hash(image.topics["lines"], image) == plain
    image.brokers[1] = SimpleNamespace(rack="r1")  # type: ignore[assignment]
    assert topic_hash(image.topics["lines"], image) != plain


def test_5000_partitions_are_hashed_in_a_moment() -> None:
    image = cluster(lines=5_000)
    topic = image.topics["lines"]
    took = []
    for _ in range(5):
        began = time.perf_counter()
        topic_hash(topic, image)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.002
