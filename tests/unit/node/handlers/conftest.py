"""A node of which only metadata, controller and configuration exist, and callers who may not do everything."""

from collections.abc import Callable, Coroutine, Generator, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.core.security.model import Operation, Resource, ResourceType
from barnabas.node.broker.metadata_cache import MetadataCache
from barnabas.node.controller.decisions import deciding
from barnabas.node.requests import ListenerKind, RequestContext, Session
from barnabas.node.turns import step_in_turns
from barnabas.wire.records.metadata import (
    BrokerEndpoint,
    ControllerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from barnabas.wire.uuids import Uuid

DIRECTORY = Uuid(b"d" * 16)


class FakeController:
    """Decides and commits in one breath."""

    def __init__(self, node: Any) -> None:
        self.node = node

    async def execute(self, context: RequestContext, request: Any) -> Any:
        decision = deciding(context.api_key).decide(context, request, self.node)  # type: ignore[misc]
        if isinstance(decision, Generator):
            decision = await step_in_turns(decision)
        self.node.image.replay_all(decision.records)
        self.node.image.offset += len(decision.records)
        return decision.response


class LimitedAccess:
    """Denies what it is told to deny."""

    def __init__(self, denied: Iterable[tuple[Operation, str]]) -> None:
        self._denied = set(denied)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        return (operation, resource.name) not in self._denied

    would_allow = allows

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        return True


def make_context(
    api_key: int,
    version: int,
    *denied: tuple[Operation, str],
    kind: ListenerKind = ListenerKind.BROKER,
    listener: str = "PLAINTEXT",
) -> RequestContext:
    session = Session(
        listener=listener,
        kind=kind,
        security_protocol=0,
        client_host="127.0.0.1",
        client_port=1,
        routes={},
        access=LimitedAccess(denied),
    )
    return RequestContext(session, api_key, version, 7, "test")


@pytest.fixture
def context() -> Callable[..., RequestContext]:
    return make_context


@pytest.fixture
def node() -> Any:
    """One broker and one controller, and the topics a (2 partitions), b (3) and c (1)."""
    image = MetadataImage()
    broker = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)
    controller = ControllerEndpoint(name="CONTROLLER", host="localhost", port=9093)
    image.replay(RegisterBrokerRecord(broker_id=1, fenced=False, end_points=[broker], log_dirs=[DIRECTORY], rack=None))
    image.replay(RegisterControllerRecord(controller_id=1, end_points=[controller]))
    for number, (name, partitions) in enumerate({"a": 2, "b": 3, "c": 1}.items(), 1):
        topic_id = Uuid(number.to_bytes(16, "big"))
        image.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in range(partitions):
            record = PartitionRecord(
                topic_id=topic_id,
                partition_id=index,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY],
            )
            image.replay(record)
    image.offset = 10
    node = SimpleNamespace(
        node_id=1,
        cluster_id="cluster",
        image=image,
        raft=SimpleNamespace(leader_id=1),
        metadata_cache=MetadataCache(1, "cluster"),
        config=SimpleNamespace(
            listeners=(),
            auto_create_topics_enable=True,
            delete_topic_enable=True,
            max_request_partition_size_limit=2000,
            barnabas_answer_max_bytes=1 << 20,
        ),
    )
    node.controller = FakeController(node)
    return node


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a handler that must not wait for anything but its turn."""

    def to_the_end(handler: Coroutine[Any, Any, Any]) -> Any:
        try:
            while handler.send(None) is None:
                pass
        except StopIteration as finished:
            return finished.value
        raise AssertionError("the handler waits")

    return to_the_end
