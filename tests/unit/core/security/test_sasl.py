"""Both halves of a login talk to each other: ours for clients, and this server."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from barnabas.client.errors import AuthenticationFailed
from barnabas.client.sasl import PlainExchange, ScramExchange
from barnabas.core.security.sasl import HASHES, LoginRefused, PlainServer, ScramCredential, ScramServer

SECRET = b"secret of this process"


def credential(mechanism: str, password: str, iterations: int = 4096) -> ScramCredential:
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b"salt", iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        b"salt", hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), iterations
    )


def server(mechanism: str, user: str, password: str, iterations: int = 4096) -> ScramServer:
    known = {user: credential(mechanism, password, iterations)}
    return ScramServer(mechanism, known.get, "server-nonce", SECRET)


@pytest.mark.parametrize("mechanism", HASHES)
def test_who_knows_the_password_gets_in_and_both_sides_are_proved(mechanism: str) -> None:
    client = ScramExchange(mechanism, "a=b,c", "pencil", "client-nonce")
    ours = server(mechanism, "a=b,c", "pencil")
    client.answer(ours.answer(client.answer(ours.answer(client.first()))))
    assert (client.done, ours.done, ours.user) == (True, True, "a=b,c")


@pytest.mark.parametrize(("user", "password"), [("anna", "wrong"), ("nobody", "pencil")])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(user: str, password: str) -> None:
    client = ScramExchange("SCRAM-SHA-256", user, password, "client-nonce")
    ours = server("SCRAM-SHA-256", "anna", "pencil")
    proof = client.answer(ours.answer(client.first()))
    with pytest.raises(LoginRefused, match="invalid credentials"):
        ours.answer(proof)
    assert not ours.done


def test_an_unknown_user_is_asked_with_the_same_salt_each_time() -> None:
    first = b"n,,n=nobody,r=abc"
    answers = {server("SCRAM-SHA-256", "anna", "pencil").answer(first) for _ in range(2)}
    assert len(answers) == 1


def test_a_credential_with_too_few_iterations_lets_nobody_in() -> None:
    ours = server("SCRAM-SHA-256", "anna", "pencil", iterations=1)
    client = ScramExchange("SCRAM-SHA-256", "anna", "pencil", "client-nonce")
    with pytest.raises(LoginRefused):
        ours.answer(client.answer(ours.answer(client.first())))


@pytest.mark.parametrize(
    "first",
    [b"", b"\xff", b"p=tls-unique,,n=anna,r=abc", b"n,,n=an=na,r=abc", b"n,,n=anna", b"n,,r=abc,n=anna", b"x" * 70_000],
)
def test_what_is_no_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(LoginRefused):
        server("SCRAM-SHA-256", "anna", "pencil").answer(first)


@pytest.mark.parametrize("change", [(b"c=biws", b"c=eSws"), (b"server-nonce", b"other-nonce"), (b"p=", b"p=!")])
def test_a_final_message_that_was_changed_is_refused(change: tuple[bytes, bytes]) -> None:
    client = ScramExchange("SCRAM-SHA-256", "anna", "pencil", "client-nonce")
    ours = server("SCRAM-SHA-256", "anna", "pencil")
    proof = client.answer(ours.answer(client.first()))
    with pytest.raises(LoginRefused):
        ours.answer(proof.replace(*change))


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramExchange("SCRAM-SHA-256", "anna", "pencil", "client-nonce")
    ours = server("SCRAM-SHA-256", "anna", "pencil")
    client.answer(ours.answer(client.first()))
    with pytest.raises(AuthenticationFailed):
        client.answer(b"v=" + b"AAAA" * 11)


def test_a_plain_login() -> None:
    ours = PlainServer({"anna": "pencil"})
    client = PlainExchange("anna", "pencil")
    client.answer(ours.answer(client.first()))
    assert (ours.done, ours.user) == (True, "anna")


@pytest.mark.parametrize(
    "message",
    [b"\0anna\0wrong", b"\0nobody\0pencil", b"\0\0pencil", b"\0anna\0", b"anna", b"bob\0anna\0pencil", b"\0\xff\0x"],
)
def test_a_wrong_plain_login_is_refused(message: bytes) -> None:
    ours = PlainServer({"anna": "pencil", "": ""})
    with pytest.raises(LoginRefused):
        ours.answer(message)
    assert not ours.done
