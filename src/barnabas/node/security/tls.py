"""TLS of a listener: the context of its sockets, and the name of a client that shows a certificate.

Key store and trust store may be exchanged while the listener is open (`reload`): each handshake asks for the newest
context. Sessions are never resumed where certificates name clients, so that one whose certificate is no longer trusted
is found out when it connects again: no tickets are given out, and as sessions of TLS 1.2 are kept by the context that a
handshake begins with, which Python cannot forbid, each begins with one of its own.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import listed
from barnabas.client.tls import (
    TLS_VERSIONS,
    choose_ciphers,
    own_certificate,
    present,
    speak,
    tls_versions,
    trust,
    trusted_certificates,
)
from barnabas.core.security.model import ANONYMOUS
from barnabas.core.security.principals import InvalidRule, PrincipalRules
from barnabas.node.configuration import ConfigError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, NameAttribute

log = logging.getLogger("barnabas.net")

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

# Common name, country, locality, state, street, organization and its unit, user id, domain component.
RFC_2253 = frozenset(
    {
        *(f"2.5.4.{number}" for number in (3, 6, 7, 8, 9, 10, 11)),
        "0.9.2342.19200300.100.1.1",
        "0.9.2342.19200300.100.1.25",
    }
)


def settings_of(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    """What is given for TLS: for this listener, or else for all."""
    own = f"listener.name.{listener.lower()}."
    settings = {key: text for key, text in properties.items() if key.startswith("ssl.")}
    settings |= {key.removeprefix(own): text for key, text in properties.items() if key.startswith(f"{own}ssl.")}
    return settings


class ListenerTls:
    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._listener = listener
        settings = settings_of(properties, listener)
        named = listed(settings, "ssl.enabled.protocols")
        if old := [name for name in named if name not in TLS_VERSIONS]:
            log.warning("listener %s: ssl.enabled.protocols: ignoring %s, which is too old", listener, ", ".join(old))
        self._settings = settings
        self._newest = server_context(settings, listener)
        self._state = _state(settings)
        try:
            self._rules = PrincipalRules(settings.get("ssl.principal.mapping.rules", "DEFAULT"))
        except InvalidRule as error:
            raise ConfigError(str(error)) from error

    def reload(self, properties: Mapping[str, str]) -> bool:
        """New handshakes show and trust what the stores hold now; false if settings and files are as before."""
        settings = settings_of(properties, self._listener)
        state = _state(settings)
        if state == self._state:
            return False
        self._newest = server_context(settings, self._listener)
        self._settings, self._state = settings, state
        return True

    def context(self) -> ssl.SSLContext:
        """For one handshake."""
        newest = self._newest
        if newest.verify_mode is ssl.CERT_NONE or newest.minimum_version is ssl.TLSVersion.TLSv1_3:
            return newest
        own = _bare_context(self._settings)
        own.sni_callback = _hand_over_to(newest)
        return own

    def principal(self, transport: Any) -> str:
        """That of the certificate which the client has shown, if any; raises NoRuleApplies."""
        found = transport.get_extra_info("ssl_object")
        certificate = None if found is None else found.getpeercert(binary_form=True)
        if not certificate:
            return ANONYMOUS
        return f"User:{self._rules.name_of(distinguished_name(certificate))}"


def _hand_over_to(newest: ssl.SSLContext) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    """What to do when a client has said hello, whether it named a host or not."""

    def hand_over(connection: ssl.SSLObject, name: str | None, begun: ssl.SSLContext) -> None:
        connection.context = newest

    return hand_over


def _state(settings: Mapping[str, str]) -> tuple[object, ...]:
    """Changes whenever the settings do, or the files of the stores."""
    files = []
    for key in ("ssl.keystore.location", "ssl.truststore.location"):
        try:
            found = Path(settings[key]).stat()
            files.append((found.st_mtime_ns, found.st_size))
        except (KeyError, OSError):
            files.append((0, 0))
    return (dict(settings), *files)


def check_exchange(before: Mapping[str, str], after: Mapping[str, str], listener: str) -> None:
    """Whether a listener may show the certificate of `after` from now on; raises ConfigError if it may not.

    As in Kafka it keeps its name, and may only get more alternative names, unless `ssl.allow.dn.changes` and
    `ssl.allow.san.changes` allow others.
    """
    server_context(after, listener)
    try:
        old, new = own_certificate(before), own_certificate(after)
    except InvalidSetting:
        return  # the store in use is gone: nothing to compare
    if old is None or new is None:
        return
    from cryptography.x509 import load_pem_x509_certificates

    shown, wanted = (load_pem_x509_certificates(each.chain.encode())[0] for each in (old, new))
    if shown.subject != wanted.subject and not _is_true(after, "ssl.allow.dn.changes"):
        raise ConfigError(
            f"Keystore DistinguishedName does not match: existing={shown.subject.rfc4514_string()},"
            f" new={wanted.subject.rfc4514_string()}; ssl.allow.dn.changes=true allows it."
        )
    missing = _alternative_names(shown) - _alternative_names(wanted)
    if missing and not _is_true(after, "ssl.allow.san.changes"):
        listed = ", ".join(sorted(missing))
        raise ConfigError(
            f"Keystore SubjectAltNames do not match: the new one lacks {listed}; ssl.allow.san.changes=true allows it."
        )


def _is_true(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "false").strip().lower() == "true"


def _alternative_names(certificate: Certificate) -> set[str]:
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def server_context(settings: Mapping[str, str], listener: str) -> ssl.SSLContext:
    context = _bare_context(settings)
    try:
        own = own_certificate(settings)
        if own is None:
            raise ConfigError(f"ssl.keystore.location: the listener {listener} needs a private key and its chain.")
        present(context, own)
        trusted = trusted_certificates(settings)
        if trusted is not None:
            trust(context, trusted)
        elif context.verify_mode is not ssl.CERT_NONE:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    except InvalidSetting as error:
        raise ConfigError(str(error)) from error
    return context


def _bare_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Without key and trust."""
    auth = settings.get("ssl.client.auth", "none").strip().lower()
    if auth not in CLIENT_AUTH:
        raise ConfigError(f"ssl.client.auth={auth} cannot be used: it is none, requested or required.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    try:
        speak(context, tls_versions(settings))
        choose_ciphers(context, settings.get("ssl.cipher.suites", ""))
    except InvalidSetting as error:
        raise ConfigError(str(error)) from error
    context.verify_mode = CLIENT_AUTH[auth]
    return context


def distinguished_name(certificate: bytes) -> str:
    """As Java's X500Principal writes it (RFC 2253): attributes without a name there are shown as their bytes."""
    from cryptography.x509 import load_der_x509_certificate

    parts = load_der_x509_certificate(certificate).subject.rdns
    return ",".join("+".join(map(_attribute, part)) for part in reversed(parts))


def _attribute(attribute: NameAttribute[str | bytes]) -> str:
    if attribute.oid.dotted_string in RFC_2253:
        return attribute.rfc4514_string()
    value = attribute.value if isinstance(attribute.value, bytes) else attribute.value.encode()
    size = len(value)
    long_size = size.to_bytes((size.bit_length() + 7) // 8, "big")
    length = bytes([size]) if size < 128 else bytes([0x80 | len(long_size)]) + long_size
    return f"{attribute.oid.dotted_string}=#{(bytes([attribute._type.value]) + length + value).hex()}"
