"""Where the time goes between the socket and the answer: requests on raw sockets, without a client's own time.

The same exchange with a server that only sends back what it gets says what sockets and the scheduler take alone, and
one that hands it on to everybody else says it of a delivery.
"""

import asyncio
import multiprocessing
import selectors
import socket
import statistics
import time
from multiprocessing.connection import Connection
from typing import ClassVar, cast

import uvloop

from barnabas.client.exchange import request_frame
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from benchmarks.case import Case, Figures, Settings, new_topic
from benchmarks.sides import Side
from tests.support.raw import RawClient

PRODUCE, FETCH = 12, 12  # the last versions that name topics
VALUE = b"x" * 100
PACE_S = 0.001
WAIT_S = 10.0
NEW_SESSION = 0


def path(side: Side, settings: Settings) -> Figures:
    topic = new_topic(side, "path")
    host, port = side.bootstrap_servers.split(":")
    assert host in ("127.0.0.1", "localhost")
    with RawClient(int(port)) as producer, RawClient(int(port)) as consumer:
        frame = produce_frame(topic)
        for _ in range(settings.path_warmups):
            round_trip_s(producer, frame)
        produced = [round_trip_s(producer, frame) for _ in range(settings.path_requests)]
        delivered = deliveries_s(producer, consumer, topic, frame, settings.path_requests)
    with Echo() as echo, RawClient(echo.port) as client:
        echoed = [round_trip_s(client, frame) for _ in range(settings.path_requests)]
        with RawClient(echo.port) as other:
            round_trip_s(other, frame)
            client.receive_frame()
            relayed = relays_s(client, other, frame, settings.path_requests)
    return {
        "path.produce": statistics.median(produced) * 1e3,
        "path.delivery": statistics.median(delivered) * 1e3,
        "path.echo": statistics.median(echoed) * 1e3,
        "path.relay": statistics.median(relayed) * 1e3,
    }


def round_trip_s(client: RawClient, frame: bytes) -> float:
    began = time.perf_counter()
    client.socket.sendall(frame)
    client.receive_frame()
    return time.perf_counter() - began


def deliveries_s(producer: RawClient, consumer: RawClient, topic: str, frame: bytes, count: int) -> list[float]:
    """From the produce request's first byte to the last of the answer to a fetch that waits for its record."""
    producer.socket.sendall(frame)
    offset = base_offset(producer) + 1
    session_id = begin_session(consumer, topic, offset)
    selector = selectors.DefaultSelector()
    selector.register(consumer.socket, selectors.EVENT_READ)
    took = []
    for number in range(count):
        consumer.socket.sendall(fetch_frame(topic, offset + number, session_id, number + 1))
        time.sleep(PACE_S)  # it waits
        began = time.perf_counter()
        producer.socket.sendall(frame)
        if not selector.select(WAIT_S):
            raise TimeoutError("a fetch was not answered")
        consumer.receive_frame()
        took.append(time.perf_counter() - began)
        producer.receive_frame()
    return took


def relays_s(sender: RawClient, receiver: RawClient, frame: bytes, count: int) -> list[float]:
    """As `deliveries_s`, with nothing between the two sockets but the event loop."""
    selector = selectors.DefaultSelector()
    selector.register(receiver.socket, selectors.EVENT_READ)
    took = []
    for _ in range(count):
        time.sleep(PACE_S)
        began = time.perf_counter()
        sender.socket.sendall(frame)
        if not selector.select(WAIT_S):
            raise TimeoutError("nothing was handed on")
        receiver.receive_frame()
        took.append(time.perf_counter() - began)
        sender.receive_frame()
    return took


def base_offset(producer: RawClient) -> int:
    answer = producer.receive_answer(ProduceRequest, PRODUCE, 1)
    offset: int = answer.responses[0].partition_responses[0].base_offset
    return offset


def begin_session(consumer: RawClient, topic: str, offset: int) -> int:
    consumer.socket.sendall(fetch_frame(topic, offset, NEW_SESSION, 0, max_wait_ms=1))
    session_id: int = consumer.receive_answer(FetchRequest, FETCH, 1).session_id
    return session_id


def produce_frame(topic: str) -> bytes:
    batch = build_batch([Record(offset=0, timestamp=int(time.time() * 1000), key=None, value=VALUE)])
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return bytes(request_frame(request, PRODUCE, 1, "path"))


def fetch_frame(topic: str, offset: int, session_id: int, epoch: int, max_wait_ms: int = 5_000) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return bytes(request_frame(request, FETCH, 1, "path"))


class Echo:
    """A process that sends back what it gets, to all others first, with the event loop that our node has."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._parent, child = context.Pipe()
        self._process = context.Process(target=_echo, args=(child,), daemon=True)

    def __enter__(self) -> "Echo":
        self._process.start()
        if not self._parent.poll(WAIT_S):
            raise TimeoutError("the echo does not begin")
        self.port: int = self._parent.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


class _EchoProtocol(asyncio.Protocol):
    connected: ClassVar[list[asyncio.Transport]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.connected.append(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connected.remove(self._transport)

    def data_received(self, data: bytes) -> None:
        for each in self.connected:
            if each is not self._transport:
                each.write(data)
        self._transport.write(data)


def _echo(parent: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_EchoProtocol, "127.0.0.1", 0, family=socket.AF_INET)
        parent.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


PATH_CASES = [Case("path", "from the socket to the answer", path)]
