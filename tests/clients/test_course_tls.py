"""TLS as courses type it: keytool and openssl make stores with certificates that have no alternative names, and the
settings name old versions of the protocol and files beside the working directory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.tools.clusters import our_tool

PASSWORD = "changeit"
NAME = "CN=localhost,OU=Courses,O=Works,L=Town,ST=State,C=DE"
# As printed; what a person would be asked for is given.
COMMANDS = (
    "keytool -keystore server.keystore.jks -alias localhost -validity 180 -genkey -keyalg RSA {passwords}"
    " -dname {name}",
    "openssl req -new -x509 -keyout ca-key -out ca-cert -days 365 -passout pass:changeit -subj /CN=courses",
    "keytool -keystore client.truststore.jks -alias CARoot -import -file ca-cert -noprompt {password}",
    "keytool -keystore server.truststore.jks -alias CARoot -import -file ca-cert -noprompt {password}",
    "keytool -keystore server.keystore.jks -alias localhost -certreq -file cert-file {password}",
    "openssl x509 -req -CA ca-cert -CAkey ca-key -in cert-file -out cert-signed -days 180 -CAcreateserial"
    " -passin pass:changeit",
    "keytool -keystore server.keystore.jks -alias CARoot -import -file ca-cert -noprompt {password}",
    "keytool -keystore server.keystore.jks -alias localhost -import -file cert-signed -noprompt {password}",
)
SERVER = {
    "listeners": "PLAINTEXT://localhost:0,SSL://localhost:0,CONTROLLER://localhost:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.keystore.location": "server.keystore.jks",
    "ssl.keystore.password": PASSWORD,
    "ssl.key.password": PASSWORD,
    "ssl.truststore.location": "server.truststore.jks",
    "ssl.truststore.password": PASSWORD,
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1",
    "ssl.keystore.type": "JKS",
    "ssl.truststore.type": "JKS",
}


def test_the_transcript_of_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("keytool") is None or shutil.which("openssl") is None:
        pytest.skip("keytool and openssl are not on the path")
    monkeypatch.chdir(tmp_path)
    given = f"-storepass {PASSWORD}"
    for command in COMMANDS:
        typed = command.format(name=NAME, password=given, passwords=f"{given} -keypass {PASSWORD}").split()
        done = subprocess.run(typed, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    properties = ["security.protocol=SSL", "ssl.truststore.location=client.truststore.jks"]
    properties.append(f"ssl.truststore.password={PASSWORD}")
    Path("client-ssl.properties").write_text("\n".join(properties))
    with Node(SERVER) as node:
        address = f"localhost:{node.ports['SSL']}"
        to = ["--bootstrap-server", address, "--topic", "ssl-topic"]
        told = our_tool("kafka-console-producer", [*to, "--producer.config", "client-ssl.properties"], "Hello SSL\n")
        assert told[2] == 0, told
        options = ["--consumer.config", "client-ssl.properties", "--from-beginning", "--max-messages", "1"]
        told = our_tool("kafka-console-consumer", [*to, *options], "")
        assert (told[0], told[2]) == ("Hello SSL\n", 0), told
        shown = subprocess.run(
            ["openssl", "s_client", "-debug", "-connect", address, "-CAfile", "ca-cert"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
        assert "CN = localhost" in shown or "CN=localhost" in shown
        assert "Verify return code: 0 (ok)" in shown
        assert "Protocol  : TLSv1.2" in shown or "TLSv1.2, Cipher is" in shown
        warned = [line for line in node.log().splitlines() if "ssl.enabled.protocols" in line]
        assert len(warned) == 1, warned
        assert "ignoring TLSv1.1, TLSv1, which is too old" in warned[0]
