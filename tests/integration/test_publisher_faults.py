"""A node that cannot act on committed metadata stops: it never serves what it did not apply."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.core.metadata.state import MetadataDelta
from barnabas.node.configuration import BrokerConfig
from barnabas.node.node import Node
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest


def config(directory: Path) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "process.roles": "broker,controller",
            "log.dirs": str(directory),
        }
    )


def topic(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def test_a_publisher_that_fails_stops_the_node_with_a_sentence_and_the_next_start_applies_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        node = await Node.start(config(tmp_path))
        await node.broker.controller.request(topic("before"))

        async def broken(delta: MetadataDelta) -> None:
            raise RuntimeError("out of luck")

        node.member.loader.add_publisher("broken part", broken)
        with pytest.raises(KafkaError) as caught:
            await node.broker.controller.request(topic("orders"))
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        await asyncio.wait_for(node.failed.wait(), 10)
        assert "could not be applied by the broken part: RuntimeError('out of luck')" in node.failure
        await asyncio.wait_for(node.stop(), 20)

        again = await Node.start(config(tmp_path))
        try:
            assert set(again.broker.image.topics) == {"before", "orders"}
            assert again.broker.partitions.get("orders", 0) is not None
        finally:
            await again.stop()

    asyncio.run(story())


def test_a_start_that_fails_gives_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        from barnabas.node.broker.broker import Broker
        from barnabas.node.raft.errors import StartError

        async def broken(self: Broker, stack: object) -> None:
            raise OSError("no luck either")

        with monkeypatch.context() as patch:
            patch.setattr(Broker, "start", broken)
            with pytest.raises(StartError, match="The node cannot start: no luck either"):
                await Node.start(config(tmp_path))
        node = await Node.start(config(tmp_path))  # the locks and the ports are free again
        await node.stop()

    asyncio.run(story())
