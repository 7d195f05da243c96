"""Registries cut off from Kafka while clients still reach them: `make soak-registry`.

A primary whose requests do not arrive, one whose answers do not come back, and one that is cut off both ways: another
is elected while the first still believes in itself. No id may stand for two schemas, and nothing that was answered may
be lost.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.testing.links import Links
from barnabas.testing.registry import Registry
from barnabas.testing.reserved_port import HOST, ReservedPort
from tests.integration.registry.test_instances import GROUP, INSTANCES, Story, check, wait_for_answers, write

SPLITS = int(os.environ.get("BARNABAS_REGISTRY_SPLITS", "0"))
SEED = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 1_000_000)))
KAFKA = 0
CUTS: dict[str, tuple[bool, bool]] = {"both ways": (True, True), "there": (True, False), "back": (False, True)}

pytestmark = pytest.mark.skipif(not SPLITS, reason="BARNABAS_REGISTRY_SPLITS says how many splits")


@pytest.fixture
def split() -> Iterator[tuple[list[Registry], Links]]:
    """Instances 1, 2 and 3 that reach Kafka through relays."""
    port = ReservedPort()
    instances: list[Registry] = []
    links = Links(lambda: {number: each.pid for number, each in enumerate(instances, 1) if each._process is not None})
    relay = links.add(KAFKA, port.number)
    config = {"advertised.listeners": f"PLAINTEXT://{HOST}:{relay}", "group.initial.rebalance.delay.ms": 0}
    with ExitStack() as stack:
        stack.callback(port.release)
        stack.callback(links.close)
        stack.enter_context(Node(config, port=port.number))
        for _ in range(INSTANCES):
            instances.append(stack.enter_context(Registry(f"{HOST}:{relay}", GROUP)))
        yield instances, links


def primary_of(apis: list[Any]) -> int:
    """The number of the instance that all others that answer call the primary."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for number, api in enumerate(apis, 1):
            if "barnabas_registry_primary 1\n" in api.text("/metrics"):
                return number
        time.sleep(0.1)
    raise AssertionError("no instance says that it is the primary")


def test_splits_neither_lose_nor_double_an_id(split: tuple[list[Registry], Links], api_of: Any) -> None:
    instances, links = split
    random = Random(SEED)
    apis = [api_of(each) for each in instances]
    story = Story()
    writers = [threading.Thread(target=write, args=(story, apis, number), daemon=True) for number in range(4)]
    for each in writers:
        each.start()
    try:
        for turn in range(SPLITS):
            wait_for_answers(story, 25)
            number, how = primary_of(apis), random.choice(list(CUTS))
            there, back = CUTS[how]
            print(f"split {turn}: instance {number} is cut off, {how}; seed {SEED}", flush=True)
            if there:
                links.cut(number, KAFKA)
            if back:
                links.cut(KAFKA, number)
            wait_for_answers(story, 10)  # by the next one
            for source, target in links.cuts:
                links.heal(source, target)
    finally:
        for source, target in links.cuts:
            links.heal(source, target)
        wait_for_answers(story, 10)
        story.stop.set()
        for each in writers:
            each.join(60)
    assert not any(each.is_alive() for each in writers)
    print(f"{len(story.answered)} answered, {story.refused} refused", flush=True)
    check(story, apis)
