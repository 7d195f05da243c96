"""All that secures a node, assembled: who may do what, logins and TLS of listeners, quotas."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.client.errors import BrokerUnreachable
from barnabas.client.settings import ClientSettings
from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.configuration import BrokerConfig, ConfigError, ListenerEndpoint
from barnabas.node.net.connection_rates import NODE
from barnabas.node.security.access import Access
from barnabas.node.security.audit import Audit
from barnabas.node.security.listeners import logins_of, tls_of
from barnabas.node.security.peers import peer_security
from barnabas.node.security.quotas import Quotas, QuotaWindows

if TYPE_CHECKING:
    from barnabas.node.net.server import Server
    from barnabas.node.security.audit_topic import AuditTopic
    from barnabas.node.security.login import Logins
    from barnabas.node.security.tls import ListenerTls

log = logging.getLogger("barnabas.security")


class NodeSecurity:
    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage]) -> None:
        """Key stores and passwords are read here, before anything is made on the disk. Raises ConfigError."""
        self.audit = Audit(config.node_id, learns=config.barnabas_audit_allowed)
        self.access = Access.of(config, self.audit)
        self.tls: dict[str, ListenerTls | None] = {each.name: tls_of(config, each) for each in config.listeners}
        self.logins: dict[str, Logins | None] = {each.name: logins_of(config, each, image) for each in config.listeners}
        self.quotas = Quotas(quota_windows(config))
        self._image = image
        self._server: Server | None = None

    def guard(self, server: Server, config: BrokerConfig) -> None:
        """Called when the image is loaded, before anybody is accepted."""
        self._server = server
        if self.access is not None:
            self.access.load(self._image())
        server.dispatcher.wrap([self.audit.wrap])
        self._load_quotas()
        self.reconfigure(config)

    def start_audit_topic(self, config: BrokerConfig) -> AuditTopic | None:
        """Called when clients are served: the node is one of them."""
        if not config.barnabas_audit_topic:
            return None
        from barnabas.node.security.audit_topic import AuditTopic

        def settings() -> ClientSettings:
            name = config.inter_broker_listener_name
            broker = self._image().brokers.get(config.node_id)
            endpoint = None if broker is None else broker.endpoints.get(name)
            if endpoint is None:
                raise BrokerUnreachable("this broker is not registered yet.")
            login = peer_security(config, name, "sasl.mechanism.inter.broker.protocol")
            return ClientSettings(
                bootstrap_servers=((endpoint.host, endpoint.port),), client_id=f"audit-{config.node_id}", security=login
            )

        topic = AuditTopic(config.barnabas_audit_topic, settings)
        self.audit.publish = topic.publish
        topic.start()
        return topic

    def follow(self, delta: MetadataDelta) -> None:
        """A publisher of the metadata loader."""
        if self.access is not None:
            self.access.follow(self._image(), delta)
        if delta.quotas_changed:
            self._load_quotas()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Dynamic settings have changed. Stores that cannot be read are told, and those in use stay."""
        assert self._server is not None
        self._server.rates.listener_limits = connection_limits(config)
        for name, tls in self.tls.items():
            try:
                if tls is not None and tls.reload(all_settings(config)):
                    log.info("listener %s: loaded its changed key store or trust store", name)
            except ConfigError as error:
                log.error(
                    "listener %s: could not load its key store or trust store, going on with the old ones: %s",
                    name,
                    error,
                )

    def _load_quotas(self) -> None:
        assert self._server is not None
        quotas, server = self.quotas, self._server
        was_active = quotas.is_active
        quotas.load(self._image().client_quotas)
        server.rates.limit_of = quotas.limits.of_address if quotas.limits.holds_for_addresses else None
        if quotas.is_active != was_active:
            server.dispatcher.wrap([self.audit.wrap, quotas.wrap] if quotas.is_active else [self.audit.wrap])


def all_settings(config: BrokerConfig) -> dict[str, str]:
    """All settings that were given, those that were changed while the node runs included."""
    return {**config.properties, **config.dynamic_default, **config.dynamic_broker}


def quota_windows(config: BrokerConfig) -> QuotaWindows:
    keys = (
        "quota.window.num",
        "quota.window.size.seconds",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
    )
    return QuotaWindows(*(int(str(config.value(key))) for key in keys))


def connection_limits(config: BrokerConfig) -> dict[str, float]:
    """Connections a second, of the node and of those listeners that have a limit of their own."""
    key = "max.connection.creation.rate"
    limits: dict[str, float] = {}
    if config.is_given(key):
        limits[NODE] = float(config.max_connection_creation_rate)
    for endpoint in config.listeners:
        text = config.text(_listener_key(endpoint, key))
        if text is not None:
            limits[endpoint.name] = float(text)
    return limits


def _listener_key(endpoint: ListenerEndpoint, key: str) -> str:
    return f"listener.name.{endpoint.name.lower()}.{key}"
