from __future__ import annotations

import hashlib
import hmac

from barnabas.core.controller.scram import alter_user_scram_credentials, describe_user_scram_credentials, keys
from barnabas.core.metadata.snapshot import snapshot
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from barnabas.wire.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from barnabas.wire.schema import Record

SHA_256, SHA_512 = 1, 2
SALTED = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)


def upsert(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED
    )


def alter(
    image: MetadataImage, *changes: ScramCredentialDeletion | ScramCredentialUpsertion
) -> tuple[list[Record], dict[str, int]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    decision = alter_user_scram_credentials(image, request)
    image.replay_all(decision.records)
    return list(decision.records), {each.user: each.error_code for each in decision.response.results}


def test_what_is_kept_of_a_password_is_that_of_the_rfc() -> None:
    stored_key, server_key = keys(SHA_256, SALTED)
    client_key = hmac.digest(SALTED, b"Client Key", "sha256")
    assert stored_key == hashlib.sha256(client_key).digest()
    assert server_key == hmac.digest(SALTED, b"Server Key", "sha256")
    assert len(keys(SHA_512, SALTED)[0]) == 64


def test_a_credential_is_a_record_and_survives_a_snapshot_until_it_is_removed() -> None:
    image = MetadataImage()
    stored_key, server_key = keys(SHA_256, SALTED)
    record = UserScramCredentialRecord(
        name="anna", mechanism=SHA_256, salt=b"salt", stored_key=stored_key, server_key=server_key, iterations=4096
    )
    assert alter(image, upsert("anna")) == ([record], {"anna": 0})
    copy = MetadataImage()
    copy.replay_all(list(snapshot(image)))
    assert copy.scram_credentials == {(SHA_256, "anna"): record}
    gone = RemoveUserScramCredentialRecord(name="anna", mechanism=SHA_256)
    assert alter(image, ScramCredentialDeletion(name="anna", mechanism=SHA_256)) == ([gone], {"anna": 0})
    assert image.scram_credentials == {}


def test_one_change_for_each_user_and_the_others_are_made() -> None:
    image = MetadataImage()
    records, errors = alter(image, upsert("twice"), upsert("twice", SHA_512), upsert("good"))
    assert errors == {"twice": ErrorCode.DUPLICATE_RESOURCE, "good": 0}
    assert [record.name for record in records] == ["good"]  # type: ignore[attr-defined]
    _, errors = alter(image, ScramCredentialDeletion(name="good", mechanism=SHA_256), upsert("good"))
    assert errors == {"good": ErrorCode.DUPLICATE_RESOURCE}
    assert (SHA_256, "good") in image.scram_credentials


def test_credentials_that_are_none() -> None:
    image = MetadataImage()
    changes = [upsert(""), upsert("few", SHA_256, 4095), upsert("many", SHA_512, 16385), upsert("what", 3)]
    records, errors = alter(image, *changes, ScramCredentialDeletion(name="nobody", mechanism=SHA_256))
    assert records == []
    assert errors == {
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "what": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
    }


def test_users_are_described_without_their_keys() -> None:
    image = MetadataImage()
    alter(image, upsert("anna"), upsert("berta", SHA_512, 8192))

    def told(*users: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users] or None)
        results = describe_user_scram_credentials(image, request).results
        return {
            each.user: (each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
            for each in results
        }

    assert told() == {"anna": (0, [(SHA_256, 4096)]), "berta": (0, [(SHA_512, 8192)])}
    assert told("berta", "nobody") == {"berta": (0, [(SHA_512, 8192)]), "nobody": (ErrorCode.RESOURCE_NOT_FOUND, [])}
    assert told("anna", "anna") == {"anna": (ErrorCode.DUPLICATE_RESOURCE, [])}
