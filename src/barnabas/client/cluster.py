"""A cluster as its clients see it: any broker, a certain one, the leader of a partition, the coordinator of a key.

Connects when first asked, keeps connections by node, and asks again, with pauses and within `default.api.timeout.ms`,
when a broker goes away or says that somebody else is in charge. While nobody has ever answered it fails at once: then
the address is wrong or nothing runs there. Blocking, and for one thread at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from barnabas.client.backoff import Backoff
from barnabas.client.connection import Connection
from barnabas.client.errors import BrokerUnreachable, Refused, TimedOut, known_code
from barnabas.client.metadata import (
    NO_LEADER,
    BrokerNode,
    ClusterMetadata,
    OffsetAt,
    TopicMetadata,
    TopicPartition,
    metadata_from,
)
from barnabas.client.protocol import api_name
from barnabas.client.settings import ClientSettings, show_address
from barnabas.wire.errors import ErrorCode
from barnabas.wire.schema import Request, Struct
from barnabas.wire.uuids import ZERO_UUID

if TYPE_CHECKING:
    import ssl

CoordinatorKind = Literal["group", "transaction"]
KEY_TYPES: Mapping[CoordinatorKind, int] = {"group": 0, "transaction": 1}
NOT_HERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
NOT_YET = NOT_HERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# A broker may hear of a topic a moment after it was created.
UNKNOWN_TOPIC_PATIENCE_MS = 500


BRISK_PAUSE_MS = 2.0


class Attempts:
    """Tries until a deadline, with pauses that grow from `retry.backoff.ms` to `retry.backoff.max.ms`."""

    def __init__(self, settings: ClientSettings, timeout_ms: int | None = None) -> None:
        self.timeout_ms = settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self.deadline = time.monotonic() + self.timeout_ms / 1000
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)

    @classmethod
    def brisk(cls, settings: ClientSettings) -> Self:
        """For what is over in milliseconds as a rule: the pauses begin with two."""
        attempts = cls(settings)
        attempts._backoff = Backoff(BRISK_PAUSE_MS, min(settings.retry_backoff_ms, settings.retry_backoff_max_ms))
        return attempts

    def pause(self) -> bool:
        """Waits before the next try; false if there is no time for one."""
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(self._backoff.fail(), left_s))
        return True


class Cluster:
    def __init__(self, settings: ClientSettings, *, controllers: bool = False) -> None:
        """With `controllers`, the bootstrap servers are controllers and so are the nodes that are talked to."""
        self.settings = settings
        self._controllers = controllers
        self._brokers: dict[int, BrokerNode] = {}
        self._controller_id = -1
        self._topics: dict[str, TopicMetadata] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._by_node: dict[int, Connection] = {}
        self._bootstrap: Connection | None = None
        self._tls: ssl.SSLContext | None = None
        self.ever_connected = False

    def ask(self, request: Request, *, version: int | None = None, timeout_ms: int | None = None) -> Any:
        """The answer of any broker that can be reached."""
        return self._ask(self.any_connection, request, version, timeout_ms)

    def ask_node(
        self, node_id: int, request: Request, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        return self._ask(lambda: self.connection(node_id), request, version, timeout_ms)

    def ask_controller(self, request: Request, *, version: int | None = None, timeout_ms: int | None = None) -> Any:
        attempts = Attempts(self.settings)
        while True:
            if self._controller_id < 0:
                self._refresh_nodes()
            answer = self._ask(self._controller_connection, request, version, timeout_ms, attempts)
            if ErrorCode.NOT_CONTROLLER not in error_codes(answer):
                return answer
            self._controller_id = -1
            if not attempts.pause():
                raise TimedOut(f"No node became the controller within {attempts.timeout_ms} ms.")

    def ask_leader(
        self,
        topic: str,
        partition: int,
        request: Request,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Asks again where the answer says that the leader is another; other errors in it are the caller's."""
        attempts = Attempts(self.settings)
        while True:
            leader = self.leader(topic, partition, attempts)
            try:
                answer = self.connection(leader).request(request, version, timeout_ms)
                moved = LEADER_MOVED.intersection(error_codes(answer))
                if not moved:
                    return answer
                why = min(moved).name
            except (BrokerUnreachable, TimedOut) as error:
                why = str(error)
            self.forget_leader(topic)
            if not attempts.pause():
                raise TimedOut(f"The leader of {topic}-{partition} did not take {api_name(type(request))}: {why}")

    def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Request,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
        within_ms: int | None = None,
    ) -> Any:
        """Waits for a coordinator that is being found or loads; other errors in the answer are the caller's.

        `timeout_ms` is for one answer (request.timeout.ms), `within_ms` for all tries (default.api.timeout.ms).
        """
        attempts = Attempts(self.settings, within_ms)
        while True:
            node_id = self.coordinator(kind, key, attempts)
            try:
                answer = self.connection(node_id).request(request, version, timeout_ms)
                problem = NOT_YET.intersection(error_codes(answer))
                if not problem:
                    return answer
                why = min(problem).name
            except (BrokerUnreachable, TimedOut) as error:
                problem, why = NOT_HERE, str(error)
            if NOT_HERE & problem:
                self._coordinators.pop((kind, key), None)
            if not attempts.pause():
                raise TimedOut(f"The coordinator of {kind} {key} did not take {api_name(type(request))}: {why}")

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        allow_auto_topic_creation: bool = False,
        timeout_ms: int | None = None,
    ) -> ClusterMetadata:
        """All topics, or those named (none of them: brokers only). A topic's own error is in its entry."""
        from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=allow_auto_topic_creation)
        answer = self._ask(self.any_connection, request, None, None, Attempts(self.settings, timeout_ms))
        if answer.error_code:
            raise Refused(answer.error_code, "The cluster's metadata was refused")
        found = metadata_from(answer)
        self._learn(found.brokers, found.controller_id)
        self._topics.update(found.topics)
        return found

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAt]:
        """Offsets at timestamps, or at -1 the end, -2 the start, -3 the record with the greatest timestamp."""
        attempts = Attempts(self.settings)
        found: dict[TopicPartition, OffsetAt] = {}
        missing = dict(wanted)
        self.know_topics({topic for topic, _ in missing})
        while missing:
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for (topic, partition), timestamp in missing.items():
                leader = self.leader(topic, partition, attempts)
                by_leader.setdefault(leader, {})[topic, partition] = timestamp
            for leader, asked in by_leader.items():
                found |= self._list_offsets_of(leader, asked, isolation)
            missing = {partition: at for partition, at in missing.items() if partition not in found}
            if missing:
                names = [f"{topic}-{partition}" for topic, partition in missing]
                for topic in {topic for topic, _ in missing}:
                    self.forget_leader(topic)
                if not attempts.pause():
                    raise TimedOut(
                        f"The leader of {', '.join(names)} did not list offsets in {attempts.timeout_ms} ms."
                    )
        return found

    def connection(self, node_id: int) -> Connection:
        """The connection to a node, made if there is none. Several requests may be in flight on it."""
        known = self._by_node.get(node_id)
        if known is None or known.closed:
            known = self._by_node[node_id] = self.new_connection(node_id)
        return known

    def new_connection(self, node_id: int) -> Connection:
        """One of the caller's own, who closes it: for answers that are long in coming."""
        if node_id not in self._brokers:
            self._refresh_nodes()
        broker = self._brokers.get(node_id)
        if broker is None:
            nodes = ", ".join(map(str, sorted(self._brokers))) or "none"
            raise BrokerUnreachable(f"Node {node_id} is not there; the cluster consists of: {nodes}.")
        return self._connect_to(broker)

    def leader(self, topic: str, partition: int, attempts: Attempts | None = None) -> int:
        """The node that leads a partition; waits while there is none."""
        attempts = attempts or Attempts(self.settings)
        unknown_until = time.monotonic() + UNKNOWN_TOPIC_PATIENCE_MS / 1000
        while True:
            known = self.topic(topic)
            if known.error in UNKNOWN and time.monotonic() > unknown_until:
                raise Refused(known.error, f"Topic {topic} does not exist")
            if known.error and known.error not in UNKNOWN and known.error is not ErrorCode.LEADER_NOT_AVAILABLE:
                raise Refused(known.error, f"Topic {topic} cannot be used")
            if not known.error and partition not in known.partitions and time.monotonic() > unknown_until:
                raise Refused(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"Topic {topic} has no partition {partition}; it has {len(known.partitions)} of them",
                )
            if partition in known.partitions and known.partitions[partition].leader != NO_LEADER:
                return known.partitions[partition].leader
            self.forget_leader(topic)
            if not attempts.pause():
                raise TimedOut(f"{topic}-{partition} had no leader for {attempts.timeout_ms} ms.")

    def topic(self, name: str) -> TopicMetadata:
        """As last seen; asked for if it never was, or was forgotten."""
        self.know_topics({name})
        return self.known_topic(name)

    def known_topic(self, name: str) -> TopicMetadata:
        return self._topics.get(name) or TopicMetadata(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, {})

    def know_topics(self, names: set[str], *, timeout_ms: int | None = None) -> None:
        """Asks in one request for those that were not seen yet, or were forgotten."""
        if unknown := names - self._topics.keys():
            self.metadata(sorted(unknown), timeout_ms=timeout_ms)

    def forget_leader(self, topic: str) -> None:
        """The next question about this topic is asked of the cluster."""
        self._topics.pop(topic, None)

    def coordinator(self, kind: CoordinatorKind, key: str, attempts: Attempts | None = None) -> int:
        """The node that coordinates a group or a transactional id; waits while there is none."""
        if (kind, key) in self._coordinators:
            return self._coordinators[kind, key]
        attempts = attempts or Attempts(self.settings)
        while True:
            node_id, code, message = self._find_coordinator(kind, key)
            if not code:
                self._coordinators[kind, key] = node_id
                return node_id
            if code not in NOT_YET:
                raise Refused(code, message or f"There is no coordinator for {kind} {key}")
            if not attempts.pause():
                raise TimedOut(f"No coordinator for {kind} {key} within {attempts.timeout_ms} ms ({code.name}).")

    def coordinator_version(
        self, kind: CoordinatorKind, key: str, request: type[Request], attempts: Attempts | None = None
    ) -> int:
        """The newest version of a request that both we and the coordinator know."""
        attempts = attempts or Attempts(self.settings)
        while True:
            try:
                return self.connection(self.coordinator(kind, key, attempts)).version_of(request)
            except (BrokerUnreachable, TimedOut):
                self.forget_coordinator(kind, key)
                if not self.ever_connected or not attempts.pause():
                    raise

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    def close(self) -> None:
        for connection in self._by_node.values():
            connection.close()
        if self._bootstrap is not None:
            self._bootstrap.close()
        self._by_node, self._bootstrap = {}, None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(
        self,
        choose: Callable[[], Connection],
        request: Request,
        version: int | None,
        timeout_ms: int | None,
        attempts: Attempts | None = None,
    ) -> Any:
        attempts = attempts or Attempts(self.settings)
        while True:
            try:
                return choose().request(request, version, timeout_ms)
            except (BrokerUnreachable, TimedOut):
                if not self.ever_connected or not attempts.pause():
                    raise

    def any_connection(self) -> Connection:
        """To whichever broker can be reached; made if there is none that is idle."""
        usable = [one for one in (*self._by_node.values(), self._bootstrap) if one is not None and not one.closed]
        idle = [one for one in usable if not one.in_flight]
        if idle:
            return max(idle, key=lambda one: one.last_used)
        problems = []
        for broker in list(self._brokers.values()):
            if broker.id in self._by_node and self._by_node[broker.id] in usable:
                continue  # busy
            try:
                return self.connection(broker.id)
            except (BrokerUnreachable, TimedOut) as error:
                problems.append(str(error).rstrip("."))
        for address in self.settings.bootstrap_servers:
            try:
                self._bootstrap = self._connect(address)
                return self._bootstrap
            except (BrokerUnreachable, TimedOut) as error:
                problems.append(str(error).rstrip("."))
        raise BrokerUnreachable(f"{'; '.join(dict.fromkeys(problems))}.")

    def _connect(self, address: tuple[str, int], node_id: int = -1) -> Connection:
        if self._tls is None and self.settings.security.uses_tls:
            self._tls = self.settings.security.ssl_context()
        connection = Connection(address, self.settings, tls=self._tls, node_id=node_id)
        self.ever_connected = True
        return connection

    def _connect_to(self, broker: BrokerNode) -> Connection:
        address = (broker.host, broker.port)
        try:
            return self._connect(address, broker.id)
        except BrokerUnreachable as error:
            if address in self.settings.bootstrap_servers:
                raise
            servers = ", ".join(map(show_address, self.settings.bootstrap_servers))
            raise BrokerUnreachable(
                f"{str(error).rstrip('.')} (the address that node {broker.id} advertises; asked was {servers})."
            ) from None

    def _controller_connection(self) -> Connection:
        if self._controller_id not in self._brokers:
            self._refresh_nodes()
        # A broker passes on what is for the controller, so any will do while none is named.
        if self._controller_id not in self._brokers:
            return self.any_connection()
        try:
            return self.connection(self._controller_id)
        except (BrokerUnreachable, TimedOut):
            self._controller_id = -1  # another is named by whoever is asked next
            raise

    def _refresh_nodes(self) -> None:
        if not self._controllers:
            self.metadata([])
            return
        from barnabas.wire.messages.describe_cluster import DescribeClusterRequest

        answer = self.ask(DescribeClusterRequest(endpoint_type=2))
        if answer.error_code:
            raise Refused(answer.error_code, answer.error_message)
        nodes = {node.broker_id: BrokerNode(node.broker_id, node.host, node.port, node.rack) for node in answer.brokers}
        self._learn(nodes, answer.controller_id)

    def _learn(self, brokers: Mapping[int, BrokerNode], controller_id: int) -> None:
        for node_id, connection in list(self._by_node.items()):
            broker = brokers.get(node_id)
            if connection.closed or broker is None or (broker.host, broker.port) != connection.address:
                self._by_node.pop(node_id).close()
        self._brokers, self._controller_id = dict(brokers), controller_id
        if self._bootstrap is not None and not self._bootstrap.closed:
            for broker in brokers.values():
                if (broker.host, broker.port) == self._bootstrap.address and broker.id not in self._by_node:
                    self._bootstrap.node_id = broker.id
                    self._by_node[broker.id], self._bootstrap = self._bootstrap, None
                    break

    def _find_coordinator(self, kind: CoordinatorKind, key: str) -> tuple[int, ErrorCode, str | None]:
        from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

        try:
            connection = self.any_connection()
            if connection.version_of(FindCoordinatorRequest) >= 4:
                request = FindCoordinatorRequest(key_type=KEY_TYPES[kind], coordinator_keys=[key])
            else:
                request = FindCoordinatorRequest(key_type=KEY_TYPES[kind], key=key)
            answer = connection.request(request)
        except (BrokerUnreachable, TimedOut) as error:
            if not self.ever_connected:
                raise
            return -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)
        found = answer.coordinators[0] if answer.coordinators else answer
        if not found.error_code and found.node_id not in self._brokers:
            self._brokers[found.node_id] = BrokerNode(found.node_id, found.host, found.port)
        return found.node_id, known_code(found.error_code), found.error_message

    def _list_offsets_of(
        self, leader: int, asked: Mapping[TopicPartition, int], isolation: str
    ) -> dict[TopicPartition, OffsetAt]:
        """Without partitions whose leader is another by now."""
        from barnabas.client.list_offsets import offsets_found, offsets_request

        try:
            connection = self.connection(leader)
            answer = connection.request(offsets_request(connection, asked, isolation, self.settings))
        except (BrokerUnreachable, TimedOut):
            return {}
        return offsets_found(answer, retriable=LEADER_MOVED | UNKNOWN)


def error_codes(answer: object) -> Iterator[ErrorCode]:
    """Every error code anywhere in an answer."""
    for name, value in vars(answer).items():
        if name.endswith("error_code"):
            if value:
                yield known_code(value)
        elif isinstance(value, Struct):
            yield from error_codes(value)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for item in value:
                yield from error_codes(item)
