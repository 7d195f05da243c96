"""How many partitions internal topics get."""

from __future__ import annotations

import pytest

from barnabas.core.groups.streams.requests import topology_of
from barnabas.core.groups.streams.topology import ConfiguredTopology, StatusCode, configure
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, TopicInfo, Topology
from tests.unit.core.groups.consumer.consumers import cluster


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    return configure(topology_of(Topology(subtopologies=list(subtopologies))), 7, cluster(**topics))


def repartitioned(*names: str, partitions: int = 0) -> list[TopicInfo]:
    return [TopicInfo(name=name, partitions=partitions) for name in names]


def sizes(topology: ConfiguredTopology) -> dict[str, int]:
    return {name: topic.num_partitions for name, topic in topology.to_create.items()}


def test_a_chain_of_repartition_topics_gets_the_size_of_its_source() -> None:
    count = 2_000
    chain = [Subtopology(subtopology_id="0", source_topics=["a"], repartition_sink_topics=["r0"])]
    for number in range(1, count):
        sources, sinks = repartitioned(f"r{number - 1}"), [f"r{number}"] if number < count - 1 else []
        chain.append(
            Subtopology(subtopology_id=str(number), repartition_source_topics=sources, repartition_sink_topics=sinks)
        )
    assert set(sizes(configured(*reversed(chain), a=5)).values()) == {5}


def test_joined_topics_of_different_sizes_are_refused() -> None:
    joined = Subtopology(
        subtopology_id="0", source_topics=["a", "b"], copartition_groups=[CopartitionGroup(source_topics=[0, 1])]
    )
    found = configured(joined, a=2, b=3)
    assert found.problem is not None
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert found.problem.detail == "Following topics do not have the same number of partitions: [{a=2, b=3}]"


def test_a_repartition_topic_follows_the_topic_it_is_joined_with() -> None:
    writer = Subtopology(subtopology_id="0", source_topics=["a"], repartition_sink_topics=["r"])
    reader = Subtopology(
        subtopology_id="1",
        source_topics=["b"],
        repartition_source_topics=repartitioned("r"),
        copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
    )
    assert sizes(configured(writer, reader, a=2, b=6)) == {"r": 6}
    reader.repartition_source_topics = repartitioned("r", partitions=3)
    problem = configured(writer, reader, a=2, b=6).problem
    assert problem is not None
    assert problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


@pytest.mark.parametrize(
    "wrong",
    [
        [Subtopology(subtopology_id="0")],
        [Subtopology(subtopology_id="0", repartition_source_topics=repartitioned("r"))],
        [Subtopology(subtopology_id="0", repartition_source_topics=repartitioned("r"), repartition_sink_topics=["r"])],
        [
            Subtopology(
                subtopology_id="0", source_topics=["a"], copartition_groups=[CopartitionGroup(source_topics=[1])]
            )
        ],
        [Subtopology(subtopology_id="0", source_topics=["a"]), Subtopology(subtopology_id="0", source_topics=["a"])],
    ],
)
def test_a_topology_that_no_topics_could_make_right_is_refused(wrong: list[Subtopology]) -> None:
    with pytest.raises(KafkaError) as refused:
        configured(*wrong, a=1)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
