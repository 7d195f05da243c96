"""What a driver reports, without Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable
from barnabas.pipelines.running import driver as drivers
from barnabas.pipelines.running.driver import Driver
from barnabas.pipelines.running.failures import Failure
from barnabas.pipelines.running.launch import Launch
from barnabas.pipelines.spark import patience
from barnabas.pipelines.streams.errors import StateUnreachable, TopicMissing

Reports = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def pipe() -> Iterator[tuple[int, Reports]]:
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    yield writes, lambda: [json.loads(line) for line in os.read(reads, 65536).splitlines()]
    os.close(reads)


@pytest.fixture
def driver(pipe: tuple[int, Reports]) -> Iterator[Driver]:
    made = Driver(Launch(name="plant", app="a.py", checkpoints="c", drain_file="d", report_descriptor=pipe[0]))
    yield made
    made._reports.close()


def test_a_foreign_checkpoint_is_told_with_the_command_that_deletes_it(
    driver: Driver, pipe: tuple[int, Reports]
) -> None:
    driver._fail(Failure("the checkpoint belongs to another topology", True, foreign_checkpoint=True))
    (told,) = pipe[1]()
    assert told["failure"]["sentence"] == (
        "the checkpoint belongs to another topology; `barnabas pipeline reset plant` deletes it and begins anew"
    )


@pytest.mark.parametrize("resumed", [False, True])
def test_a_pipeline_that_ran_waits_for_the_storage_of_its_checkpoint(pipe: tuple[int, Reports], resumed: bool) -> None:
    launch = Launch(
        name="plant", app="a.py", checkpoints="c", drain_file="d", report_descriptor=pipe[0], resumed=resumed
    )
    driver = Driver(launch)
    driver._file_failed(StateUnreachable("state can't be read from s3a://b/c: no answer"))
    (told,) = pipe[1]()
    assert told["failure"]["final"] is not resumed
    driver._reports.close()


def test_what_is_not_there_is_looked_for_again_and_told_once_for_each_thing(
    driver: Driver, pipe: tuple[int, Reports], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "WAIT_S", 0.001)
    monkeypatch.setattr(patience, "wait", driver._wait_for)
    missing = [TopicMissing("no lines"), TopicMissing("no lines"), BrokerUnreachable("no broker")]

    def look() -> str:
        if missing:
            raise missing.pop(0)
        return "found"

    assert patience.until_there(look) == "found"
    assert pipe[1]() == [{"waits_for": "no lines"}, {"waits_for": "no broker"}]


def test_what_does_not_heal_is_not_waited_for_and_a_stop_ends_the_waiting(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthenticationFailed):
        driver._wait_for(AuthenticationFailed("no password"))
    driver._stop_asked.set()
    with pytest.raises(KeyboardInterrupt):
        driver._wait_for(TopicMissing("no lines"))


def test_a_program_of_the_user_s_own_gets_the_error() -> None:
    def look() -> None:
        raise TopicMissing("no lines")

    with pytest.raises(TopicMissing, match="no lines"):
        patience.until_there(look)
