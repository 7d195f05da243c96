"""Client quotas and SCRAM credentials, described and altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.refusals import check
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.alter_user_scram_credentials import ScramCredentialUpsertion

ENTITY_TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
CLIENT_KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_KEYS = ("connection_creation_rate",)
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
ITERATIONS_MIN = 4096
EXACT, DEFAULT, ANY = 0, 1, 2

Entity = Sequence[tuple[str, str | None]]  # type as --entity-type has it, and name: "" is the default, None is any


class Quota(NamedTuple):
    entity: tuple[tuple[str, str | None], ...]  # None is the default
    values: dict[str, float]


def describe_quotas(cluster: Cluster, entity: Entity) -> list[Quota]:
    from barnabas.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

    components = []
    for kind, name in entity:
        match = ANY if name is None else EXACT if name else DEFAULT
        components.append(ComponentData(entity_type=ENTITY_TYPES[kind], match_type=match, match=name or None))
    answer = cluster.ask(DescribeClientQuotasRequest(components=components, strict=True))
    check(answer.error_code, answer.error_message)
    found = [
        Quota(
            tuple(sorted(((each.entity_type, each.entity_name) for each in entry.entity), reverse=True)),
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or []
    ]
    return sorted(found, key=lambda quota: [(kind, name is not None, name or "") for kind, name in quota.entity])


def alter_quotas(cluster: Cluster, entity: Entity, adding: Mapping[str, float], deleting: Sequence[str]) -> None:
    from barnabas.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

    operations = [OpData(key=key, value=value) for key, value in adding.items()]
    operations += [OpData(key=key, remove=True) for key in deleting]
    data = [EntityData(entity_type=ENTITY_TYPES[kind], entity_name=name or None) for kind, name in entity]
    answer = cluster.ask_controller(AlterClientQuotasRequest(entries=[EntryData(entity=data, ops=operations)]))
    for entry in answer.entries:
        check(entry.error_code, entry.error_message)


def describe_scram(cluster: Cluster, user: str | None) -> list[tuple[str, list[tuple[str, int]]]]:
    """Users with the mechanisms and iterations of their credentials; all users for None."""
    from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

    users = None if user is None else [UserName(name=user)]
    answer = cluster.ask_controller(DescribeUserScramCredentialsRequest(users=users))
    check(answer.error_code, answer.error_message)
    names = {number: name for name, number in MECHANISMS.items()}
    found = []
    for result in answer.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check(result.error_code, result.error_message)
        infos = [(names.get(info.mechanism, "UNKNOWN"), info.iterations) for info in result.credential_infos]
        found.append((result.user, infos))
    return found


def alter_scram(cluster: Cluster, user: str, adding: Mapping[str, tuple[int, str]], deleting: Sequence[str]) -> None:
    """`adding` has iterations and password by mechanism."""
    from barnabas.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )

    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=user, mechanism=MECHANISMS[name]) for name in deleting],
        upsertions=[_upsertion(user, name, *each) for name, each in adding.items()],
    )
    for result in cluster.ask_controller(request).results:
        check(result.error_code, result.error_message)


def _upsertion(user: str, mechanism: str, iterations: int, password: str) -> ScramCredentialUpsertion:
    import hashlib
    import os

    from barnabas.wire.messages.alter_user_scram_credentials import ScramCredentialUpsertion

    salt = os.urandom(32)
    digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    return ScramCredentialUpsertion(
        name=user,
        mechanism=MECHANISMS[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations),
    )
