"""`barnabas certs`, `barnabas up --secure` and `barnabas acl explain`: a secured node in two commands."""

from __future__ import annotations

import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.key_stores import read_key_store
from barnabas.client.security import parse_jaas
from tests.clients.test_kafkajs import modules
from tests.support import reference
from tests.support.reference import free_port

from .clusters import our_tool

__all__ = ["modules"]


def test_certificates_are_made_in_all_formats(tmp_path: Path) -> None:
    stdout, stderr, code = our_tool("barnabas", ["certs", str(tmp_path), "--hosts", "a.example,10.0.0.1"], "")
    assert (stderr, code) == ("", 0)
    assert f"ssl.keystore.location={tmp_path}/server.p12" in stdout
    pem = read_key_store((tmp_path / "server.key").read_bytes() + (tmp_path / "server.pem").read_bytes(), None)
    for kind in ("p12", "jks"):
        store = read_key_store((tmp_path / f"server.{kind}").read_bytes(), "changeit")
        assert (store.private_key, store.chain[0].strip()) == (pem.private_key, pem.chain[0].strip())
        trusted = read_key_store((tmp_path / f"truststore.{kind}").read_bytes(), "changeit").certificates
        assert [each.strip() for each in trusted] == [(tmp_path / "ca.pem").read_text().strip()]
    for secret in ("ca.key", "server.key", "server.p12", "client.jks"):
        assert stat.S_IMODE((tmp_path / secret).stat().st_mode) == 0o600
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")


def test_an_authority_is_kept_for_clients_that_come_later(tmp_path: Path) -> None:
    our_tool("barnabas", ["certs", str(tmp_path)], "")
    before = (tmp_path / "ca.pem").read_bytes()
    our_tool("barnabas", ["certs", str(tmp_path), "--clients", "anna"], "")
    assert (tmp_path / "ca.pem").read_bytes() == before
    assert (tmp_path / "anna.p12").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--password", "short"], "--password must have 6 characters at least"),
        (["--days", "0"], "--days must be between 1 and 36499."),
        (["--clients", "../x"], "--clients has '../x', which cannot be the name"),
    ],
)
def test_what_makes_no_certificate_is_refused(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    _, stderr, code = our_tool("barnabas", ["certs", str(tmp_path), *arguments], "")
    assert code == 1
    assert stderr.startswith(sentence)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A node that was started with --secure: its address, and the file for clients."""
    data = tmp_path_factory.mktemp("secure") / "data"
    port = free_port()
    up = [sys.executable, "-m", "barnabas", "up", "--secure", "--data-dir", str(data), "--port", str(port)]
    with subprocess.Popen(
        [*up, "--controller-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("Ctrl-C"):
                break
        assert said, "it ended without a word"
        assert any(line.startswith("Barnabas is up") for line in said), "".join(said)
        yield f"localhost:{port}", data.with_name("data-security") / "client.properties"
        process.send_signal(signal.SIGINT)
        process.wait(60)


def tool(secure: tuple[str, Path], name: str, *arguments: str) -> tuple[str, str, int]:
    address, file = secure
    return our_tool("barnabas", [name, *arguments, "--bootstrap-server", address, "--command-config", str(file)], "")


def test_a_secured_node_is_used_with_the_file_it_has_written(secure: tuple[str, Path]) -> None:
    assert stat.S_IMODE(secure[1].stat().st_mode) == 0o600
    assert tool(secure, "topics", "--create", "--topic", "orders")[2] == 0
    assert tool(secure, "topics", "--list")[0].split() == ["orders"]
    without = our_tool("barnabas", ["topics", "--bootstrap-server", secure[0], "--list"], "")
    assert without[2] != 0


def explain(secure: tuple[str, Path], *arguments: str) -> list[str]:
    stdout, stderr, code = tool(secure, "acl", "explain", "--principal", "User:anna", *arguments)
    assert (stderr, code) == ("", 0)
    return stdout.splitlines()


def test_access_is_explained(secure: tuple[str, Path]) -> None:
    add = ["acls", "--add", "--operation", "Read", "--topic", "ord", "--resource-pattern-type", "prefixed"]
    assert tool(secure, *add, "--allow-principal", "User:anna")[2] == 0
    deny = ["acls", "--add", "--operation", "Write", "--topic", "*", "--deny-principal", "User:anna"]
    assert tool(secure, *deny)[2] == 0
    command = f"kafka-acls --bootstrap-server {secure[0]} --command-config {secure[1]}"
    assert explain(secure, "--operation", "Read", "--topic", "$(date) 'x") == [
        "User:anna may not READ TOPIC $(date) 'x: no entry allows it.",
        f"""To allow it: {command} --add --allow-principal User:anna --operation Read --topic '$(date) '"'"'x'""",
    ]
    limit = time.monotonic() + 30
    while explain(secure, "--operation", "describe", "--topic", "orders") != [
        "User:anna may DESCRIBE TOPIC orders: the entry that allows User:anna from * READ on TOPIC ord (prefixed)."
    ]:
        assert time.monotonic() < limit
    assert explain(secure, "--operation", "Write", "--topic", "orders") == [
        "User:anna may not WRITE TOPIC orders: the entry that denies User:anna from * WRITE on TOPIC * (literal).",
        f"To allow it, remove that entry: {command} --remove --deny-principal User:anna --deny-host '*' "
        "--operation Write --topic '*'",
    ]
    assert explain(secure, "--operation", "AlterConfigs", "--cluster") == [
        "User:anna may not ALTER_CONFIGS CLUSTER kafka-cluster: no entry allows it.",
        f"To allow it: {command} --add --allow-principal User:anna --operation AlterConfigs --cluster",
    ]
    assert explain(secure, "--operation", "Read", "--topic", "x", "--super-users", "User:root;User:anna") == [
        "User:anna may READ TOPIC x: it is a super user."
    ]


def test_kafkas_own_tool_logs_in_with_the_file(secure: tuple[str, Path]) -> None:
    """SCRAM within TLS, with the trust store as Java reads it."""
    if reason := reference.available():
        pytest.skip(f"Kafka's tools are not available: {reason}")
    address, file = secure
    tool(secure, "topics", "--create", "--if-not-exists", "--topic", "orders")
    told = reference.run_tool(
        "kafka-topics", "--bootstrap-server", address, "--command-config", file, "--list", timeout_s=100
    )
    assert (told.stdout.split(), told.returncode) == (["orders"], 0), told.stderr


def test_kafkajs_logs_in_with_scram_within_tls(secure: tuple[str, Path], modules: Path) -> None:
    address, file = secure
    tool(secure, "topics", "--create", "--if-not-exists", "--topic", "orders")
    login = next(line for line in file.read_text().splitlines() if line.startswith("sasl.jaas.config="))
    right = parse_jaas(login.partition("=")[2])["password"]
    script = Path(__file__).parents[1] / "clients" / "kafkajs_secured.js"
    for password, answer in ((right, ["orders"]), ("wrong", "KafkaJSSASLAuthenticationError")):
        told = subprocess.run(
            ["node", str(script), address, str(file.with_name("ca.pem")), "admin", password, "scram-sha-512"],
            env=os.environ | {"NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout) == {"scram-sha-512": answer}


def test_a_secured_node_says_at_which_address_clients_find_it(tmp_path: Path) -> None:
    up = [sys.executable, "-m", "barnabas", "up", "--secure", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen([*up, "--host", "127.0.0.1", "--port", "0"], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        said = list(iter(node.stdout.readline, "Ctrl-C stops it.\n"))
        node.terminate()
    (told,) = (line.split()[2] for line in said if "--bootstrap-server" in line)
    assert f"  clients     {told}\n" in said
    assert told.startswith("127.0.0.1:")
