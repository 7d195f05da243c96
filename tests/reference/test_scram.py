"""SCRAM credentials: the same alterations and questions to Apache Kafka and to our node."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SHA_256, SHA_512 = 1, 2
SETTLE_S = 5.0


def upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt") -> Any:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"salted" * 5
    )


def delete(name: str, mechanism: int = SHA_256) -> Any:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(both: Any, *changes: Any) -> Any:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    both.same(request, 0, ignoring=["results"])
    first, *rest = [
        sorted((each.user, each.error_code, each.error_message or "") for each in answer.results)
        for answer in both.answers
    ]
    assert all(each == first for each in rest), [first, *rest]


def ask(both: Any, *users: str | None) -> None:
    names = None if users == (None,) else [UserName(name=str(user)) for user in users]
    request = DescribeUserScramCredentialsRequest(users=names)
    limit = time.monotonic() + SETTLE_S
    while True:  # Kafka answers before a change is applied
        both.same(request, 0, ignoring=["results"])
        found = [sorted(map(told, answer.results)) for answer in both.answers]
        if all(each == found[0] for each in found) or time.monotonic() > limit:
            break
    assert all(each == found[0] for each in found), found


def told(result: Any) -> Any:
    infos = sorted((each.mechanism, each.iterations) for each in result.credential_infos)
    return result.user, result.error_code, result.error_message or "", infos


def test_credentials_are_set_described_changed_and_deleted(both: Any) -> None:
    ask(both, None)
    ask(both)
    alter(both, upsert("anna"), upsert("berta", SHA_512, 8192))
    ask(both, None)
    ask(both)
    ask(both, "anna")
    ask(both, "anna", "nobody", "berta")
    ask(both, "anna", "anna")
    alter(both, upsert("anna", SHA_512))
    ask(both, "anna")
    alter(both, upsert("anna", SHA_256, 10_000), upsert("anna", SHA_512, 10_000))
    ask(both, "anna")
    alter(both, delete("anna"), delete("berta"), delete("nobody", SHA_512))
    alter(both, delete("anna", SHA_512))
    ask(both, None)
    ask(both, "anna", "berta")
    alter(both, delete("berta", SHA_512))
    ask(both, None)


@pytest.mark.parametrize(
    "changes",
    [
        [upsert("", SHA_256)],
        [upsert("u", 0)],
        [upsert("u", 7)],
        [delete("u", 7)],
        [delete("u", 0)],
        [delete("", SHA_256)],
        [upsert("u", SHA_256, 4095)],
        [upsert("u", SHA_256, 16385)],
        [upsert("u", SHA_256, 0)],
        [upsert("u", SHA_256, -1)],
        [upsert("u", SHA_256, 4096, b"")],
        [upsert("u"), upsert("u")],
        [upsert("u"), delete("u")],
        [delete("u"), delete("u")],
        [upsert("u"), upsert("v", 7)],
        [upsert("u"), delete("w")],
        [],
    ],
)
def test_credentials_that_cannot_be_set(both: Any, changes: list[Any]) -> None:
    alter(both, *changes)
    ask(both, "u", "v")
    for side in both.sides:
        for user in ("u", "v"):
            side.ask(AlterUserScramCredentialsRequest(deletions=[delete(user)]), 0)
    ask(both, None)
