"""Partitions with one replica on our broker and one on Apache Kafka's: either leads, either follows.

What was acknowledged stays, whichever of the two stops or is killed, and in the end both have the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.support import reference
from tests.support.replication.mixed import BOTH, KAFKAS, Mixed
from tests.support.replication.watching import Acknowledged, describe, read_all, wait_led
from tests.support.waiting import wait_until

PARTITIONS = 4
LOST = 5


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    mixed = Mixed(tmp_path_factory.mktemp("mixed"))
    try:
        mixed.start()
        yield mixed
    finally:
        mixed.close()


def kill_with_a_tail(mixed: Mixed, victim: int) -> None:
    """Kills the leader of a partition of "tails" right after it acknowledged records that its follower does not have.

    The follower's last fetch may still bring the first of them, since it waits at the leader already.
    """
    partition, other = BOTH.index(victim), next(each for each in BOTH if each != victim)
    assert describe(mixed, "tails")[partition].leader == victim
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{mixed.ports[victim]}", "acks": "1"})

    def produce(value: bytes) -> None:
        producer.produce("tails", value, partition=partition)
        assert producer.flush(60) == 0

    produce(b"before")
    wait_until(lambda: len(set(mixed.ends("tails", partition))) == 1, "it is copied")
    mixed.nodes[other].pause()
    try:
        for index in range(LOST):
            produce(b"tail-%d" % index)
        mixed.nodes[victim].kill()
    finally:
        mixed.nodes[other].resume()


@pytest.mark.timeout(300)
def test_either_stops_is_killed_and_cuts_its_log_when_it_comes_back(mixed: Mixed) -> None:
    mixed.create("records", PARTITIONS)
    mixed.create("tails", 2)
    with Acknowledged(mixed, "records", PARTITIONS) as producer:
        for victim in BOTH:
            producer.goes_on()
            mixed.nodes[victim].stop()
            wait_led(mixed, "records", by_none_of=[victim])
            producer.goes_on()
            mixed.nodes[victim].start()
            mixed.elect_preferred("records", "tails")
            producer.goes_on()
            kill_with_a_tail(mixed, victim)
            for topic in ("records", "tails"):
                wait_led(mixed, topic, by_none_of=[victim])
            producer.goes_on()
            kafkas, ours = mixed.ends("tails", BOTH.index(victim))
            assert (kafkas > ours) == (victim == KAFKAS), "who was killed has records that nobody else has"
            mixed.nodes[victim].start()
            mixed.elect_preferred("records", "tails")
    assert not producer.failed
    assert mixed.kafka.running, mixed.kafka.log()[-4000:]
    # A leader that was just elected may not know yet how far its log is committed, and shows less for a moment.
    wait_until(
        lambda: read_all(mixed, "records", PARTITIONS) == producer.acknowledged,
        "each record is there once, where it was acknowledged",
    )
    wait_until(lambda: list(read_all(mixed, "tails", 2).values()).count(b"before") == 2, "what was copied is there")
    tails = list(read_all(mixed, "tails", 2).values())
    assert b"tail-%d" % (LOST - 1) not in tails
    mixed.require_equal_logs("records", "tails")
