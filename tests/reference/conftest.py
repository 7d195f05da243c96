"""Apache Kafka and our node side by side, and one request for both.

With BARNABAS_TRANSCRIPT=FILE only Apache Kafka is asked and its answers are written to the file: how to find out what
the reference does.
"""

import itertools
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barnabas.testing import reference
from barnabas.testing.reference_exchange import Asked, Side, answer_of, differences
from barnabas.wire.schema import Request, Response

T = TypeVar("T")

TRANSCRIPT = os.environ.get("BARNABAS_TRANSCRIPT")
# Both sides alike: the ids of single nodes, no topic by accident, quick expiry nowhere.
PROPERTIES = {"node.id": "1", "auto.create.topics.enable": "false"}


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[reference.ApacheKafka]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties=PROPERTIES) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def barnabas_node() -> Iterator[Any]:
    from barnabas.testing import Node

    with Node(PROPERTIES) as node:
        yield node


class Both:
    """Asks both servers the same and compares."""

    _numbers = itertools.count(1)

    def __init__(self, kafka: Side, ours: Side | None, name: str) -> None:
        self.kafka = kafka
        self.ours = ours
        self._name = name

    @property
    def sides(self) -> list[Side]:
        return [side for side in (self.kafka, self.ours) if side is not None]

    def same(
        self, asked: Asked, version: int, *, ignoring: Collection[str] = (), exact: Collection[str] = ()
    ) -> Response | None:
        """Asks both and fails on a difference; returns Apache Kafka's answer, None where it closed the connection."""
        answer = answer_of(self.kafka, asked, version)
        self._note(asked, version, answer)
        if self.ours is not None:
            found = differences(answer, answer_of(self.ours, asked, version), ignoring=ignoring, exact=exact)
            assert not found, "\n".join(["answers differ:", *found])
        return answer

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic on both, under the same name; configs with underscores for dots."""
        name = f"topic-{next(self._numbers)}"
        for side in self.sides:
            side.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    def new_name(self, prefix: str = "topic") -> str:
        return f"{prefix}-{next(self._numbers)}"

    def note(self, text: str) -> None:
        if TRANSCRIPT:
            with open(TRANSCRIPT, "a") as transcript:
                transcript.write(f"{text}\n")

    def _note(self, asked: Asked, version: int, answer: Response | None) -> None:
        if TRANSCRIPT:
            request = asked if isinstance(asked, Request) else asked(self.kafka)
            self.note(f"[{self._name}] v{version} {request!r}\n    -> {answer!r}")


@pytest.fixture
def both(apache_kafka: reference.ApacheKafka, request: pytest.FixtureRequest) -> Iterator[Both]:
    kafka = Side("Apache Kafka", apache_kafka)
    ours = None if TRANSCRIPT else Side("Barnabas", request.getfixturevalue("barnabas_node"))
    name = f"{Path(str(request.node.path)).stem}::{request.node.name}"
    asked = Both(kafka, ours, name)
    yield asked
    for side in asked.sides:
        side.close()
