"""TLS."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    BOOLEAN,
    CLASS,
    LIST,
    PASSWORD,
    PER_BROKER,
    STRING,
    Definition,
    entries,
    one_of,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "ssl.allow.dn.changes", BOOLEAN, False, "Whether a new certificate put in at run time may name another subject."
    ),
    Definition(
        "ssl.allow.san.changes", BOOLEAN, False, "Whether a new certificate put in at run time may name other hosts."
    ),
    Definition(
        "ssl.cipher.suites",
        LIST,
        (),
        "Cipher suites allowed; empty allows all of the library.",
        entries,
        update=PER_BROKER,
    ),
    Definition(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must show a certificate: required, requested or none.",
        one_of("required", "requested", "none"),
        update=PER_BROKER,
    ),
    Definition(
        "ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "TLS versions allowed.", entries, update=PER_BROKER
    ),
    Definition(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How a peer's host name is checked against its certificate; empty checks nothing.",
        update=PER_BROKER,
    ),
    Definition(
        "ssl.engine.factory.class",
        CLASS,
        None,
        "Class that makes TLS engines; Java classes cannot be loaded here.",
        update=PER_BROKER,
    ),
    Definition("ssl.key.password", PASSWORD, None, "Password of the private key.", update=PER_BROKER),
    Definition(
        "ssl.keymanager.algorithm",
        STRING,
        "SunX509",
        "Algorithm of the JVM's key manager; kept for compatibility.",
        update=PER_BROKER,
    ),
    Definition("ssl.keystore.certificate.chain", PASSWORD, None, "The node's certificates in PEM.", update=PER_BROKER),
    Definition("ssl.keystore.key", PASSWORD, None, "The node's private key in PEM.", update=PER_BROKER),
    Definition("ssl.keystore.location", STRING, None, "File of the node's key and certificate.", update=PER_BROKER),
    Definition("ssl.keystore.password", PASSWORD, None, "Password of the keystore.", update=PER_BROKER),
    Definition("ssl.keystore.type", STRING, "JKS", "Format of the keystore: JKS, PKCS12 or PEM.", update=PER_BROKER),
    Definition(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "Rules that turn a certificate's subject into a user name; the first that matches counts.",
    ),
    Definition("ssl.protocol", STRING, "TLSv1.3", "TLS version preferred.", update=PER_BROKER),
    Definition(
        "ssl.provider", STRING, None, "Java security provider used for TLS; kept for compatibility.", update=PER_BROKER
    ),
    Definition(
        "ssl.secure.random.implementation",
        STRING,
        None,
        "Java random generator used for TLS; kept for compatibility.",
        update=PER_BROKER,
    ),
    Definition(
        "ssl.trustmanager.algorithm",
        STRING,
        "PKIX",
        "Algorithm of the JVM's trust manager; kept for compatibility.",
        update=PER_BROKER,
    ),
    Definition("ssl.truststore.certificates", PASSWORD, None, "Trusted certificates in PEM.", update=PER_BROKER),
    Definition("ssl.truststore.location", STRING, None, "File of the trusted certificates.", update=PER_BROKER),
    Definition("ssl.truststore.password", PASSWORD, None, "Password of the truststore.", update=PER_BROKER),
    Definition(
        "ssl.truststore.type", STRING, "JKS", "Format of the truststore: JKS, PKCS12 or PEM.", update=PER_BROKER
    ),
)
