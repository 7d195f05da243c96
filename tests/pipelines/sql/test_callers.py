"""The SQL server behind TLS, passwords and roles: HTTP/1.1, HTTP/2, the WebSocket and the command line."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.certificates import make_certificates
from barnabas.testing import Node
from tests.support.sql_server import SqlServer

MODULE = "org.eclipse.jetty.jaas.spi.PropertyFileLoginModule"
SELECT = "SELECT * FROM p EMIT CHANGES LIMIT 1;"
KEY = "MTIzNDU2Nzg5MDEyMzQ1Ng=="


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("callers")
    make_certificates(made, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    (made / "users").write_text("anna: a,admin\ncarl: c,read\nmallory: m,stranger\n")
    (made / "jaas").write_text(f'KsqlServer-Props {{\n  {MODULE} required file="{made}/users" debug="false";\n}};\n')
    (made / "client.properties").write_text(f"ssl.truststore.location={made}/ca.pem\n")
    return made


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[SqlServer]:
    settings = {
        "listeners": "https://127.0.0.1:0",
        "ssl_keystore_location": str(directory / "server.p12"),
        "ssl_keystore_password": "changeit",
        "authentication_method": "BASIC",
        "authentication_realm": "KsqlServer-Props",
        "authentication_roles": "admin,read",
    }
    with Node() as node, pytest.MonkeyPatch.context() as patched:
        patched.setenv("KSQL_OPTS", f"-Djava.security.auth.login.config={directory}/jaas")
        started = SqlServer(node.bootstrap_servers, directory, **settings).start()
        yield started
        started.stop()


def ask(server: SqlServer, directory: Path, path: str, body: Any = None, login: str | None = None) -> tuple[int, str]:
    headers = {"content-type": "application/vnd.ksql.v1+json"}
    if login is not None:
        headers["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"https://127.0.0.1:{server.port}{path}", data, headers)
    trusting = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    try:
        with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_only_users_with_a_role_get_in(server: SqlServer, directory: Path) -> None:
    status, text = ask(server, directory, "/info")
    assert (status, json.loads(text)["error_code"]) == (401, 40100)
    assert ask(server, directory, "/info", login="anna:wrong")[0] == 401
    status, text = ask(server, directory, "/info", login="mallory:m")
    assert (status, json.loads(text)["error_code"]) == (403, 40300)
    assert ask(server, directory, "/info", login="anna:a")[0] == 200


def test_who_reads_changes_nothing(server: SqlServer, directory: Path) -> None:
    def ksql(text: str, login: str) -> int:
        return ask(server, directory, "/ksql", {"ksql": text}, login)[0]

    create = "CREATE STREAM p (id STRING KEY, v INT) WITH (kafka_topic='p', value_format='JSON', partitions=1);"
    assert ksql(create, "carl:c") == 403
    assert ksql(create, "anna:a") == 200
    assert ksql("SHOW STREAMS; DESCRIBE p;", "carl:c") == 200
    for text in (
        "INSERT INTO p VALUES ('x', 0);",
        "SHOW STREAMS; DROP STREAM p;",
        "ALTER SYSTEM 'ksql.connect.url'='http://elsewhere';",
        "CREATE SOURCE CONNECTOR c WITH ('connector.class'='x');",
        "TERMINATE ALL;",
    ):
        assert ksql(text, "carl:c") == 403, text
    assert ask(server, directory, "/ksql/terminate", {}, "carl:c")[0] == 403
    assert ask(server, directory, "/inserts-stream", {"target": "p"}, "carl:c")[0] == 403
    assert ksql("INSERT INTO p VALUES ('a', 1);", "anna:a") == 200
    body = {"ksql": SELECT, "streamsProperties": {"auto.offset.reset": "earliest"}}
    status, text = ask(server, directory, "/query", body, "carl:c")
    assert (status, '["a",1]' in text) == (200, True)


@pytest.mark.parametrize(("login", "status"), [("", b"403"), ("Basic Y2FybDp4", b"403"), ("Basic Y2FybDpj", b"101")])
def test_a_websocket_asks_for_the_password_too(server: SqlServer, directory: Path, login: str, status: bytes) -> None:
    trusting = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", server.port), 30) as plain,
        trusting.wrap_socket(plain, server_hostname="localhost") as asked,
    ):
        head = "GET /ws/query?request=%7B%7D HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        head += f"Authorization: {login}\r\n" if login else ""
        asked.sendall(
            f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n".encode()
        )
        assert asked.recv(4096).split(b" ")[1] == status


def test_http2_asks_for_the_password_too(server: SqlServer, directory: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    url = f"https://127.0.0.1:{server.port}/info"
    command = ["curl", "-s", "--http2", "--cacert", str(directory / "ca.pem"), "-o", "/dev/null"]
    command += ["-w", "%{http_version} %{http_code}"]
    for login, status in (("anna:x", "2 401"), ("anna:a", "2 200")):
        told = subprocess.run([*command, "-u", login, url], capture_output=True, text=True, timeout=60)
        assert told.stdout == status


def test_the_command_line_logs_in(server: SqlServer, directory: Path) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        given = [sys.executable, "-m", "barnabas", "sql", f"https://127.0.0.1:{server.port}", "-e", "SHOW TABLES;"]
        return subprocess.run([*given, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    trusted = ("--config-file", str(directory / "client.properties"))
    assert command("--user", "carl", "--password", "c", *trusted).returncode == 0
    assert "Unauthorized" in command("--user", "carl", "--password", "x", *trusted).stdout
    assert "The password of carl is missing" in command("--user", "carl", *trusted).stderr
    assert "certificate verify failed" in str(command("--user", "carl", "--password", "c"))
