"""`barnabas certs`: an authority, and certificates for brokers and clients, in all formats that clients read."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

DEFAULT_HOSTS = "localhost,127.0.0.1,::1"
PASSWORD_MIN = 6  # of Java's keytool

PARSER = Parser(
    name="certs",
    summary="Makes an authority, a certificate for brokers and one for each client: PEM, PKCS12 and JKS.",
    beyond_kafka=True,
    help_exit=0,
    positionals=(Positional(name="directory", help="Where the files are written.", completes="file"),),
    options=(
        option("--hosts", takes="names", default=DEFAULT_HOSTS, help="Names and addresses of the brokers."),
        option("--clients", takes="names", default="client", help="A certificate for each of these."),
        option("--password", takes="password", default="changeit", help="Of the key stores."),
        option("--days", takes="days", kind=int, default="365", help="How long certificates are valid."),
    ),
)


def run(parsed: Parsed) -> int:
    from barnabas.client.certificates import make_certificates

    directory = Path(parsed.rest[0])
    password, days = parsed.text("password") or "", parsed.number("days") or 0
    if len(password) < PASSWORD_MIN:
        raise UsageError(f"--password must have {PASSWORD_MIN} characters at least, or Java cannot read key stores.")
    if not 0 < days < 36_500:
        raise UsageError("--days must be between 1 and 36499.")
    hosts, clients = _names(parsed, "hosts"), _names(parsed, "clients")
    if not hosts:
        raise UsageError("--hosts must name at least one host.")
    try:
        written = make_certificates(directory, hosts, clients, password=password, days=days)
    except OSError as error:
        raise ToolFailed(f"{error.filename or directory} cannot be written: {error.strerror}.") from None
    for path in written:
        print(path)
    print(f"\nFor server.properties:\n\n{_server(directory, password)}")
    print(f"\nFor client.properties:\n\n{client_lines(directory, password)}")
    return 0


def _names(parsed: Parsed, name: str) -> list[str]:
    names = [each.strip() for each in (parsed.text(name) or "").split(",") if each.strip()]
    for each in names:
        if not re.fullmatch(r"[\w.:@*-]+", each) or each.startswith("."):
            raise UsageError(f"--{name} has '{each}', which cannot be the name of a file and of a certificate.")
    return names


def _server(directory: Path, password: str) -> str:
    return "\n".join(
        (
            f"ssl.keystore.location={directory.absolute() / 'server.p12'}",
            f"ssl.keystore.password={password}",
            f"ssl.truststore.location={directory.absolute() / 'truststore.p12'}",
            f"ssl.truststore.password={password}",
        )
    )


def client_lines(directory: Path, password: str) -> str:
    return "\n".join(
        (
            "security.protocol=SSL",
            f"ssl.truststore.location={directory.absolute() / 'truststore.p12'}",
            f"ssl.truststore.password={password}",
        )
    )
