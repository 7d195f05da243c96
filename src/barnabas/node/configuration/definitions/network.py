"""Listeners, sockets, connections and the limits of a request."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    PER_BROKER,
    STRING,
    Definition,
    at_least,
    entries,
    some_entries,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "advertised.listeners",
        LIST,
        None,
        "The addresses told to clients and other nodes, when they differ from those bound to.",
        some_entries,
    ),
    Definition(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long a connection whose authentication failed waits before it is closed.",
        at_least(0),
    ),
    Definition(
        "connections.max.idle.ms", LONG, 600_000, "A connection on which nothing was said for this long is closed."
    ),
    Definition(
        "connections.max.reauth.ms",
        LONG,
        0,
        "After how long a SASL client must authenticate again; 0 asks for it never.",
    ),
    Definition(
        "early.start.listeners",
        LIST,
        None,
        "Listeners that open before authorization is ready, so that nodes can find each other first.",
        entries,
    ),
    Definition(
        "fetch.max.bytes",
        INT,
        57_671_680,
        "Most bytes an answer to a fetch holds, whatever the client allows.",
        at_least(1024),
    ),
    Definition("inter.broker.listener.name", STRING, None, "The listener through which brokers talk to each other."),
    Definition(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name stands for, as NAME:PROTOCOL pairs.",
        update=PER_BROKER,
    ),
    Definition(
        "listeners",
        LIST,
        ("PLAINTEXT://:9092",),
        "The addresses this node binds to, as NAME://host:port; an empty host is every interface, port 0 a free port.",
        some_entries,
        update=PER_BROKER,
    ),
    Definition(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        "Most new connections per second this broker accepts.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "max.connections",
        INT,
        INT_MAX,
        "Most connections open at once on this broker; further ones are closed at once.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Most connections open at once from one address.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Limits for particular addresses in place of max.connections.per.ip, as host:number pairs.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many incremental fetch sessions are remembered at once.",
        at_least(0),
    ),
    Definition(
        "num.network.threads",
        INT,
        3,
        "Threads of the JVM broker that read and write sockets; kept for compatibility, one event loop does that here.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes of requests in flight above which sockets are no longer read; -1 sets no limit.",
    ),
    Definition(
        "queued.max.requests", INT, 500, "Requests in flight above which sockets are no longer read.", at_least(1)
    ),
    Definition(
        "request.timeout.ms", INT, 30_000, "How long this node waits for another node's answer before it asks again."
    ),
    Definition(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "Upper end of the growing time limit for opening a connection to another node.",
    ),
    Definition(
        "socket.connection.setup.timeout.ms", LONG, 10_000, "First time limit for opening a connection to another node."
    ),
    Definition("socket.listen.backlog.size", INT, 50, "How many connections may wait to be accepted.", at_least(1)),
    Definition(
        "socket.receive.buffer.bytes",
        INT,
        102_400,
        "Receive buffer of each server socket (SO_RCVBUF); -1 leaves it to the system.",
    ),
    Definition(
        "socket.request.max.bytes",
        INT,
        104_857_600,
        "Largest request a connection may send; a larger one closes it.",
        at_least(1),
    ),
    Definition(
        "socket.send.buffer.bytes",
        INT,
        102_400,
        "Send buffer of each server socket (SO_SNDBUF); -1 leaves it to the system.",
    ),
)
