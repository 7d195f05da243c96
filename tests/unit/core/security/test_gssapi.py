from __future__ import annotations

import pytest

from barnabas.core.security.gssapi import OFFER, ContextFailed, GssapiServer
from barnabas.core.security.principals import NoRuleApplies
from barnabas.core.security.sasl import LoginRefused

CHOICE = bytes((1, 0, 0, 0))


class Context:
    """Complete after one token; wraps by writing a letter before the message."""

    def __init__(self, token: bytes = b"ours") -> None:
        self.complete = False
        self.initiator = "anna@EXAMPLE.COM"
        self._token = token

    def step(self, token: bytes) -> bytes:
        if token != b"ticket":
            raise ContextFailed("no ticket")
        self.complete = True
        return self._token

    def wrap(self, message: bytes) -> bytes:
        return b"w" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"w"):
            raise ContextFailed("not wrapped")
        return message[1:]


def server(context: Context | None = None, told: list[str] | None = None) -> GssapiServer:
    return GssapiServer(context or Context(), short_name, (told if told is not None else []).append)


def short_name(principal: str) -> str:
    name, _, realm = principal.partition("@")
    if realm != "EXAMPLE.COM":
        raise NoRuleApplies(principal)
    return name


def test_the_user_is_the_one_of_the_ticket_whoever_the_client_asks_to_be() -> None:
    exchange = server()
    assert exchange.answer(b"ticket") == b"ours"
    assert exchange.answer(b"") == b"w" + OFFER
    assert not exchange.done
    assert exchange.answer(b"w" + CHOICE + b"root") == b""
    assert (exchange.done, exchange.user) == (True, "anna")


def test_the_offer_follows_at_once_if_the_context_has_nothing_more_to_say() -> None:
    assert server(Context(token=b"")).answer(b"ticket") == b"w" + OFFER


@pytest.mark.parametrize(
    "messages",
    [
        [b"forged"],
        [b""],
        [b"ticket", b"more"],
        [b"ticket", b"", CHOICE],  # not wrapped
        [b"ticket", b"", b"w\x01"],
        [b"ticket", b"", b"w\x04\x00\x00\x00anna"],  # encryption was not offered
        [bytes(300_000)],
    ],
)
def test_what_is_wrong_is_refused_and_told_to_the_node_only(messages: list[bytes]) -> None:
    told: list[str] = []
    exchange = server(told=told)
    for message in messages[:-1]:
        exchange.answer(message)
    with pytest.raises(LoginRefused) as refused:
        exchange.answer(messages[-1])
    assert not exchange.done
    assert len(told) == 1
    assert told[0] not in str(refused.value)


def test_a_principal_without_a_user_is_refused() -> None:
    context = Context()
    context.initiator = "anna@ELSEWHERE"
    exchange = server(context)
    exchange.answer(b"ticket")
    exchange.answer(b"")
    with pytest.raises(LoginRefused):
        exchange.answer(b"w" + CHOICE)
    assert not exchange.done
