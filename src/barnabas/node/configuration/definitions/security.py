"""Who may do what: authorization, principals and delegation tokens."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    CLASS,
    LONG,
    PASSWORD,
    PER_BROKER,
    STRING,
    Definition,
    at_least,
    one_of,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition("authorizer.class.name", STRING, "", "The authorizer; empty allows everything to everybody."),
    Definition(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3_600_000,
        "How often expired delegation tokens are looked for.",
        at_least(1),
    ),
    Definition(
        "delegation.token.expiry.time.ms",
        LONG,
        86_400_000,
        "How long a delegation token is valid before it must be renewed.",
        at_least(1),
    ),
    Definition(
        "delegation.token.max.lifetime.ms",
        LONG,
        604_800_000,
        "How long a delegation token can be renewed at all.",
        at_least(1),
    ),
    Definition(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "Secret with which delegation tokens are signed, the same on all nodes.",
    ),
    Definition(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Class that turns a connection's identity into a principal.",
        update=PER_BROKER,
    ),
    Definition(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "Protocol between brokers, if inter.broker.listener.name is not set.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Definition("security.providers", STRING, None, "Java security providers to register; kept for compatibility."),
)
