"""How this node logs in at other nodes: by the protocol of the listener it talks to, with the broker's own keys."""

from __future__ import annotations

from barnabas.client.errors import InvalidSetting
from barnabas.client.security import SecuritySettings
from barnabas.node.configuration import BrokerConfig, ConfigError
from barnabas.node.configuration.listeners import SecurityProtocol


def peer_security(config: BrokerConfig, listener: str, mechanism_key: str) -> SecuritySettings:
    """`mechanism_key` names the SASL mechanism: that of controllers or that between brokers."""
    protocol = config.listener_security_protocol_map.get(listener, SecurityProtocol.PLAINTEXT)
    if protocol is SecurityProtocol.PLAINTEXT:
        return SecuritySettings()
    mechanism = str(config.value(mechanism_key))
    prefix = f"listener.name.{listener.lower()}."
    given = {key: text for key, text in config.properties.items() if key.startswith(("ssl.", "sasl."))}
    given |= {key.removeprefix(prefix): text for key, text in config.properties.items() if key.startswith(prefix)}
    given |= {"security.protocol": protocol.name, "sasl.mechanism": mechanism}
    login = given.get(f"{mechanism.lower()}.sasl.jaas.config")
    if login is not None:
        given["sasl.jaas.config"] = login
    try:
        return SecuritySettings.from_properties(given)
    except InvalidSetting as error:
        raise ConfigError(f"This node cannot log in at the listener {listener} of other nodes: {error}") from error
