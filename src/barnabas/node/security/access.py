"""What a client may: the authorizer of this node, made anew whenever the access control entries have changed."""

from __future__ import annotations

from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.core.security.authorizer import Authorizer
from barnabas.core.security.model import Operation, Resource, ResourceType
from barnabas.node.configuration import BrokerConfig, ConfigError
from barnabas.node.security.audit import Audit

AUTHORIZERS = frozenset(
    {
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
    }
)


class Access:
    def __init__(self, super_users: frozenset[str], audit: Audit, *, allow_if_no_acl: bool) -> None:
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._authorizer = Authorizer(super_users=super_users)
        self._audit = audit

    @classmethod
    def of(cls, config: BrokerConfig, audit: Audit) -> Access | None:
        """None if nothing is to be checked."""
        name = str(config.value("authorizer.class.name")).strip()
        if not name:
            return None
        if name not in AUTHORIZERS:
            known = min(AUTHORIZERS, key=len)
            raise ConfigError(f"authorizer.class.name={name} is not known here; {known} is, among others.")
        users = [user.strip() for user in config.properties.get("super.users", "").split(";")]
        for user in filter(None, users):
            if ":" not in user:
                raise ConfigError(f"super.users has '{user}', which is no principal: User:name is one.")
        lenient = config.properties.get("allow.everyone.if.no.acl.found", "false").strip().lower() == "true"
        return cls(frozenset(filter(None, users)), audit, allow_if_no_acl=lenient)

    def load(self, image: MetadataImage) -> None:
        self._authorizer = Authorizer(
            image.acls.values(), super_users=self._super_users, allow_if_no_acl=self._allow_if_no_acl
        )

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if delta.acls_changed:
            self.load(image)

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        verdict = self._authorizer.decide(principal, host, operation, resource)
        if not verdict.allowed:
            self._audit.denied(principal, host, operation, resource, verdict)
        elif self._audit.learns:
            self._audit.allowed(principal, host, operation, resource, verdict)
        return verdict.allowed

    def would_allow(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """For answers that list rights: nobody has done anything, so nothing is told to the audit."""
        return self._authorizer.allows(principal, host, operation, resource)

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        return self._authorizer.allows_any(principal, host, operation, kind)
