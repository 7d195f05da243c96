"""TLS out of Kafka's `ssl.*` settings, for both ends of a connection: versions, ciphers, key stores and trust stores.

Whatever cannot be used is an InvalidSetting that names its key. Key stores are of any kind that Kafka reads
(`key_stores.py`), files or PEM in the settings themselves. Versions before TLS 1.2 are never spoken.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.errors import AuthenticationFailed, ClientError, ConnectionLost, InvalidSetting, TimedOut
from barnabas.client.properties import listed

if TYPE_CHECKING:
    from barnabas.client.key_stores import KeyStore

# What OpenSSL says of certificates that Java still shows, and what is to be done.
_TOO_WEAK = {
    "CA_MD_TOO_WEAK": "holds a certificate that is signed with SHA-1 or MD5, which OpenSSL takes for unsafe: "
    "have it signed anew with SHA-256.",
    "CA_KEY_TOO_SMALL": "holds a certificate of an authority whose key OpenSSL takes for too short: "
    "RSA needs 2048 bits.",
    "EE_KEY_TOO_SMALL": "holds a key that OpenSSL takes for too short: RSA needs 2048 bits.",
}
TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class OwnCertificate(NamedTuple):
    """What an end shows of itself, as PEM. The key is not encrypted: it must not be logged."""

    private_key: str
    chain: str

    def __repr__(self) -> str:
        return "OwnCertificate(...)"


def tls_versions(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Those of `ssl.enabled.protocols` that are spoken here."""
    named = listed(settings, "ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    versions = tuple(name for name in named if name in TLS_VERSIONS)
    if not versions:
        raise InvalidSetting("ssl.enabled.protocols", "names neither TLSv1.2 nor TLSv1.3, which are safe to speak.")
    return versions


def speak(context: ssl.SSLContext, versions: tuple[str, ...]) -> None:
    offered = sorted(TLS_VERSIONS[version] for version in versions)
    context.minimum_version, context.maximum_version = offered[0], offered[-1]


def choose_ciphers(context: ssl.SSLContext, names: str) -> None:
    """`names` are Java's or OpenSSL's, with commas. Those of TLS 1.3 are always offered: Python cannot choose them."""
    offered = {each["name"] for each in context.get_ciphers()}
    openssl = [_openssl_name(name.strip()) for name in names.split(",") if name.strip()]
    chosen = [name for name in openssl if name in offered and not name.startswith("TLS_")]
    if chosen:
        context.set_ciphers(":".join(chosen))
    elif openssl and not any(name.startswith("TLS_") for name in openssl):
        raise InvalidSetting("ssl.cipher.suites", f"is {names}, which names no cipher suite that is known here.")


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 to OpenSSL."""
    if "_WITH_" not in name:
        return name
    return name.removeprefix("TLS_").replace("_WITH_", "-").replace("AES_", "AES").replace("_", "-")


def trusted_certificates(settings: Mapping[str, str]) -> str | None:
    """PEM of the trust store; None if there is none."""
    store = _store(settings, "ssl.truststore", settings.get("ssl.truststore.certificates"))
    if store is None:
        return None
    name, found = store
    if not found.certificates:
        raise InvalidSetting(name, "holds no certificate.")
    return "\n".join(found.certificates)


def own_certificate(settings: Mapping[str, str]) -> OwnCertificate | None:
    """Of the key store; None if there is none."""
    key = settings.get("ssl.keystore.key")
    inline = None if key is None else f"{key}\n{settings.get('ssl.keystore.certificate.chain', '')}"
    store = _store(settings, "ssl.keystore", inline)
    if store is None:
        return None
    name, found = store
    if found.private_key is None or not found.chain:
        raise InvalidSetting(name, f"has no {'private key' if found.private_key is None else 'certificate'}.")
    return OwnCertificate(found.private_key, "\n".join(found.chain))


def _store(settings: Mapping[str, str], prefix: str, inline: str | None) -> tuple[str, KeyStore] | None:
    """The setting that names a key store, and what is in it; a store in the settings themselves is PEM."""
    from barnabas.client.key_stores import KeyStoreError, read_key_store, read_pem

    location = settings.get(f"{prefix}.location")
    key_password = settings.get("ssl.key.password")
    if inline is not None:
        name = f"{prefix}.key" if prefix == "ssl.keystore" else f"{prefix}.certificates"
        read = partial(read_pem, inline, key_password)
    elif location is not None:
        name = f"{prefix}.location"
        read = partial(read_key_store, _bytes_of(name, location), settings.get(f"{prefix}.password"), key_password)
    else:
        return None
    try:
        return name, read()
    except KeyStoreError as error:
        shown = "is" if inline is not None else f"is {location}, which is"
        raise InvalidSetting(name, f"{shown} no key store that can be read: {error}.") from None


def _bytes_of(name: str, location: str) -> bytes:
    try:
        with open(location, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidSetting(name, f"is {location}, which cannot be read: {error.strerror}.") from None


def trust(context: ssl.SSLContext, certificates: str) -> None:
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise InvalidSetting("ssl.truststore", f"holds no certificate that can be read: {error.reason}.") from None


def present(context: ssl.SSLContext, own: OwnCertificate) -> None:
    """The library reads files only, so there is one for a moment, which nobody else may open."""
    with tempfile.NamedTemporaryFile("w", prefix="barnabas-", suffix=".pem") as file:
        file.write(f"{own.private_key}\n{own.chain}\n")
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            unfit = f"has no private key and certificate that fit: {reason}."
            raise InvalidSetting("ssl.keystore", _TOO_WEAK.get(reason, unfit)) from None


def broke_handshake(error: OSError) -> bool:
    """Whether an error came out of the TLS handshake, and not from the way there."""
    return isinstance(error, (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError))


def tls_problem(peer: str, error: OSError) -> ClientError:
    """What went wrong in a TLS handshake, for its user."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(f"The certificate of {peer} is not trusted: {error.verify_message}.")
    if isinstance(error, TimeoutError):
        return TimedOut(f"{peer} did not answer the TLS handshake.")
    if isinstance(error, ssl.SSLError):
        what = error.reason or str(error)
        return AuthenticationFailed(f"TLS with {peer} failed ({what}): does this listener speak TLS?")
    return ConnectionLost(f"{peer} closed the connection in the TLS handshake: does it speak TLS?")
