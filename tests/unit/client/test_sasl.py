"""SASL, checked with the examples of the RFCs."""

from __future__ import annotations

import pytest

from barnabas.client.errors import AuthenticationFailed
from barnabas.client.sasl import PlainExchange, ScramExchange, exchange_for
from barnabas.client.security import SecuritySettings

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

LOGIN = SecuritySettings(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="a=b,c", password="x")


def scram() -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_plain_is_one_message() -> None:
    exchange = PlainExchange("anna", "žluť")
    assert exchange.first() == "\0anna\0žluť".encode()
    assert exchange.answer(b"") == b""
    assert exchange.done


def test_scram_goes_as_in_rfc_7677() -> None:
    exchange = scram()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.answer(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not exchange.done
    assert exchange.answer(SERVER_FINAL) == b""
    assert exchange.done


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    exchange = scram()
    exchange.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        exchange.answer(SERVER_FINAL.replace(b"6rri", b"6rrj"))
    assert not exchange.done


@pytest.mark.parametrize(
    "challenge",
    [
        SERVER_FIRST.replace(b"rOpr", b"xxxx"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=99999999"),
        SERVER_FIRST.replace(b"i=4096", b"i=many"),
        SERVER_FIRST.replace(b"i=4096", "i=409²".encode()),
        SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 5000),
        SERVER_FIRST.replace(b"s=W22Z", b"s=!!!!"),
        SERVER_FIRST.replace(b",s=", b",t="),
        b"\xff\xfe",
        b"",
    ],
)
def test_a_challenge_that_is_wrong_ends_the_login(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        scram().answer(challenge)


def test_the_servers_refusal_is_told() -> None:
    exchange = scram()
    exchange.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match="invalid-proof"):
        exchange.answer(b"e=invalid-proof")


def test_names_with_commas_and_equals_signs_are_escaped_and_nonces_differ() -> None:
    first = exchange_for(LOGIN, "localhost").first()
    assert first.startswith(b"n,,n=a=3Db=2Cc,r=")
    assert first != exchange_for(LOGIN, "localhost").first()
