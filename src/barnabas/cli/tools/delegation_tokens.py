"""`kafka-delegation-tokens`: creates, renews, expires and describes delegation tokens."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import BOOTSTRAP_SERVER, COMMAND_CONFIG, connect
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.client.admin.refusals import check
from barnabas.client.errors import Refused

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ACTIONS = ("create", "renew", "expire", "describe")
ROW = "%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s"
HEADER = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")

PARSER = Parser(
    name="delegation-tokens",
    summary="Creates, renews, expires and describes delegation tokens.",
    options=(
        BOOTSTRAP_SERVER,
        COMMAND_CONFIG,
        option("--create", help="Create a token."),
        option("--renew", help="Renew a token."),
        option("--expire", help="Expire a token; with a period of -1 at once."),
        option("--describe", help="Describe tokens."),
        option("--owner-principal", takes="principal", repeated=True, help="Whose the token is; by default yours."),
        option("--renewer-principal", takes="principal", repeated=True, help="Who else may renew the token."),
        option("--max-life-time-period", takes="ms", kind=int, help="How long the token lives; -1: as long as it may."),
        option("--renew-time-period", takes="ms", kind=int, help="For how long it is renewed; -1: as long as usual."),
        option("--expiry-time-period", takes="ms", kind=int, help="After which time it expires; -1: at once."),
        option("--hmac", takes="hmac", help="The token's HMAC, as it was printed."),
    ),
)


def run(parsed: Parsed) -> int:
    if sum(action in parsed for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    for needed in _needed(parsed):
        if needed not in parsed:
            raise UsageError(f'Missing required argument "[{needed}]"')
    try:
        with connect(parsed) as cluster:
            _act(cluster, parsed)
    except Refused as refusal:
        raise ToolFailed(f"Error while executing delegation token command : {refusal.code.name}") from None
    return 0


def _needed(parsed: Parsed) -> tuple[str, ...]:
    always = ("bootstrap-server", "command-config")
    if "create" in parsed:
        return (*always, "max-life-time-period")
    if "renew" in parsed:
        return (*always, "hmac", "renew-time-period")
    return (*always, "hmac", "expiry-time-period") if "expire" in parsed else always


def _act(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
    from barnabas.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

    if "create" in parsed:
        _create(cluster, parsed)
    elif "describe" in parsed:
        _describe(cluster, parsed)
    elif "renew" in parsed:
        period = parsed.number("renew-time-period") or 0
        print(f"Calling renew token operation with hmac :{parsed.text('hmac')} , renew-time-period :{period}")
        answer = cluster.ask(RenewDelegationTokenRequest(hmac=_hmac(parsed), renew_period_ms=period))
        check(answer.error_code, None)
        print(f"Completed renew operation. New expiry date : {_date(answer.expiry_timestamp_ms)}")
    else:
        period = parsed.number("expiry-time-period") or 0
        print(f"Calling expire token operation with hmac :{parsed.text('hmac')} , expire-time-period :{period}")
        answer = cluster.ask(ExpireDelegationTokenRequest(hmac=_hmac(parsed), expiry_time_period_ms=period))
        check(answer.error_code, None)
        print(f"Completed expire operation. New expiry date : {_date(answer.expiry_timestamp_ms)}")


def _create(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest

    renewers = [_principal(text) for text in parsed.texts("renewer-principal")]
    owners = [_principal(text) for text in parsed.texts("owner-principal")]
    lifetime_ms = parsed.number("max-life-time-period") or 0
    shown = f"[{', '.join(':'.join(each) for each in renewers)}]"
    print(f"Calling create token operation with renewers :{shown} , max-life-time-period :{lifetime_ms}")
    owner = owners[0] if owners else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    answer = cluster.ask(request)
    check(answer.error_code, None)
    print(f"Created delegation token with tokenId : {answer.token_id}")
    requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
    times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    _print_rows([(answer, requester, shown, times)])


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.describe_delegation_token import (
        DescribeDelegationTokenOwner,
        DescribeDelegationTokenRequest,
    )

    owners = [_principal(text) for text in parsed.texts("owner-principal")]
    if owners:
        print(f"Calling describe token operation for owners :[{', '.join(':'.join(each) for each in owners)}]")
    else:
        print("Calling describe token operation for current user.")
    wanted = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners]
    answer = cluster.ask(DescribeDelegationTokenRequest(owners=wanted or None))
    check(answer.error_code, None)
    print(f"Total number of tokens : {len(answer.tokens)}")
    rows = []
    for token in answer.tokens:
        renewers = ", ".join(f"{each.principal_type}:{each.principal_name}" for each in token.renewers)
        requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
        times = (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)
        rows.append((token, requester, f"[{renewers}]", times))
    _print_rows(rows)


def _print_rows(rows: list[tuple[Any, str, str, tuple[int, int, int]]]) -> None:
    print(f"\n{ROW % HEADER}")
    for token, requester, renewers, times in rows:
        owner = f"{token.principal_type}:{token.principal_name}"
        secret = base64.b64encode(bytes(token.hmac)).decode()
        print(f"\n{ROW % (token.token_id, secret, owner, requester, renewers, *map(_date, times))}")


def _hmac(parsed: Parsed) -> bytes:
    try:
        return base64.b64decode(parsed.text("hmac") or "", validate=True)
    except binascii.Error:
        raise UsageError("--hmac is not what was printed: it is base64.") from None


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.strip().partition(":")
    if not colon or not name:
        raise UsageError(f"'{text}' is no principal: User:anna is one.")
    return kind, name


def _date(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%dT%H:%M")
