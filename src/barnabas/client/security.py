"""How a client proves who it is and whom it talks to: TLS and SASL settings, out of Kafka's properties.

Certificates come as PEM, in files or in the properties themselves. Java's own key stores cannot be read here and are
refused with a sentence that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import listed, one_of

if TYPE_CHECKING:
    import ssl

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TLS_VERSIONS = {"TLSv1.2": "TLSv1_2", "TLSv1.3": "TLSv1_3"}

_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JAAS_OPTION = re.compile(r'\s+([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;"\']+))')


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    trusted_certificates: str | None = None  # PEM; None: those of the system
    certificate_chain: str | None = None  # PEM, our own
    private_key: str | None = None  # PEM, our own
    private_key_password: str | None = None
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
        mechanism, username, password = "", "", ""
        if protocol.startswith("SASL"):
            mechanism = _mechanism(properties)
            username, password = _login(properties, mechanism)
        if not protocol.endswith("SSL"):
            return cls(protocol=protocol, mechanism=mechanism, username=username, password=password)
        chain, key = _own_certificate(properties)
        versions = listed(properties, "ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
        for version in versions:
            if version not in TLS_VERSIONS:
                raise InvalidSetting("ssl.enabled.protocols", f"names {version}; TLSv1.2 and TLSv1.3 are known here.")
        return cls(
            protocol=protocol,
            mechanism=mechanism,
            username=username,
            password=password,
            trusted_certificates=_trusted_certificates(properties),
            certificate_chain=chain,
            private_key=key,
            private_key_password=properties.get("ssl.key.password"),
            verify_host_name=bool(properties.get("ssl.endpoint.identification.algorithm", "https").strip()),
            tls_versions=tuple(versions),
            ciphers=":".join(listed(properties, "ssl.cipher.suites")) or None,
        )

    def ssl_context(self) -> ssl.SSLContext:
        """Made anew at each call; who connects more than once keeps it."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify_host_name
        offered = sorted(getattr(ssl.TLSVersion, TLS_VERSIONS[version]) for version in self.tls_versions)
        context.minimum_version, context.maximum_version = offered[0], offered[-1]
        try:
            if self.trusted_certificates is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=self.trusted_certificates)
        except ssl.SSLError as error:
            raise InvalidSetting("ssl.truststore", f"holds no certificate that can be read: {error.reason}.") from None
        if self.ciphers is not None:
            try:
                context.set_ciphers(self.ciphers)
            except ssl.SSLError:
                raise InvalidSetting("ssl.cipher.suites", "names no cipher suite that is known here.") from None
        if self.private_key is not None:
            _load_own_certificate(context, self)
        return context


def _load_own_certificate(context: ssl.SSLContext, security: SecuritySettings) -> None:
    """The library reads files only, so there is one for a moment, which nobody else may open."""
    import ssl
    import tempfile

    pem = f"{security.private_key}\n{security.certificate_chain or ''}\n"
    with tempfile.NamedTemporaryFile("w", prefix="barnabas-", suffix=".pem") as file:
        file.write(pem)
        file.flush()
        try:
            context.load_cert_chain(file.name, password=security.private_key_password or "")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise InvalidSetting("ssl.keystore", f"has no private key and certificate that fit: {reason}.") from None


def _mechanism(properties: Mapping[str, str]) -> str:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        default = "" if "sasl.mechanism" in properties else " (Kafka's default)"
        raise InvalidSetting(
            "sasl.mechanism", f"is {mechanism}{default}, which is not spoken here: use one of {', '.join(MECHANISMS)}."
        )
    return mechanism


def _login(properties: Mapping[str, str], mechanism: str) -> tuple[str, str]:
    text = properties.get("sasl.jaas.config")
    if text is None:
        raise InvalidSetting("sasl.jaas.config", f"is missing, and {mechanism} needs a user name and a password.")
    options = parse_jaas(text)
    for option in ("username", "password"):
        if option not in options:
            raise InvalidSetting("sasl.jaas.config", f"has no {option}.")
    return options["username"], options["password"]


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


def _trusted_certificates(properties: Mapping[str, str]) -> str | None:
    inline = properties.get("ssl.truststore.certificates")
    location = properties.get("ssl.truststore.location")
    if inline is None and location is None:
        return None
    _require_pem(properties, "ssl.truststore", inline)
    blocks = pem_blocks(inline) if inline is not None else _read_pem("ssl.truststore.location", location or "")
    certificates = [block for kind, block in blocks if kind.endswith("CERTIFICATE")]
    if not certificates:
        name = "ssl.truststore.certificates" if inline is not None else "ssl.truststore.location"
        raise InvalidSetting(name, "holds no certificate in PEM.")
    return "\n".join(certificates)


def _own_certificate(properties: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Certificate chain and private key."""
    key = properties.get("ssl.keystore.key")
    location = properties.get("ssl.keystore.location")
    if key is None and location is None:
        return None, None
    _require_pem(properties, "ssl.keystore", key)
    if key is not None:
        blocks = pem_blocks(key) + pem_blocks(properties.get("ssl.keystore.certificate.chain", ""))
    else:
        blocks = _read_pem("ssl.keystore.location", location or "")
    keys = [block for kind, block in blocks if kind.endswith("PRIVATE KEY")]
    chain = [block for kind, block in blocks if kind.endswith("CERTIFICATE")]
    if not keys or not chain:
        missing = "private key" if not keys else "certificate"
        raise InvalidSetting("ssl.keystore.key" if key is not None else "ssl.keystore.location", f"has no {missing}.")
    return "\n".join(chain), keys[0]


def _require_pem(properties: Mapping[str, str], store: str, inline: str | None) -> None:
    kind = properties.get(f"{store}.type", "PEM" if inline is not None else "JKS").strip()
    if kind.upper() != "PEM":
        raise InvalidSetting(
            f"{store}.type",
            f"is {kind}, which only Java reads: set it to PEM and give certificates and keys as PEM "
            "(`keytool -exportcert -rfc` and `openssl pkcs12` convert them).",
        )


def _read_pem(name: str, location: str) -> list[tuple[str, str]]:
    try:
        with open(location, encoding="latin-1") as file:
            return pem_blocks(file.read())
    except OSError as error:
        raise InvalidSetting(name, f"is {location}, which cannot be read: {error.strerror}.") from None


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """Kind and text of every block, with lines as OpenSSL wants them: in properties they often stand on one line."""
    found = []
    for kind, body in _PEM_BLOCK.findall(text):
        joined = "".join(body.split())
        lines = [joined[at : at + 64] for at in range(0, len(joined), 64)]
        found.append((kind, "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])))
    return found
