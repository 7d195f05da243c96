"""`barnabas up --secure`: TLS, SCRAM and access control from the first start on.

At the first start certificates and the password of the user `admin` are made, in `DATA-security`; the directory of the
data is formatted with the credential. `DATA-security/client.properties` holds all that a client needs to be `admin`,
who may do everything. Everybody else needs a credential and entries of access control.
"""

from __future__ import annotations

import os
from pathlib import Path

ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLIENT_FILE = "client.properties"


def security_directory(data: Path) -> Path:
    return data.with_name(f"{data.name}-security")


def secured(properties: dict[str, str], hosts: list[str]) -> tuple[dict[str, str], Path]:
    """The node's properties with security, and the file that a client needs. Formats the directory if it is new."""
    data = Path(properties["log.dirs"])
    directory = security_directory(data)
    is_new = not (directory / CLIENT_FILE).exists()
    if is_new:
        _make(directory, hosts)
    client = _read(directory / CLIENT_FILE)
    login = client["sasl.jaas.config"]
    store_password = client["ssl.truststore.password"]
    properties = properties | {
        "listeners": properties["listeners"].replace("PLAINTEXT://", "SASL_SSL://"),
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.mechanism.controller.protocol": MECHANISM,
        f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": login,
        f"listener.name.controller.{MECHANISM.lower()}.sasl.jaas.config": login,
        "ssl.keystore.location": str(directory / "server.p12"),
        "ssl.keystore.password": store_password,
        "ssl.truststore.location": str(directory / "truststore.p12"),
        "ssl.truststore.password": store_password,
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN}",
    }
    if is_new:
        _format(properties, login)
    return properties, directory / CLIENT_FILE


def _make(directory: Path, hosts: list[str]) -> None:
    import secrets

    from barnabas.client.certificates import make_certificates

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    store_password, password = secrets.token_urlsafe(18), secrets.token_urlsafe(18)
    make_certificates(directory, hosts, [], password=store_password, days=825)
    lines = (
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={MECHANISM}",
        f'sasl.jaas.config={SCRAM_MODULE} required username="{ADMIN}" password="{password}";',
        f"ssl.truststore.location={directory / 'truststore.p12'}",
        f"ssl.truststore.password={store_password}",
    )
    number = os.open(directory / CLIENT_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(number, "w") as file:
        file.write("\n".join(lines) + "\n")


def _read(path: Path) -> dict[str, str]:
    from barnabas.node.configuration.properties import read_properties

    return dict(read_properties(str(path)))


def _format(properties: dict[str, str], login: str) -> None:
    from barnabas.cli.files.formatting import Format, format_directory, scram_credential
    from barnabas.client.security import parse_jaas
    from barnabas.core.metadata.records import FORMATTED_FEATURES, LEVEL_WRITTEN
    from barnabas.node.configuration import BrokerConfig
    from barnabas.node.storage.directory.meta_properties import read_meta_properties
    from barnabas.wire.uuids import Uuid

    config = BrokerConfig.from_properties(properties)
    path = properties["log.dirs"]
    if read_meta_properties(path) is not None:
        return  # a node without security has been here; its user is to be made with kafka-configs
    options = parse_jaas(login)
    credential = scram_credential(f"{MECHANISM}=[name={options['username']},password={options['password']}]")
    wanted = Format(str(Uuid.random()), LEVEL_WRITTEN, FORMATTED_FEATURES, [credential], is_dynamic=True)
    format_directory(path, config, wanted, is_metadata=True)
