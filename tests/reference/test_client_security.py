"""Our client proves itself to Apache Kafka, and finds out who is not: TLS with PEM, SASL PLAIN and SCRAM."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer
from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, UnreadableAnswer
from barnabas.client.peer import Peer, PeerSettings
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings, read_properties
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support import reference

LIMIT_S = 30.0
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
PASSWORD = 's=e,c "r\\et'


class Certificates:
    """An authority, a server's and a client's certificate, and an authority that nobody trusts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = self._authority("authority")
        self.stranger = self._authority("stranger")
        self.server = self._signed("server", "IP:127.0.0.1")
        self.client = self._signed("client", "DNS:client")

    def _run(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)

    def _authority(self, name: str) -> Path:
        self._run(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
        )
        return self.directory / f"{name}.pem"

    def _signed(self, name: str, alternative: str) -> Path:
        """Key and certificate in one file, as Kafka wants them."""
        self._run(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
        )
        (self.directory / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        self._run(
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            f"{name}.csr",
            "-CA",
            "authority.pem",
            "-CAkey",
            "authority.key",
            "-CAcreateserial",
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.crt",
        )
        both = self.directory / f"{name}.pem"
        both.write_text((self.directory / f"{name}.key").read_text() + (self.directory / f"{name}.crt").read_text())
        return both


class SecureKafka:
    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory)
        self.ports = {name: reference.free_port() for name in PROTOCOLS if name not in ("PLAINTEXT", "CONTROLLER")}
        escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
        plain = f'{PLAIN_LOGIN} required user_anna="{escaped}";'
        scram = f"{SCRAM_LOGIN} required;"
        certificates = self.certificates
        port, controller_port = reference.free_port(), reference.free_port()
        listeners = [f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller_port}"]
        self.kafka = reference.ApacheKafka(
            port=port,
            controller_port=controller_port,
            properties={
                "listeners": ",".join([*listeners, *(f"{name}://127.0.0.1:{at}" for name, at in self.ports.items())]),
                "listener.security.protocol.map": ",".join(
                    f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()
                ),
                "inter.broker.listener.name": "PLAINTEXT",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(certificates.server),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(certificates.authority),
                "listener.name.mutual.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
                "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": scram,
                "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
            },
        )

    def settings(self, listener: str, **properties: str) -> ClientSettings:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        port = self.ports.get(listener, self.kafka.port)
        return ClientSettings.from_properties(
            {"default.api.timeout.ms": "10000"} | given, bootstrap_servers=f"127.0.0.1:{port}"
        )


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl, which is not there")
    made = SecureKafka(tmp_path_factory.mktemp("certificates"))
    with made.kafka, Cluster(made.settings("PLAINTEXT")) as cluster:
        for mechanism, algorithm in ((1, "sha256"), (2, "sha512")):
            salt = b"salt and pepper"
            salted = hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), salt, 4096)
            upsertion = ScramCredentialUpsertion(
                name="berta", mechanism=mechanism, iterations=4096, salt=salt, salted_password=salted
            )
            answer = cluster.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]))
            assert [result.error_code for result in answer.results] == [0]
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        assert cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0].error_code == 0
        cluster.leader("t", 0)
        yield made


def login(module: str, username: str, password: str = PASSWORD) -> str:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'{module} required username="{username}" password="{escaped}";'


def round_trip(settings: ClientSettings, value: bytes) -> None:
    """Through every kind of connection there is: bootstrap, the node's own, the producer's and the fetcher's."""
    with Producer(settings) as producer:
        offset = producer.send("t", value).result(LIMIT_S).offset
    with AssignedConsumer(settings) as consumer:
        consumer.assign({("t", 0): offset})
        assert consumer.poll(int(LIMIT_S * 1000))[0].value == value


def ask_as_peer(settings: ClientSettings) -> None:
    """The same over the asyncio driver, without asking for versions first as replica fetchers do."""

    async def story() -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        async with Peer(settings.bootstrap_servers[0], PeerSettings.from_client(settings, negotiate=False)) as peer:
            for answer in await asyncio.gather(*(peer.send(request, 12) for _ in range(8))):
                assert [topic.error_code for topic in answer.topics] == [0]

    asyncio.run(story())


def trusting(secure: SecureKafka, listener: str, authority: Path | None = None, **properties: str) -> ClientSettings:
    trust = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(authority or secure.certificates.authority),
    }
    return secure.settings(listener, **trust | properties)


def test_a_broker_is_trusted_by_its_certificate(secure: SecureKafka) -> None:
    round_trip(trusting(secure, "SSL"), b"x" * 300_000)
    ask_as_peer(trusting(secure, "SSL"))


def test_a_broker_that_nobody_vouches_for_is_not_talked_to(secure: SecureKafka) -> None:
    with (
        Cluster(trusting(secure, "SSL", secure.certificates.stranger)) as cluster,
        pytest.raises(AuthenticationFailed, match=r"^The certificate of 127\.0\.0\.1:\d+ is not trusted: .*\.$"),
    ):
        cluster.metadata()


def test_a_certificate_for_another_name_is_noticed_unless_that_is_switched_off(secure: SecureKafka) -> None:
    settings = trusting(secure, "SSL")
    by_name = ClientSettings.from_properties(
        dict(settings.properties), bootstrap_servers=f"localhost:{secure.ports['SSL']}"
    )
    with Cluster(by_name) as cluster, pytest.raises(AuthenticationFailed, match="Hostname mismatch"):
        cluster.metadata()
    careless = ClientSettings.from_properties(
        dict(settings.properties) | {"ssl.endpoint.identification.algorithm": ""},
        bootstrap_servers=f"localhost:{secure.ports['SSL']}",
    )
    with Cluster(careless) as cluster:
        assert cluster.metadata(["t"]).topics["t"].error == 0


def test_a_client_shows_its_own_certificate_from_a_file_or_from_the_properties(
    secure: SecureKafka, tmp_path: Path
) -> None:
    client = secure.certificates.client
    round_trip(trusting(secure, "MUTUAL", ssl_keystore_type="PEM", ssl_keystore_location=str(client)), b"file")
    text = client.read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    written = tmp_path / "client.properties"
    written.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.certificates={' '.join(secure.certificates.authority.read_text().splitlines())}\n"
        f"ssl.keystore.key={' '.join(text[:at].splitlines())}\n"
        "ssl.keystore.certificate.chain=" + " \\\n  ".join(text[at:].splitlines()) + "\n"
    )
    settings = ClientSettings.from_properties(
        read_properties(written), bootstrap_servers=f"127.0.0.1:{secure.ports['MUTUAL']}"
    )
    round_trip(settings, b"inline")


def test_a_client_without_a_certificate_is_not_let_in(secure: SecureKafka) -> None:
    with Cluster(trusting(secure, "MUTUAL")) as cluster, pytest.raises(ClientError):
        cluster.metadata()


@pytest.mark.parametrize(
    ("mechanism", "module", "username"),
    [("PLAIN", PLAIN_LOGIN, "anna"), ("SCRAM-SHA-256", SCRAM_LOGIN, "berta"), ("SCRAM-SHA-512", SCRAM_LOGIN, "berta")],
)
def test_a_login_is_taken_and_a_wrong_one_is_not(
    secure: SecureKafka, mechanism: str, module: str, username: str
) -> None:
    base = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    right = secure.settings("SASL_PLAINTEXT", **base, sasl_jaas_config=login(module, username))
    round_trip(right, mechanism.encode())
    ask_as_peer(right)
    for wrong in (login(module, username, "guess"), login(module, "nobody")):
        with (
            Cluster(secure.settings("SASL_PLAINTEXT", **base, sasl_jaas_config=wrong)) as cluster,
            pytest.raises(AuthenticationFailed, match=r"^127\.0\.0\.1:\d+ refused the login of (anna|berta|nobody): "),
        ):
            cluster.metadata()
    with pytest.raises(AuthenticationFailed, match=r"^127\.0\.0\.1:\d+ refused the login of nobody: "):
        ask_as_peer(secure.settings("SASL_PLAINTEXT", **base, sasl_jaas_config=login(module, "nobody")))


def test_a_login_goes_through_tls(secure: SecureKafka) -> None:
    properties = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_jaas_config": login(SCRAM_LOGIN, "berta"),
    }
    round_trip(trusting(secure, "SASL_SSL", **properties), b"both")
    ask_as_peer(trusting(secure, "SASL_SSL", **properties))
    plain = properties | {"sasl_mechanism": "PLAIN", "sasl_jaas_config": login(PLAIN_LOGIN, "anna")}
    with (
        Cluster(trusting(secure, "SASL_SSL", **plain)) as cluster,
        pytest.raises(AuthenticationFailed, match=r"does not take PLAIN; it offers SCRAM-SHA-512\.$"),
    ):
        cluster.metadata()


def test_the_wrong_protocol_is_said_to_be_so(secure: SecureKafka) -> None:
    quick = {"request_timeout_ms": "3000", "default_api_timeout_ms": "3000"}
    with (
        Cluster(secure.settings("SSL", **quick)) as cluster,
        pytest.raises((BrokerUnreachable, UnreadableAnswer), match=r"TLS|security\.protocol is PLAINTEXT"),
    ):
        cluster.metadata()
    with Cluster(secure.settings("SASL_PLAINTEXT", **quick)) as cluster, pytest.raises(BrokerUnreachable):
        cluster.metadata()
    with Cluster(trusting(secure, "PLAINTEXT", **quick)) as cluster, pytest.raises(ClientError, match="speak TLS"):
        cluster.metadata()
