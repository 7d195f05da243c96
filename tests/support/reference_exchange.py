"""One request, two servers, the decoded answers beside each other.

`differences` walks two answers and names the paths at which they differ. What no two clusters share (ids, times,
addresses) is compared only by whether it is set; error messages and documentation likewise, since ours are in our own
words. Lists of structs are put in the order of their names first: Kafka answers many in the order of a hash map.
"""

import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol, Self, TypeAlias

from barnabas.client.exchange import read_response, request_frame
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.wire.schema import Request, Response, Struct
from barnabas.wire.uuids import ZERO_UUID, Uuid

ANSWER_TIMEOUT_S = 20.0

OPAQUE = frozenset(
    {
        "cluster_id",
        "correlation_id",
        "directory_id",
        "documentation",
        "error_message",
        "batch_index_error_message",
        "finalized_features_epoch",
        "host",
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "last_timestamp",
        "log_append_time_ms",
        "log_dir",
        "port",
        "producer_id",
        "replica_directory_id",
        "session_id",
        "topic_id",
        "total_bytes",
        "usable_bytes",
    }
)
UNFORESEEN = -1  # Kafka met an exception that nobody foresaw: any error of ours will do
_NAMES = ("api_key", "feature", "resource_type", "resource_name", "name", "topic", "topic_name", "group_id", "log_dir")
_NUMBERS = ("partition_index", "partition", "index", "node_id", "broker_id", "replica_id", "producer_id")


class ConnectionClosed(Exception):
    """The server hung up instead of answering."""


class Connection:
    """Requests one after the other over one socket, opened when needed."""

    def __init__(self, host: str, port: int, client_id: str = "exchange") -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def ask(self, request: Request, version: int) -> Response:
        self.send(request, version)
        return self.receive(type(request), version)

    def send(self, request: Request, version: int) -> None:
        self._correlation_id += 1
        self.send_bytes(request_frame(request, version, self._correlation_id, self.client_id))

    def send_bytes(self, data: bytes | bytearray) -> None:
        if self._socket is None:
            self._socket = socket.create_connection((self.host, self.port), timeout=ANSWER_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.sendall(data)
        except ConnectionError as error:
            self.close()
            raise ConnectionClosed(str(error)) from None

    def receive(self, request: type[Request], version: int) -> Response:
        return read_response(request, version, self._correlation_id, self.receive_frame())

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive_exactly(self, size: int) -> bytes:
        assert self._socket is not None
        parts = bytearray()
        while len(parts) < size:
            try:
                data = self._socket.recv(size - len(parts))
            except ConnectionError:
                data = b""
            if not data:
                self.close()
                raise ConnectionClosed("the server closed the connection")
            parts += data
        return bytes(parts)


class Server(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


class Side(Connection):
    """A connection to one of the two servers, and the ids that only it knows."""

    def __init__(self, name: str, server: Server) -> None:
        host, _, port = server.bootstrap_servers.rpartition(":")
        super().__init__(host, int(port))
        self.name = name
        self.server = server

    def topic_id(self, topic: str) -> Uuid:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = self.ask(request, 12)
        assert isinstance(answer, MetadataResponse)
        assert answer.topics[0].error_code == 0, f"{topic} is not there: error {answer.topics[0].error_code}"
        return answer.topics[0].topic_id

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()],
        )
        answer: Any = self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000), 7)
        assert answer.topics[0].error_code == 0, f"{topic} was not created: {answer.topics[0].error_message}"
        self.wait_for_leaders(topic, partitions)

    def wait_until(self, request: Request, version: int, condition: Callable[[Any], bool], limit_s: float = 15) -> None:
        """Asks again and again until the answer is as it should be."""
        limit = time.monotonic() + limit_s
        while not condition(answer := self.ask(request, version)):
            assert time.monotonic() < limit, f"{self.name} still answers {answer!r}"
            time.sleep(0.002)

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Kafka lists a leader in the metadata before the partition is ready to serve: ask the partitions."""
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])

        def all_serve(answer: Any) -> bool:
            return not [part for part in answer.topics[0].partitions if part.error_code]

        self.wait_until(request, 8, all_serve)


Asked: TypeAlias = Request | Callable[[Side], Request]


def answer_of(side: Side, asked: Asked, version: int) -> Response | None:
    """The answer, or None where the server closed the connection instead."""
    try:
        return side.ask(asked(side) if callable(asked) else asked, version)
    except ConnectionClosed:
        return None


def differences(reference: Any, ours: Any, *, ignoring: Collection[str] = (), exact: Collection[str] = ()) -> list[str]:
    """One line per difference. `ignoring`: fields or dotted paths to leave out; `exact`: opaque ones to compare."""
    return list(_walk(reference, ours, "", frozenset(ignoring), OPAQUE - frozenset(exact)))


def _walk(a: Any, b: Any, path: str, ignoring: frozenset[str], opaque: frozenset[str]) -> Iterator[str]:
    if isinstance(a, Struct) and type(a) is type(b):
        if getattr(a, "error_code", 0) == UNFORESEEN and getattr(b, "error_code", 0):
            ignoring |= {"error_code", "error_message"}
        for name, value in vars(a).items():
            where = f"{path}.{name}".lstrip(".")
            plain = ".".join(part.partition("[")[0] for part in where.split("."))
            if name in ignoring or plain in ignoring:
                continue
            if name in opaque:
                if _is_set(name, value) != _is_set(name, getattr(b, name)):
                    yield f"{where}: Kafka has {value!r}, ours {getattr(b, name)!r}"
            elif name == "records":
                yield from _walk(whole_batches(value), whole_batches(getattr(b, name)), where, ignoring, opaque)
            else:
                yield from _walk(value, getattr(b, name), where, ignoring, opaque)
    elif isinstance(a, list) and isinstance(b, list):
        a, b = sorted(a, key=_order), sorted(b, key=_order)
        if [_order(item) for item in a] != [_order(item) for item in b]:
            yield f"{path}: Kafka has {_short(a)}, ours {_short(b)}"
            return
        for number, (left, right) in enumerate(zip(a, b, strict=True)):
            yield from _walk(left, right, f"{path}[{_label(left, number)}]", ignoring, opaque)
    elif _comparable(a) != _comparable(b):
        yield f"{path}: Kafka has {a!r}, ours {b!r}"


def whole_batches(records: Any) -> bytes | None:
    """Kafka cuts an answer inside a batch where the limit falls, ours ends with a batch: clients drop the rest."""
    if records is None:
        return None
    data = bytes(records)
    end = 0
    while end + 12 <= len(data):
        size = 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        if end + size > len(data):
            break
        end += size
    return data[:end]


def _is_set(name: str, value: Any) -> bool:
    return value not in (None, -1, "", ZERO_UUID) and not (name == "session_id" and value == 0)


def _comparable(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _order(item: Any) -> tuple[Any, ...]:
    if not isinstance(item, Struct):
        return (0, item) if not isinstance(item, str) else (0, 0, item)
    fields = vars(item)
    names = [str(fields[name] or "") for name in _NAMES if name in fields and name != "log_dir"]
    numbers = [fields[name] for name in _NUMBERS if name in fields and name not in OPAQUE]
    return (len(names), *names, *numbers)


def _label(item: Any, number: int) -> str:
    if isinstance(item, Struct):
        for name in (*reversed(_NAMES), *_NUMBERS):
            if name in vars(item) and name not in OPAQUE:
                return str(vars(item)[name])
    return str(number)


def _short(items: list[Any]) -> str:
    return str([_label(item, number) if isinstance(item, Struct) else item for number, item in enumerate(items)])
