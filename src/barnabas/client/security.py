"""How a client proves who it is and whom it talks to: TLS and SASL settings, out of Kafka's properties.

What both ends of a connection have to do for TLS is in `tls.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import listed, one_of

if TYPE_CHECKING:
    import ssl

    from barnabas.client.kerberos import KerberosLogin
    from barnabas.client.tls import OwnCertificate

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

_JAAS_OPTION = re.compile(r'\s+([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;"\']+))')


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    is_delegation_token: bool = False  # the login is by the id and the HMAC of one, with SCRAM
    bearer_token: Callable[[], str] | None = field(default=None, repr=False)  # of OAUTHBEARER; it may block
    kerberos: KerberosLogin | None = None  # of GSSAPI
    trusted_certificates: str | None = None  # PEM; None: those of the system
    own_certificate: OwnCertificate | None = field(default=None, repr=False)
    verify_host_name: bool = True
    tls_versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: str | None = None

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        protocol = one_of(properties, "security.protocol", "PLAINTEXT", PROTOCOLS)
        login = _login(properties) if protocol.startswith("SASL") else {}
        if not protocol.endswith("SSL"):
            return cls(protocol=protocol, **login)
        from barnabas.client.tls import own_certificate, tls_versions, trusted_certificates

        return cls(
            protocol=protocol,
            **login,
            trusted_certificates=trusted_certificates(properties),
            own_certificate=own_certificate(properties),
            verify_host_name=bool(properties.get("ssl.endpoint.identification.algorithm", "https").strip()),
            tls_versions=tls_versions(properties),
            ciphers=",".join(listed(properties, "ssl.cipher.suites")) or None,
        )

    def ssl_context(self) -> ssl.SSLContext:
        """Made anew at each call; who connects more than once keeps it."""
        import ssl

        from barnabas.client.tls import choose_ciphers, present, speak, trust

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify_host_name
        speak(context, self.tls_versions)
        if self.trusted_certificates is None:
            context.load_default_certs()
        else:
            trust(context, self.trusted_certificates)
        if self.ciphers is not None:
            choose_ciphers(context, self.ciphers)
        if self.own_certificate is not None:
            present(context, self.own_certificate)
        return context


def _mechanism(properties: Mapping[str, str]) -> str:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        default = "" if "sasl.mechanism" in properties else " (Kafka's default)"
        raise InvalidSetting(
            "sasl.mechanism", f"is {mechanism}{default}, which is not spoken here: use one of {', '.join(MECHANISMS)}."
        )
    return mechanism


def _login(properties: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the settings that are about SASL."""
    mechanism = _mechanism(properties)
    text = properties.get("sasl.jaas.config")
    if mechanism == "OAUTHBEARER":
        from barnabas.client.oauth import token_source

        options = {} if text is None else parse_jaas(text)
        return {"mechanism": mechanism, "bearer_token": token_source(properties, options)}
    if mechanism == "GSSAPI":
        from barnabas.client.kerberos import client_login

        return {"mechanism": mechanism, "kerberos": client_login(properties, {} if text is None else parse_jaas(text))}
    if text is None:
        raise InvalidSetting("sasl.jaas.config", f"is missing, and {mechanism} needs a user name and a password.")
    options = parse_jaas(text)
    for option in ("username", "password"):
        if option not in options:
            raise InvalidSetting("sasl.jaas.config", f"has no {option}.")
    return {
        "mechanism": mechanism,
        "username": options["username"],
        "password": options["password"],
        "is_delegation_token": options.get("tokenauth", "false").lower() == "true",
    }


def parse_jaas(text: str) -> dict[str, str]:
    """The options of one login: `a.LoginModule required username="x" password="y";`."""
    header = re.match(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", text, re.IGNORECASE)
    if header is None:
        raise InvalidSetting("sasl.jaas.config", "must read: a login module, 'required', options, and a semicolon.")
    options: dict[str, str] = {}
    position = header.end()
    while (option := _JAAS_OPTION.match(text, position)) is not None:
        name, double, single, bare = option.groups()
        quoted = double if double is not None else single
        options[name] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = option.end()
    if text[position:].strip() != ";":
        raise InvalidSetting("sasl.jaas.config", 'must end with one semicolon after its options, each name="value".')
    return options
