"""Every API, asked by users with one right each, answered as Apache Kafka answers it.

Each user has one entry, or a few that an API needs together. Names of users say which: `topic-READ` may read `t`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.core.security.model import Operation, PatternType, PermissionType, ResourceType
from barnabas.testing import Node
from barnabas.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.offset_fetch import OffsetFetchRequest
from barnabas.wire.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.wire.schema import Request
from barnabas.wire.uuids import Uuid
from tests.reference.authorization_requests import UNKNOWN_ID, requests
from tests.reference.conftest import PROPERTIES, brief
from tests.support import reference
from tests.support.reference_exchange import Connection, ConnectionClosed, Side, differences

NAMES = {
    ResourceType.TOPIC: ("t", "missing"),
    ResourceType.GROUP: ("g",),
    ResourceType.CLUSTER: ("kafka-cluster",),
    ResourceType.TRANSACTIONAL_ID: ("x",),
}
OPERATIONS = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
    ResourceType.CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL",
    ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE ALL",
}
SINGLE = [(kind, Operation[name]) for kind, names in OPERATIONS.items() for name in names.split()]
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
TOPIC, GROUP, CLUSTER, TRANSACTION = NAMES
Right = tuple[ResourceType, str, PatternType, Operation, PermissionType, str]


def right(
    kind: ResourceType,
    operation: Operation,
    name: str | None = None,
    *,
    pattern: PatternType = PatternType.LITERAL,
    permission: PermissionType = ALLOW,
    host: str = "*",
) -> list[Right]:
    names = NAMES[kind] if name is None else (name,)
    return [(kind, each, pattern, operation, permission, host) for each in names]


READ, WRITE, CREATE, ALL = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.ALL
USERS: dict[str, list[Right]] = {
    "nothing": [],
    **{f"{kind.name.lower()}-{operation.name}": right(kind, operation) for kind, operation in SINGLE},
    "reader": right(TOPIC, READ) + right(GROUP, READ),
    "transaction": right(TOPIC, WRITE) + right(TRANSACTION, WRITE),
    "transaction-offsets": right(TRANSACTION, WRITE) + right(GROUP, READ),
    "read-process-write": right(TOPIC, READ) + right(TOPIC, WRITE) + right(TRANSACTION, WRITE) + right(GROUP, READ),
    "creator": right(TOPIC, Operation.DESCRIBE) + right(CLUSTER, CREATE),
    "all-but-read": right(TOPIC, ALL) + right(TOPIC, READ, permission=DENY),
    "all-but-describe": right(TOPIC, ALL) + right(TOPIC, Operation.DESCRIBE, permission=DENY),
    "wildcard": right(TOPIC, READ, "*") + right(GROUP, READ, "*"),
    "prefix": right(TOPIC, ALL, "miss", pattern=PatternType.PREFIXED),
    "here": right(TOPIC, READ, host="127.0.0.1"),
    "elsewhere": right(TOPIC, READ, host="10.1.2.3"),
    "everything": [entry for kind in NAMES for entry in right(kind, ALL)],
    "root": [],
}
CREATORS = ("topic-ALL", "creator", "all-but-read", "prefix", "everything", "root")
PASSWORD = "secret"
JAAS = " ".join(f'user_{name}="{PASSWORD}"' for name in USERS)
SECURITY = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f"org.apache.kafka.common.security.plain.PlainLoginModule required {JAAS};"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "auto.create.topics.enable": "true",
    "delegation.token.secret.key": "token-secret",
}


class User(Connection):
    """A connection that logs in whenever it is opened."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._name = name
        self._logs_in = False

    def send(self, request: Request, version: int) -> None:
        if self._socket is None and not self._logs_in:
            self._logs_in = True
            answer: Any = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert answer.error_code == 0
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{self._name}\0{PASSWORD}".encode()), 2)
            assert answer.error_code == 0, answer.error_message
            self._logs_in = False
        super().send(request, version)


class Secured:
    """One of the two servers: its administrator, and its users."""

    def __init__(self, name: str, server: Any, sasl_port: int) -> None:
        self.admin = Side(name, server)
        self.users = {user: User(user, sasl_port) for user in USERS}
        entries = [
            AclCreation(
                resource_type=kind,
                resource_name=resource,
                resource_pattern_type=pattern,
                principal=f"User:{user}",
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for user, rights in USERS.items()
            for kind, resource, pattern, operation, permission, host in rights
        ]
        answer: Any = self.admin.ask(CreateAclsRequest(creations=entries), 3)
        assert {result.error_code for result in answer.results} == {0}
        for topic in ("t", "u"):
            self.admin.create_topic(topic)
        for kind in (0, 1):  # the internal topics of groups and of transactions
            coordinator = FindCoordinatorRequest(key="g", key_type=kind)
            self.admin.wait_until(coordinator, 3, lambda each: not each.error_code)
        shared = FindCoordinatorRequest(coordinator_keys=[f"g:{UNKNOWN_ID}:0"], key_type=2)
        self.admin.wait_until(shared, 6, lambda each: not each.coordinators[0].error_code)
        summary = [ReadStateSummaryData(topic_id=self.topic_id("t"), partitions=[PartitionData(partition=0)])]
        self.admin.wait_until(
            ReadShareGroupStateSummaryRequest(group_id="nobody", topics=summary),
            1,
            lambda each: not each.results[0].partitions[0].error_code,
        )
        self.admin.wait_until(OffsetFetchRequest(group_id="g", topics=None), 7, lambda each: not each.error_code)
        for name in ("z", None):
            begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            self.admin.wait_until(begin, 4, lambda each: not each.error_code)

    def topic_id(self, name: str) -> Uuid:
        return UNKNOWN_ID if name == "nowhere" else self.admin.topic_id(name)

    def answer(self, user: str, request: Request, version: int) -> Any:
        try:
            return self.users[user].ask(request, version)
        except ConnectionClosed:
            return None

    def close(self) -> None:
        for connection in (self.admin, *self.users.values()):
            connection.close()


@pytest.fixture(scope="module")
def secured() -> Iterator[list[Secured]]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    port, sasl_port, controller_port = (reference.free_port() for _ in range(3))
    address = "127.0.0.1"
    listeners = (
        f"PLAINTEXT://{address}:{port},SASL_PLAINTEXT://{address}:{sasl_port},CONTROLLER://{address}:{controller_port}"
    )
    kafka = reference.ApacheKafka(
        port=port,
        controller_port=controller_port,
        properties=PROPERTIES | SECURITY | {"listeners": listeners},
    )
    ours = (
        PROPERTIES
        | SECURITY
        | {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
    )
    with kafka, Node(ours) as node:
        sides = [
            Secured("Apache Kafka", kafka, sasl_port),
            Secured("Barnabas", node, node.ports["SASL_PLAINTEXT"]),
        ]
        yield sides
        for side in sides:
            side.close()


COUNT = len(list(requests(lambda name: UNKNOWN_ID)))


# Producer epochs count requests, and the metadata log of ours has other records.
IGNORED = (
    "producer_epoch",
    "finalized_features",
    "controller_id",
    "topics.partitions.high_watermark",
    "log_end_offset",
)
# The id of a topic that the caller may not read: Apache Kafka tells it, ours does not.
HIDDEN: dict[type[Request], tuple[str, ...]] = {AlterShareGroupOffsetsRequest: ("responses.topic_id",)}


@pytest.mark.parametrize("number", range(COUNT))
def test_a_request_is_answered_by_what_the_caller_may(secured: list[Secured], number: int) -> None:
    asked = [next(itertools.islice(requests(side.topic_id), number, None)) for side in secured]
    found: dict[str, list[str]] = {}
    for user in USERS:
        answers = [side.answer(user, *request) for side, request in zip(secured, asked, strict=True)]
        for each in differences(*answers, ignoring=(*IGNORED, *HIDDEN.get(type(asked[0][0]), ()))):
            found.setdefault(each, []).append(user)
    request, version = asked[0]
    told = [f"{each} (asked by {', '.join(users)})" for each, users in found.items()]
    assert not told, "\n".join([f"{brief(request)[:300]} version {version}: answers differ", *told])


@pytest.mark.parametrize("user", [user for user in USERS if user not in CREATORS])
def test_who_may_not_create_topics_creates_none_by_asking(secured: list[Secured], user: str) -> None:
    """Who may is answered at once by ours, and told to ask again by Apache Kafka."""
    asked = [MetadataRequestTopic(name=name) for name in ("t", "missing", "nowhere")]
    answers = [side.answer(user, MetadataRequest(topics=asked), 12) for side in secured]
    assert not differences(*answers, ignoring=IGNORED)


@pytest.mark.parametrize("user", USERS)
def test_topics_are_deleted_by_who_may(secured: list[Secured], user: str) -> None:
    answers = []
    for side in secured:
        wanted = [DeleteTopicState(name=name) for name in ("t", "u", "missing", "nowhere")]
        answers.append(side.answer(user, DeleteTopicsRequest(topics=wanted, timeout_ms=15_000), 6))
        for result in answers[-1].responses:
            if result.error_code == 0:
                side.admin.create_topic(result.name)
    assert not differences(*answers)


def codes(secured: list[Secured], user: str | None, request: Any, version: int) -> list[Any]:
    """The answers of both; without a user the administrator asks, on a listener without logins."""
    asked = [request(side) if callable(request) else request for side in secured]
    return [
        side.admin.ask(each, version) if user is None else side.answer(user, each, version)
        for side, each in zip(secured, asked, strict=True)
    ]


TIMES = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id", "hmac")


def test_delegation_tokens_are_handed_out_alike(secured: list[Secured]) -> None:
    plain = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    for user, request in (
        ("reader", plain),
        ("reader", CreateDelegationTokenRequest(max_lifetime_ms=60_000)),
        ("reader", CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="here")),
        ("root", CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="here")),
        (
            "reader",
            CreateDelegationTokenRequest(
                renewers=[CreatableRenewers(principal_type="Group", principal_name="x")], max_lifetime_ms=-1
            ),
        ),
        (None, plain),
    ):
        for version in (3,) if request.owner_principal_name else (2, 3):
            answers = codes(secured, user, request, version)
            assert not differences(*answers, ignoring=TIMES), (user, brief(request), version)
            lifetimes = [each.max_timestamp_ms - each.issue_timestamp_ms for each in answers]
            assert lifetimes[0] == lifetimes[1]
            lifetimes = [each.expiry_timestamp_ms - each.issue_timestamp_ms for each in answers]
            assert lifetimes[0] == lifetimes[1]
            assert {len(each.hmac) for each in answers} in ({64}, {0})


def test_delegation_tokens_are_renewed_and_expired_by_who_may(secured: list[Secured]) -> None:
    renewer = CreatableRenewers(principal_type="User", principal_name="here")
    created = codes(secured, "wildcard", CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), 3)
    hmacs = {side.admin.name: bytes(each.hmac) for side, each in zip(secured, created, strict=True)}

    def of(kind: Any, period: str, value: int) -> Any:
        return lambda side: kind(hmac=hmacs[side.admin.name], **{period: value})

    renew = of(RenewDelegationTokenRequest, "renew_period_ms", 1000)
    wrong = RenewDelegationTokenRequest(hmac=b"x" * 64, renew_period_ms=1000)
    expire_later = of(ExpireDelegationTokenRequest, "expiry_time_period_ms", 3_600_000)
    expire = of(ExpireDelegationTokenRequest, "expiry_time_period_ms", -1)
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="wildcard")
    story: list[tuple[str | None, Any]] = [
        ("wildcard", expire_later),
        ("here", of(RenewDelegationTokenRequest, "renew_period_ms", 3_600_000)),
        ("reader", renew),
        ("root", wrong),
        (None, renew),
        ("reader", expire),
        ("wildcard", DescribeDelegationTokenRequest(owners=None)),
        ("here", DescribeDelegationTokenRequest(owners=[owner])),
        ("nothing", DescribeDelegationTokenRequest(owners=None)),
        ("root", DescribeDelegationTokenRequest(owners=[owner])),
        ("root", DescribeDelegationTokenRequest(owners=[])),
        (None, DescribeDelegationTokenRequest(owners=None)),
        ("here", expire),
    ]
    ignored = (*TIMES, "issue_timestamp", "expiry_timestamp", "max_timestamp")
    for side in secured:  # Kafka finds a token a moment after it was created
        limit = time.monotonic() + 30
        while side.answer("wildcard", expire_later(side), 2).error_code:
            assert time.monotonic() < limit
            time.sleep(0.05)
    for user, request in story:
        answers = codes(secured, user, request, 2)
        assert not differences(*answers, ignoring=ignored), (user, brief(answers[0]), brief(answers[1]))
