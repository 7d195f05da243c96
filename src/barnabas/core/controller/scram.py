"""SCRAM credentials: what a server keeps of a password (RFC 5802), for each user and mechanism.

The client sends the salted password; what is kept can be checked against, and cannot be used to log in elsewhere. A
user is altered once in a request: the first error about it is its answer. Refusals are in Kafka's words.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from typing import TypeAlias

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from barnabas.wire.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from barnabas.wire.schema import Record

Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion
HASHES = {1: "sha256", 2: "sha512"}
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384


@Stepwise
def alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Steps[ControllerDecision[AlterUserScramCredentialsResponse]]:
    records: dict[str, Record] = {}
    errors: dict[str, KafkaError] = {}
    changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        yield
        user = change.name
        if user in errors:
            continue
        try:
            if records.pop(user, None) is not None:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            records[user] = _change(image, change)
        except KafkaError as error:
            errors[user] = error
    results = []
    for user, refusal in errors.items():
        yield
        results.append(
            AlterUserScramCredentialsResult(user=user, error_code=refusal.code, error_message=refusal.message)
        )
    results += [AlterUserScramCredentialsResult(user=user, error_message=None) for user in records]
    return ControllerDecision(list(records.values()), AlterUserScramCredentialsResponse(results=results))


def _change(image: MetadataImage, change: Change) -> Record:
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in HASHES:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.mechanism, change.name) not in image.scram_credentials:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    stored_key, server_key = keys(change.mechanism, change.salted_password)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=stored_key,
        server_key=server_key,
        iterations=change.iterations,
    )


def keys(mechanism: int, salted_password: bytes) -> tuple[bytes, bytes]:
    """The stored key and the server key."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name)


@Stepwise
def describe_user_scram_credentials(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> Steps[DescribeUserScramCredentialsResponse]:
    by_user: dict[str, list[CredentialInfo]] = {}
    for (mechanism, user), credential in image.scram_credentials.items():
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        by_user.setdefault(user, []).append(info)
    asked = Counter(user.name for user in request.users or []) or dict.fromkeys(by_user, 1)
    results = []
    for user, times in asked.items():
        yield
        result = DescribeUserScramCredentialsResult(user=user)
        results.append(result)
        if times > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            )
        elif user not in by_user:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
        else:
            result.credential_infos = by_user[user]
    return DescribeUserScramCredentialsResponse(results=results)
