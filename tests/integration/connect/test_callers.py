"""Connect's REST API behind TLS and passwords, Apache Connect's way and Confluent's, and from worker to worker."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from barnabas.client.certificates import make_certificates
from barnabas.testing import Node
from tests.support.waiting import wait_until

from .test_workers import QUICK, worker_class

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
STOPPED = {"connector.class": "FileStreamSink", "topics": "t", "file": "/dev/null"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    return directory


@pytest.fixture(scope="module")
def workers(node: Node, certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """Two of a group, with the users of Apache Connect's login module; passwords may have commas there."""
    directory = tmp_path_factory.mktemp("callers")
    (directory / "users").write_text("anna=a,secret\n")
    (directory / "jaas").write_text(f'KafkaConnect {{\n  {MODULE} required\n  file="{directory}/users";\n}};\n')
    settings = QUICK | {
        "group_id": "callers",
        "config_storage_topic": "callers-configs",
        "offset_storage_topic": "callers-offsets",
        "status_storage_topic": "callers-status",
        "listeners": "https://127.0.0.1:0",
        "rest_extension_classes": EXTENSION,
        "listeners_https_ssl_keystore_location": str(certificates / "server.p12"),
        "listeners_https_ssl_keystore_password": "changeit",
        "listeners_https_ssl_truststore_location": str(certificates / "ca.pem"),
    }
    made = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={directory}/jaas")
        for number in range(2):
            own = directory / str(number)
            own.mkdir()
            made.append(worker_class()(own, node.bootstrap_servers, **settings))
    for each in made:
        each.url = each.url.replace("http:", "https:")
    yield made
    for each in made:
        each.close()


def call(
    worker: Any, certificates: Path, method: str, path: str, body: Any = None, login: str | None = "anna:a,secret"
) -> tuple[int, Any]:
    headers = {"content-type": "application/json"}
    if login is not None:
        headers["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(worker.url + path, data, headers, method=method)
    is_tls = worker.url.startswith("https")
    trusting = ssl.create_default_context(cafile=str(certificates / "ca.pem")) if is_tls else None
    try:
        with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_nobody_gets_in_without_a_password(workers: list[Any], certificates: Path) -> None:
    refused = {"error_code": 401, "message": "User cannot access the resource."}
    for login in (None, "anna:wrong", "nobody:a,secret", "anna:a"):
        for path in ("/", "/connectors", "/metrics", "/admin/loggers"):
            assert call(workers[0], certificates, "GET", path, login=login) == (401, refused)
    assert call(workers[0], certificates, "GET", "/connectors")[0] == 200


def test_a_change_is_forwarded_with_the_callers_own_password(workers: list[Any], certificates: Path) -> None:
    for number, worker in enumerate(workers):
        body = {"name": f"c{number}", "config": STOPPED, "initial_state": "STOPPED"}
        assert call(worker, certificates, "POST", "/connectors", body, login="anna:wrong")[0] == 401
        status, answer = call(worker, certificates, "POST", "/connectors", body)
        assert status == 201, answer
    for worker in workers:
        wait_until(lambda: call(worker, certificates, "GET", "/connectors")[1] == ["c0", "c1"], "both know both")  # noqa: B023


def test_bodies_have_a_bound(workers: list[Any], certificates: Path) -> None:
    parts, trusting = urlsplit(workers[0].url), ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    asking = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=30, context=trusting)
    login = "Basic " + base64.b64encode(b"anna:a,secret").decode()
    asking.request("POST", "/connectors", b"", {"authorization": login, "content-length": str(5 * 1024 * 1024)})
    with asking.getresponse() as refused:
        assert (refused.status, json.loads(refused.read())["message"]) == (413, "The body is larger than 4194304 bytes")
    asking.close()
    status, _ = call(workers[0], certificates, "POST", "/connectors", b"[" * 1_000_000)
    assert status == 400


def test_the_command_line_logs_in(workers: list[Any], certificates: Path) -> None:
    def command(*words: str, password: str = "a,secret") -> subprocess.CompletedProcess[str]:
        given = [sys.executable, "-m", "barnabas", "connect", "list", "--url", workers[0].url, *words]
        environment = os.environ | {"BARNABAS_CONNECT_PASSWORD": password}
        return subprocess.run(given, capture_output=True, text=True, timeout=60, env=environment)

    trusted = ("--ca", str(certificates / "ca.pem"))
    assert command("--user", "anna", *trusted).returncode == 0
    refused = command("--user", "anna", *trusted, password="wrong")
    assert (refused.returncode, refused.stderr.strip()) == (1, "barnabas connect: User cannot access the resource.")
    assert "certificate verify failed" in command("--user", "anna").stderr


def test_roles_of_the_other_way(node: Node, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("anna: a,admin\ncarl: c,read\n")
    worker = worker_class()(
        tmp_path,
        node.bootstrap_servers,
        group_id="roles",
        authentication_method="BASIC",
        authentication_users_file=str(tmp_path / "users"),
    )
    try:
        body = {"name": "r", "config": STOPPED, "initial_state": "STOPPED"}
        assert call(worker, tmp_path, "POST", "/connectors", body, login="carl:c")[0] == 403
        assert call(worker, tmp_path, "POST", "/connectors", body, login="anna:a")[0] == 201
        assert call(worker, tmp_path, "GET", "/connectors/r", login="carl:c")[0] == 200
        assert call(worker, tmp_path, "DELETE", "/connectors/r", login="carl:c")[0] == 403
    finally:
        worker.close()
