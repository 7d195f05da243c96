"""Who gets into an HTTP service."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.client.errors import InvalidSetting
from barnabas.web.security import BASIC_EXTENSION, EXTENSIONS, HttpSecurity, read_users

USERS = "# users\nanna: anna-secret,admin\nbert: MD5:5ebe2294ecd0e0f08eab7690d2a6ee69,developer\ncarl: c,read\n"


@pytest.fixture
def security(tmp_path: Path) -> HttpSecurity:
    (tmp_path / "users").write_text(USERS)
    return HttpSecurity.from_properties(
        {"authentication.method": "BASIC", "authentication.users.file": str(tmp_path / "users")}, "NO_OPTS"
    )


def basic(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


@pytest.mark.parametrize(
    ("method", "authorization", "status"),
    [
        ("GET", basic("anna", "anna-secret"), None),
        ("POST", basic("anna", "anna-secret"), None),
        ("PUT", basic("bert", "secret"), None),
        ("GET", basic("carl", "c"), None),
        ("POST", basic("carl", "c"), 403),
        ("GET", basic("anna", "wrong"), 401),
        ("GET", basic("nobody", "no such user"), 401),
        ("GET", basic("", ""), 401),
        ("GET", b"", 401),
        ("GET", b"Basic !!!", 401),
        ("GET", b"Bearer abc", 401),
    ],
)
def test_passwords_and_roles(security: HttpSecurity, method: str, authorization: bytes, status: int | None) -> None:
    assert security.status_for(method, security.identify(authorization)) == status


def test_only_those_with_a_role_get_in(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(USERS)
    given = {"authentication.method": "BASIC", "authentication.users.file": str(tmp_path / "users")}
    security = HttpSecurity.from_properties(given | {"authentication.roles": "admin,other"}, "NO_OPTS")
    assert security.status_for("GET", security.identify(basic("anna", "anna-secret"))) is None
    assert security.status_for("GET", security.identify(basic("bert", "secret"))) == 403


def test_users_are_named_by_the_realm_in_a_jaas_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users").write_text(USERS)
    module = "org.eclipse.jetty.jaas.spi.PropertyFileLoginModule"
    (tmp_path / "jaas").write_text(f'Props {{\n  {module} required file="{tmp_path}/users" debug="false";\n}};\n')
    monkeypatch.setenv("SOME_OPTS", f"-Djava.security.auth.login.config={tmp_path}/jaas")
    given = {"authentication.method": "BASIC", "authentication.realm": "Props"}
    security = HttpSecurity.from_properties(given, "SOME_OPTS")
    assert security.status_for("GET", security.identify(basic("anna", "anna-secret"))) is None
    with pytest.raises(InvalidSetting, match="names no file of users"):
        HttpSecurity.from_properties(given | {"authentication.realm": "Other"}, "SOME_OPTS")


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"authentication.method": "BASIC"}, r"authentication\.users\.file is missing"),
        ({"authentication.method": "BEARER"}, r"oauthbearer\.jwks\.endpoint\.url is missing"),
        ({"authentication.method": "DIGEST"}, r"authentication\.method is DIGEST: NONE, BASIC and BEARER are known"),
        ({"listeners": "https://0.0.0.0:8081"}, r"ssl\.keystore\.location is missing, and listeners names https"),
    ],
)
def test_what_cannot_be_used_is_told(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{sentence}"):
        HttpSecurity.from_properties(properties, "NO_OPTS")


def test_connects_own_extension_takes_whole_passwords_and_no_other_class_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users").write_text("# users\nanna=a,b=c\n")
    (tmp_path / "jaas").write_text(f'KafkaConnect {{ x.PropertyFileLoginModule required file="{tmp_path}/users"; }};\n')
    monkeypatch.setenv("SOME_OPTS", f"-Djava.security.auth.login.config={tmp_path}/jaas")
    security = HttpSecurity.from_properties({EXTENSIONS: BASIC_EXTENSION}, "SOME_OPTS")
    assert security.status_for("POST", security.identify(basic("anna", "a,b=c"))) is None
    assert security.status_for("GET", security.identify(basic("anna", "a"))) == 401
    with pytest.raises(InvalidSetting, match=r"^rest\.extension\.classes names a\.B: only org"):
        HttpSecurity.from_properties({EXTENSIONS: f"{BASIC_EXTENSION},a.B"}, "SOME_OPTS")
    with pytest.raises(InvalidSetting, match=r"^rest\.extension\.classes is set, and no JAAS file names one"):
        HttpSecurity.from_properties({EXTENSIONS: BASIC_EXTENSION}, "NO_OPTS")


def test_a_user_without_a_password_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("anna: ,admin\n")
    with pytest.raises(InvalidSetting, match=r"^authentication\.users\.file has anna without a password"):
        read_users(str(tmp_path / "users"))


async def answered(app: ASGIApp, scope: dict[str, Any]) -> Any:
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    await app(scope, receive, send)
    return sent[0].get("status", sent[0]["type"])


@pytest.mark.parametrize(
    ("kind", "method", "headers", "answer"),
    [
        ("http", "POST", {"origin": "http://evil"}, 403),
        ("http", "POST", {"origin": "http://evil", "content-type": "text/plain; charset=x"}, 403),
        ("http", "POST", {"origin": "null", "content-type": "application/x-www-form-urlencoded"}, 403),
        ("http", "POST", {"origin": "http://evil", "content-type": "application/json"}, 200),  # asked for first
        ("http", "POST", {"origin": "http://here:1"}, 200),
        ("http", "POST", {"origin": "https://friend"}, 200),
        ("http", "POST", {"content-type": "application/x-www-form-urlencoded"}, 200),  # curl -d
        ("http", "GET", {"origin": "http://evil"}, 200),
        ("websocket", "", {"origin": "http://evil"}, "websocket.close"),
        ("websocket", "", {"origin": "http://here:1"}, 200),
        ("websocket", "", {}, 200),
    ],
)
def test_a_page_of_another_site_changes_nothing(kind: str, method: str, headers: dict[str, str], answer: Any) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "x", "status": 200})

    security = HttpSecurity.from_properties({"access.control.allow.origin": "https://friend"}, "NO_OPTS")
    pairs = [(name.encode(), value.encode()) for name, value in ({"host": "here:1"} | headers).items()]
    scope = {"type": kind, "method": method, "headers": pairs}
    assert asyncio.run(answered(security.keep_strangers_out(app), scope)) == answer
