"""What each listener asks of its clients: a certificate, a login, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.security import MECHANISMS
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig, ConfigError, ListenerEndpoint
from barnabas.node.configuration.listeners import SecurityProtocol

if TYPE_CHECKING:
    from barnabas.node.security.login import Logins
    from barnabas.node.security.tls import ListenerTls


def tls_of(config: BrokerConfig, endpoint: ListenerEndpoint) -> ListenerTls | None:
    if endpoint.security_protocol not in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL):
        return None
    from barnabas.node.security.tls import ListenerTls

    return ListenerTls(config.properties, endpoint.name)


def changed_stores_reader(config: BrokerConfig, changes: Mapping[str, str | None]) -> Callable[[], None] | None:
    """What reads the stores that listeners would have; it raises ConfigError if one of them cannot be used.

    None if no listener's stores change. To be called in a thread, as stores are decrypted."""
    named = [
        endpoint.name
        for endpoint in config.listeners
        if endpoint.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
        and any(key.startswith(f"listener.name.{endpoint.name.lower()}.ssl.") for key in changes)
    ]
    if not named:
        return None
    from barnabas.node.security.tls import check_exchange, settings_of

    before = {**config.properties, **config.dynamic_default, **config.dynamic_broker}
    properties = dict(before)
    for key, text in changes.items():
        if text is None:
            properties.pop(key, None)
        else:
            properties[key] = text

    def read() -> None:
        for name in named:
            check_exchange(settings_of(before, name), settings_of(properties, name), name)

    return read


def logins_of(config: BrokerConfig, endpoint: ListenerEndpoint, image: Callable[[], MetadataImage]) -> Logins | None:
    if endpoint.security_protocol not in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL):
        return None
    from barnabas.core.security.sasl import MECHANISM_CODES, ScramCredential
    from barnabas.node.security.jaas import plain_passwords
    from barnabas.node.security.login import Logins
    from barnabas.node.security.tokens import TokenCredentials, token_rules

    prefix = f"listener.name.{endpoint.name.lower()}."
    text = config.properties.get(f"{prefix}sasl.enabled.mechanisms") or config.text("sasl.enabled.mechanisms")
    enabled = tuple(filter(None, (each.strip() for each in (text or "GSSAPI").split(","))))
    known = tuple(mechanism for mechanism in enabled if mechanism in MECHANISMS)
    if not known:
        raise ConfigError(
            f"sasl.enabled.mechanisms={','.join(enabled)} on the listener {endpoint.name}: none of these is spoken "
            f"here; {', '.join(MECHANISMS)} are."
        )

    def credential(mechanism: str, user: str) -> ScramCredential | None:
        found = image().scram_credentials.get((MECHANISM_CODES[mechanism], user))
        if found is None:
            return None
        return ScramCredential(bytes(found.salt), bytes(found.stored_key), bytes(found.server_key), found.iterations)

    max_bytes = config.value("sasl.server.max.receive.size")
    delay_ms = config.value("connection.failed.authentication.delay.ms")
    assert isinstance(max_bytes, int)
    assert isinstance(delay_ms, int)
    bearer_tokens = None
    if "OAUTHBEARER" in known:
        from barnabas.node.security.bearer_tokens import BearerTokens

        bearer_tokens = BearerTokens.of(config, endpoint.name)
    kerberos = None
    if "GSSAPI" in known:
        from barnabas.node.security.kerberos import KerberosLogins

        kerberos = KerberosLogins.of(config, endpoint.name)
    tokens = None
    if (rules := token_rules(config)) is not None:
        tokens = TokenCredentials(rules, image)
    return Logins(
        mechanisms=known,
        passwords=plain_passwords(config.properties, endpoint.name) if "PLAIN" in known else {},
        scram_credential=credential,
        max_receive_bytes=max_bytes,
        refusal_delay_s=delay_ms / 1000,
        session_max_ms={mechanism: session_max_ms(config, prefix, mechanism) for mechanism in known},
        bearer_tokens=bearer_tokens,
        tokens=tokens,
        kerberos=kerberos,
    )


def session_max_ms(config: BrokerConfig, prefix: str, mechanism: str) -> int:
    """After which time a client has to log in again, 0 if never: of the mechanism, of the listener, or of all."""
    key = "connections.max.reauth.ms"
    text = config.properties.get(f"{prefix}{mechanism.lower()}.{key}") or config.properties.get(f"{prefix}{key}")
    try:
        return int(text if text is not None else str(config.value(key)))
    except ValueError:
        raise ConfigError(f"{key}={text} of {mechanism} cannot be used: it is a number of milliseconds.") from None
