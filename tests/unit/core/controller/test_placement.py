import itertools
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.controller.placement import place_replicas
from barnabas.core.metadata.state import BrokerState, MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import ZERO_UUID, Uuid

Cluster = Callable[..., MetadataImage]


def place(image: MetadataImage, partitions: int, replicas: int, seed: int = 0) -> list[list[int]]:
    return place_replicas(image.brokers.values(), partitions, replicas, Random(seed))


def test_one_broker_takes_everything(cluster: Cluster) -> None:
    assert place(cluster([7]), 3, 1) == [[7], [7], [7]]


def test_each_partition_begins_one_broker_further_on(cluster: Cluster) -> None:
    placed = place(cluster([1, 2, 3]), 3, 3)
    leaders = [replicas[0] for replicas in placed]
    assert sorted(leaders) == [1, 2, 3]
    steps = {(second - first) % 3 for first, second in itertools.pairwise(leaders)}
    assert steps == {1}
    for replicas in placed:
        assert [(replica - replicas[0]) % 3 for replica in replicas] == [0, 1, 2]


def test_replicas_of_a_partition_are_in_different_racks(cluster: Cluster) -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    placed = place(cluster(range(1, 7), racks=racks), 60, 3)
    assert all({racks[replica] for replica in replicas} == {"a", "b", "c"} for replicas in placed)
    assert Counter(itertools.chain(*placed)) == dict.fromkeys(range(1, 7), 30)


def test_with_more_replicas_than_racks_each_rack_has_its_share(cluster: Cluster) -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    for replicas in place(cluster(range(1, 5), racks=racks), 20, 3):
        assert sorted(Counter(racks[replica] for replica in replicas).values()) == [1, 2]


def test_leaders_are_spread_evenly(cluster: Cluster) -> None:
    leaders = Counter(replicas[0] for replicas in place(cluster(range(1, 6)), 100, 2))
    assert leaders == dict.fromkeys(range(1, 6), 20)


@pytest.mark.parametrize("seed", range(5))
def test_a_fenced_broker_never_leads_and_is_taken_only_if_needed(cluster: Cluster, seed: int) -> None:
    image = cluster([1, 2, 3, 4], fenced=[2], leaving=[3])
    assert all(set(replicas) == {1, 4} for replicas in place(image, 10, 2, seed))
    for replicas in place(image, 10, 4, seed):
        assert sorted(replicas) == [1, 2, 3, 4]
        assert replicas[0] in (1, 4)


def test_a_rack_with_only_fenced_brokers_gives_followers(cluster: Cluster) -> None:
    image = cluster([1, 2], racks={1: "a", 2: "b"}, fenced=[1])
    assert place(image, 4, 2) == [[2, 1]] * 4


def test_more_replicas_than_brokers_are_refused(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as caught:
        place(cluster([1, 2]), 1, 3)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_cluster_of_fenced_brokers_takes_nothing(cluster: Cluster) -> None:
    for image in (cluster([1, 2], fenced=[1, 2]), cluster([])):
        with pytest.raises(KafkaError) as caught:
            place(image, 1, 1)
        assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_broker_whose_directories_are_all_cordoned_off_takes_nothing() -> None:
    directory = Uuid(b"d" * 16)
    cordoned = BrokerState(id=1, epoch=0, incarnation_id=ZERO_UUID, log_dirs=[directory], cordoned_log_dirs=[directory])
    open_one = BrokerState(id=2, epoch=0, incarnation_id=ZERO_UUID, log_dirs=[directory], cordoned_log_dirs=[])
    assert place_replicas([cordoned, open_one], 2, 1, Random(0)) == [[2], [2]]


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12),
    fenced=st.sets(st.integers(0, 11)),
    partitions=st.integers(1, 40),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_whatever_the_cluster_no_broker_is_taken_twice_and_an_active_one_leads(
    racks: list[str | None], fenced: set[int], partitions: int, seed: int, data: st.DataObject
) -> None:
    brokers = [
        BrokerState(id=number, epoch=0, incarnation_id=ZERO_UUID, rack=rack, fenced=number in fenced)
        for number, rack in enumerate(racks)
    ]
    active = {broker.id for broker in brokers if not broker.fenced}
    factor = data.draw(st.integers(1, len(brokers)))
    if not active:
        return
    for replicas in place_replicas(brokers, partitions, factor, Random(seed)):
        assert len(replicas) == len(set(replicas)) == factor
        assert replicas[0] in active
        if factor <= len({broker.rack for broker in brokers}):
            assert len({brokers[replica].rack for replica in replicas}) == factor
