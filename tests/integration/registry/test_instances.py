"""Several registries over one node: one is the primary, the others pass changes on, and kills change nothing of it."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from barnabas.testing.registry import Registry
from tests.support.service_cluster import ServiceCluster

# The shortest session that a broker takes by default.
GROUP = {"kafkagroup.session.timeout.ms": 6_000, "kafkagroup.heartbeat.interval.ms": 500}
INSTANCES = 3
KILLS = int(os.environ.get("BARNABAS_REGISTRY_KILLS", "1"))


@pytest.fixture
def instances(kafka: ServiceCluster, subject: str) -> Iterator[list[Registry]]:
    own = GROUP | {"kafkastore.topic": f"_{subject}", "schema.registry.group.id": subject}
    with ExitStack() as stack:
        yield [stack.enter_context(Registry(kafka.bootstrap_servers, own)) for _ in range(INSTANCES)]


def schema(name: str) -> dict[str, Any]:
    return {"type": "record", "name": "R", "doc": name, "fields": [{"name": "f", "type": "int", "default": 0}]}


def test_every_instance_takes_changes_and_knows_at_once_what_another_answered(
    instances: list[Registry], api_of: Any, subject: str
) -> None:
    apis = [api_of(each) for each in instances]
    for turn in range(12):
        writer, reader = apis[turn % INSTANCES], apis[(turn + 1) % INSTANCES]
        status, stored = writer.register(subject, schema(f"turn {turn}"))
        assert (status, stored.get("version")) == (200, turn + 1), stored
        assert reader("GET", f"/schemas/ids/{stored['id']}")[1]["schema"] == stored["schema"]
        assert reader("GET", f"/subjects/{subject}/versions/latest")[1]["id"] == stored["id"]
        assert reader("GET", f"/subjects/{subject}/versions")[1] == list(range(1, turn + 2))
    assert apis[0]("PUT", f"/config/{subject}", {"compatibility": "NONE"}) == (200, {"compatibility": "NONE"})
    assert apis[1]("GET", f"/config/{subject}") == (200, {"compatibilityLevel": "NONE"})
    assert apis[2]("DELETE", f"/subjects/{subject}/versions/1") == (200, 1)
    assert apis[1].register(subject, "{")[1]["error_code"] == 42201
    assert apis[0]("DELETE", f"/subjects/{subject}-nobody")[1]["error_code"] == 40401


class Story:
    """What was answered, by all who wrote."""

    def __init__(self) -> None:
        self.answered: list[tuple[str, str, dict[str, Any]]] = []
        self.refused = 0
        self.stop = threading.Event()


def write(story: Story, apis: list[Any], number: int) -> None:
    random = Random(number)
    turn = 0
    while not story.stop.is_set():
        turn += 1
        # Subjects and schemas meet between the writers.
        subject, name = f"s{random.randrange(6)}", f"{random.randrange(2)} {number * (turn % 3)} {turn}"
        try:
            status, body = random.choice(apis).register(subject, schema(name))
        except OSError:
            story.refused += 1
            continue
        if status == 200:
            story.answered.append((subject, json.dumps(schema(name), separators=(",", ":")), body))
        else:
            assert status == 500, body
            story.refused += 1


def check(story: Story, apis: list[Any]) -> None:
    """No id stands for two schemas, no schema has two ids, and all that was answered is there on every instance."""
    by_id: dict[int, str] = {}
    by_text: dict[str, int] = {}
    for _, text, body in story.answered:
        assert body["schema"] == text
        assert by_id.setdefault(body["id"], text) == text
        assert by_text.setdefault(text, body["id"]) == body["id"]
    for api in apis:
        for schema_id, text in by_id.items():
            assert api("GET", f"/schemas/ids/{schema_id}")[1]["schema"] == text
    for subject, text, body in story.answered:
        stored = apis[0]("GET", f"/subjects/{subject}/versions/{body['version']}")[1]
        assert (stored["schema"], stored["id"]) == (text, body["id"])


def test_kills_of_the_primary_neither_lose_nor_double_an_id(
    instances: list[Registry], api_of: Any, subject: str
) -> None:
    apis = [api_of(each) for each in instances]
    story = Story()
    writers = [threading.Thread(target=write, args=(story, apis, number), daemon=True) for number in range(4)]
    for each in writers:
        each.start()
    try:
        for _ in range(KILLS):
            wait_for_answers(story, 25)
            primary = min(instances, key=lambda each: each.url)  # by the rule of the election
            primary.kill()
            wait_for_answers(story, 10)  # by the next one
            primary.start()
    finally:
        wait_for_answers(story, 10)
        story.stop.set()
        for each in writers:
            each.join(60)
    assert len(story.answered) > 50
    check(story, apis)


def test_a_primary_that_slept_through_its_session_writes_nothing_stale(
    instances: list[Registry], api_of: Any, subject: str
) -> None:
    apis = {each.url: api_of(each) for each in instances}
    primary = min(instances, key=lambda each: each.url)
    others = [api_of(each) for each in instances if each is not primary]
    assert others[0].register(subject, schema("before"))[0] == 200
    os.kill(primary.pid, signal.SIGSTOP)
    answers: list[tuple[int, Any]] = []
    stuck = threading.Thread(target=lambda: answers.append(apis[primary.url].register(subject, schema("asleep"))))
    try:
        stuck.start()
        until = time.monotonic() + 40
        status, body = 500, None
        while status != 200 and time.monotonic() < until:
            status, body = others[0].register(subject, schema("meanwhile"))
        assert status == 200, body
    finally:
        os.kill(primary.pid, signal.SIGCONT)
        stuck.join(60)
    status, late = answers[0]
    if status == 200:
        assert (late["version"], late["id"]) == (3, body["id"] + 1)
    for api in apis.values():
        assert api("GET", f"/subjects/{subject}/versions/2")[1]["id"] == body["id"]


def wait_for_answers(story: Story, more: int) -> None:
    wanted, until = len(story.answered) + more, time.monotonic() + 60
    while len(story.answered) < wanted:
        assert time.monotonic() < until, f"{story.refused} refused"
        time.sleep(0.05)
