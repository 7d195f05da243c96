"""Delegation tokens: created, renewed, expired and described.

A token has an id, and an HMAC over the id by which it is used: who knows it may log in as the token's owner, and name
it to renew or expire it. The HMAC is not kept; it is made again from the id and the secret that all nodes share. A
token must be renewed before it expires, and ends for good when its longest lifetime is over. Owner and renewers may
renew and expire it. Tokens that have ended are removed whenever a new one is created.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from barnabas.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from barnabas.wire.records.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from barnabas.wire.schema import Record

USER = "User"


class TokenRules(NamedTuple):
    secret: bytes
    max_lifetime_ms: int
    expiry_time_ms: int

    def __repr__(self) -> str:
        return f"TokenRules(..., {self.max_lifetime_ms}, {self.expiry_time_ms})"


def token_hmac(secret: bytes, token_id: str) -> bytes:
    return hmac.digest(secret, token_id.encode(), "sha512")


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    if request.owner_principal_name:
        return f"{request.owner_principal_type}:{request.owner_principal_name}"
    return requester


def create_token(
    image: MetadataImage,
    request: CreateDelegationTokenRequest,
    requester: str,
    rules: TokenRules,
    now_ms: int,
    new_id: Callable[[], str],
) -> ControllerDecision[CreateDelegationTokenResponse]:
    owner = owner_of(request, requester)
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in request.renewers]
    if any(each.principal_type != USER for each in request.renewers) or not owner.startswith(f"{USER}:"):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    lifetime_ms = rules.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    token_id = new_id()
    record = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=renewers,
        issue_timestamp=now_ms,
        max_timestamp=now_ms + lifetime_ms,
        expiration_timestamp=now_ms + min(lifetime_ms, rules.expiry_time_ms),
        token_id=token_id,
    )
    response = CreateDelegationTokenResponse(
        principal_type=owner.partition(":")[0],
        principal_name=owner.partition(":")[2],
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=token_id,
        hmac=token_hmac(rules.secret, token_id),
    )
    ended = [
        RemoveDelegationTokenRecord(token_id=token.token_id)
        for token in image.delegation_tokens.values()
        if has_ended(token, now_ms)
    ]
    records: list[Record] = [record, *ended]
    return ControllerDecision(records, response)


def renew_token(
    image: MetadataImage, request: RenewDelegationTokenRequest, requester: str, rules: TokenRules, now_ms: int
) -> ControllerDecision[RenewDelegationTokenResponse]:
    token = _token(image, bytes(request.hmac), rules)
    if has_ended(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _require_owner(token, requester)
    period_ms = request.renew_period_ms if request.renew_period_ms >= 0 else rules.expiry_time_ms
    changed = _until(token, min(now_ms + period_ms, token.max_timestamp))
    return ControllerDecision([changed], RenewDelegationTokenResponse(expiry_timestamp_ms=changed.expiration_timestamp))


def expire_token(
    image: MetadataImage, request: ExpireDelegationTokenRequest, requester: str, rules: TokenRules, now_ms: int
) -> ControllerDecision[ExpireDelegationTokenResponse]:
    token = _token(image, bytes(request.hmac), rules)
    _require_owner(token, requester)
    if request.expiry_time_period_ms < 0:
        removed = RemoveDelegationTokenRecord(token_id=token.token_id)
        return ControllerDecision([removed], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    if has_ended(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    changed = _until(token, min(now_ms + request.expiry_time_period_ms, token.max_timestamp))
    return ControllerDecision(
        [changed], ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiration_timestamp)
    )


def describe_tokens(
    image: MetadataImage,
    request: DescribeDelegationTokenRequest,
    requester: str,
    rules: TokenRules,
    may_describe: Callable[[DelegationTokenRecord], bool],
    *,
    says_requester: bool,
) -> DescribeDelegationTokenResponse:
    """`says_requester`: the version has a place for who has asked for a token."""
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    found = [
        _described(token, rules, says_requester)
        for token in image.delegation_tokens.values()
        if (owners is None or token.owner in owners) and (_is_owner(token, requester) or may_describe(token))
    ]
    return DescribeDelegationTokenResponse(tokens=found)


def has_ended(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _token(image: MetadataImage, wanted: bytes, rules: TokenRules) -> DelegationTokenRecord:
    for token in image.delegation_tokens.values():
        if hmac.compare_digest(token_hmac(rules.secret, token.token_id), wanted):
            return token
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def _require_owner(token: DelegationTokenRecord, requester: str) -> None:
    if not _is_owner(token, requester):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _is_owner(token: DelegationTokenRecord, requester: str) -> bool:
    return requester in (token.owner, token.requester, *token.renewers)


def _until(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(**(vars(token) | {"expiration_timestamp": expiry_ms}))


def _described(token: DelegationTokenRecord, rules: TokenRules, says_requester: bool) -> DescribedDelegationToken:
    owner = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[2],
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(rules.secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(
                principal_type=each.partition(":")[0], principal_name=each.partition(":")[2]
            )
            for each in token.renewers
        ],
    )
    if says_requester:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type, described.token_requester_principal_name = kind, name
    return described
