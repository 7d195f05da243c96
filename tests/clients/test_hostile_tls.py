"""What strangers do to a listener with TLS that asks for certificates, on raw sockets: nobody gets in, and an honest
client does."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from barnabas.client.certificates import make_certificates
from barnabas.testing import Node
from tests.support.waiting import wait_until

API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
FRAME = struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS
FROM_ONE_ADDRESS = 20


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, ["localhost", "127.0.0.1"], ["anna"], password="changeit", days=2)
    make_certificates(directory / "foreign", ["localhost"], ["anna"], password="changeit", days=2)
    return directory


@pytest.fixture(scope="module")
def node(certificates: Path) -> Iterator[Node]:
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(certificates / "server.p12"),
        "ssl.keystore.password": "changeit",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "ssl.client.auth": "required",
        "max.connections.per.ip": FROM_ONE_ADDRESS,
    }
    with Node(config) as node:
        yield node


def context(certificates: Path, own: Path | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    made.minimum_version = made.maximum_version = version
    if own is not None:
        made.load_cert_chain(own.with_suffix(".pem"), own.with_suffix(".key"))
    return made


class Met(NamedTuple):
    """What a client met whose request was answered."""

    session: ssl.SSLSession | None
    is_resumed: bool | None


def meet(node: Node, made: ssl.SSLContext, session: ssl.SSLSession | None = None) -> Met | None:
    """None if the client is refused; with TLS 1.3 it learns of that late."""
    with socket.create_connection(("127.0.0.1", node.ports["SSL"]), timeout=20) as plain:
        try:
            with made.wrap_socket(plain, server_hostname="localhost", session=session) as wrapped:
                wrapped.sendall(FRAME)
                return Met(wrapped.session, wrapped.session_reused) if wrapped.recv(4) else None
        except OSError:
            return None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_only_a_certificate_of_the_authority_gets_in(
    node: Node, certificates: Path, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    expired = expired_certificate(certificates, tmp_path)
    foreign = certificates / "foreign" / "anna"
    assert meet(node, context(certificates, certificates / "anna", version))
    for own in (None, foreign, expired):
        assert not meet(node, context(certificates, own, version)), own
    assert meet(node, context(certificates, certificates / "anna", version))


def expired_certificate(certificates: Path, directory: Path) -> Path:
    """Signed by the authority, over since yesterday."""
    authority = x509.load_pem_x509_certificate((certificates / "ca.pem").read_bytes())
    signer = load_pem_private_key((certificates / "ca.key").read_bytes(), None)
    key = generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anna")])
    began = datetime.now(UTC) - timedelta(days=3)
    made = x509.CertificateBuilder(authority.subject, name, key.public_key(), 7, began, began + timedelta(days=2))
    signed = made.sign(signer, SHA256())  # type: ignore[arg-type]
    (directory / "expired.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (directory / "expired.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return directory / "expired"


def test_sessions_are_not_resumed(node: Node, certificates: Path) -> None:
    """A certificate that is no longer trusted would come in by an old session."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        made = context(certificates, certificates / "anna", version)
        first = meet(node, made)
        assert first is not None
        if first.session is not None:
            again = meet(node, made, first.session)
            assert again is not None
            assert not again.is_resumed, version


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_handshake_is_not_done_again_on_one_connection(node: Node, certificates: Path) -> None:
    own = ["-cert", str(certificates / "anna.pem"), "-key", str(certificates / "anna.key")]
    address = f"127.0.0.1:{node.ports['SSL']}"
    told = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-connect", address, "-CAfile", str(certificates / "ca.pem"), *own],
        input="R\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "Cipher is" in told.stdout  # there was a handshake
    assert "RENEGOTIATING" in told.stderr + told.stdout
    assert "no renegotiation" in told.stderr, told.stderr


def test_half_handshakes_count_as_connections_and_the_log_says_who_did_not_speak_tls(
    node: Node, certificates: Path
) -> None:
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(socket.create_connection(("127.0.0.1", node.ports["SSL"]), timeout=20))
            for _ in range(FROM_ONE_ADDRESS)
        ]
        for number, each in enumerate(waiting):
            each.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" if number % 2 else b"")
        refused = stack.enter_context(socket.create_connection(("127.0.0.1", node.ports["SSL"]), timeout=20))
        assert is_closed(refused)
        for each in waiting:
            each.close()
        # The node sees that they are gone a moment later.
        wait_until(lambda: meet(node, context(certificates, certificates / "anna")), limit_s=20)
    with socket.create_connection(("127.0.0.1", node.ports["SSL"]), timeout=20) as plain:
        plain.sendall(FRAME)
        assert is_closed(plain)
    said = [line for line in node.log().splitlines() if "on SSL is closed" in line]
    assert len(said) == 1, said  # of this address, within a minute


def is_closed(each: socket.socket) -> bool:
    try:
        while each.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True
