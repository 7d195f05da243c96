"""SASL."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    Definition,
    between,
    entries,
    one_of_any_case,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition("sasl.client.callback.handler.class", CLASS, None, "Class that answers a SASL client's questions."),
    Definition(
        "sasl.enabled.mechanisms", LIST, ("GSSAPI",), "SASL mechanisms the broker offers.", entries, update=PER_BROKER
    ),
    Definition(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "Login modules and their options, in the format of a JAAS file.",
        update=PER_BROKER,
    ),
    Definition("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", "Path of Kerberos' kinit.", update=PER_BROKER),
    Definition(
        "sasl.kerberos.min.time.before.relogin",
        LONG,
        60_000,
        "Least time between two attempts to renew a Kerberos ticket.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ("DEFAULT",),
        "Rules that shorten Kerberos principals to user names; the first that matches counts.",
        entries,
        update=PER_BROKER,
    ),
    Definition("sasl.kerberos.service.name", STRING, None, "Kerberos principal the brokers run as.", update=PER_BROKER),
    Definition(
        "sasl.kerberos.ticket.renew.jitter",
        DOUBLE,
        0.05,
        "Share by which the time of a ticket's renewal varies at random.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        "Share of a ticket's life after which it is renewed.",
        update=PER_BROKER,
    ),
    Definition("sasl.login.callback.handler.class", CLASS, None, "Class that answers the questions of a login."),
    Definition("sasl.login.class", CLASS, None, "Class that carries out a login."),
    Definition("sasl.login.connect.timeout.ms", INT, None, "Time limit for connecting to the identity provider."),
    Definition("sasl.login.read.timeout.ms", INT, None, "Time limit for the identity provider's answer."),
    Definition(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "How long before it expires a credential should have been renewed.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "Least time between two renewals of a credential.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "Share of a credential's life after which it is renewed.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        0.05,
        "Share by which the time of a credential's renewal varies at random.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.login.retry.backoff.max.ms", LONG, 10_000, "Longest pause before the identity provider is asked again."
    ),
    Definition("sasl.login.retry.backoff.ms", LONG, 100, "First pause before the identity provider is asked again."),
    Definition(
        "sasl.mechanism.controller.protocol", STRING, "GSSAPI", "SASL mechanism with which nodes reach the controllers."
    ),
    Definition(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        "SASL mechanism with which brokers reach each other.",
        update=PER_BROKER,
    ),
    Definition(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        "Algorithm with which the client's assertion is signed.",
        one_of_any_case("ES256", "RS256"),
    ),
    Definition("sasl.oauthbearer.assertion.claim.aud", STRING, None, "Audience named in the client's assertion."),
    Definition(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        "How long the client's assertion is valid.",
        between(0, 86_400),
    ),
    Definition("sasl.oauthbearer.assertion.claim.iss", STRING, None, "Issuer named in the client's assertion."),
    Definition(
        "sasl.oauthbearer.assertion.claim.jti.include",
        BOOLEAN,
        False,
        "Whether the client's assertion carries an id of its own.",
    ),
    Definition(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        "How long ago the client's assertion says it became valid.",
        between(0, 3600),
    ),
    Definition("sasl.oauthbearer.assertion.claim.sub", STRING, None, "Subject named in the client's assertion."),
    Definition("sasl.oauthbearer.assertion.file", STRING, None, "File that holds a ready-made assertion."),
    Definition(
        "sasl.oauthbearer.assertion.private.key.file",
        STRING,
        None,
        "File of the key that signs the client's assertion.",
    ),
    Definition("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, "Passphrase of that key."),
    Definition(
        "sasl.oauthbearer.assertion.template.file",
        STRING,
        None,
        "File with further headers and claims of the client's assertion.",
    ),
    Definition(
        "sasl.oauthbearer.client.credentials.client.id", STRING, None, "Client id presented to the identity provider."
    ),
    Definition(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        "Client secret presented to the identity provider.",
    ),
    Definition(
        "sasl.oauthbearer.clock.skew.seconds", INT, 30, "How far the identity provider's clock may differ from ours."
    ),
    Definition("sasl.oauthbearer.expected.audience", LIST, (), "Audiences of which a token must name one.", entries),
    Definition("sasl.oauthbearer.expected.issuer", STRING, None, "Issuer a token must name."),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "How often the identity provider's keys are fetched again.",
    ),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "Longest pause before fetching those keys is tried again.",
    ),
    Definition(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "First pause before fetching those keys is tried again.",
    ),
    Definition("sasl.oauthbearer.jwks.endpoint.url", STRING, None, "Where the identity provider publishes its keys."),
    Definition(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Class that obtains tokens.",
    ),
    Definition(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "Class that checks tokens.",
    ),
    Definition("sasl.oauthbearer.scope", STRING, None, "Scope asked for with a token."),
    Definition("sasl.oauthbearer.scope.claim.name", STRING, "scope", "Claim in which a token lists its scopes."),
    Definition("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Claim in which a token names its subject."),
    Definition("sasl.oauthbearer.token.endpoint.url", STRING, None, "Where the identity provider hands out tokens."),
    Definition("sasl.server.callback.handler.class", CLASS, None, "Class that answers a SASL server's questions."),
    Definition(
        "sasl.server.max.receive.size",
        INT,
        524_288,
        "Largest message accepted from a client before it is authenticated.",
    ),
)
