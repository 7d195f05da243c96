"""Keys that Kafka does not have. Nobody is shown them who has not set them."""

from __future__ import annotations

from barnabas.node.configuration.definition import BOOLEAN, CLUSTER_WIDE, INT, STRING, Definition, at_least, one_of

VALIDATE_RECORDS = "records"
VALIDATE_HEADERS = "headers"

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "barnabas.answer.max.bytes",
        INT,
        104_857_600,
        "Most bytes that an answer may have, those to fetches aside, which fetch.max.bytes bounds: a request whose "
        "answer would have more gets an error, or its connection is closed.",
        at_least(1024),
        internal=True,
    ),
    Definition(
        "barnabas.audit.allowed",
        BOOLEAN,
        False,
        "Whether the audit also has a line for each right that a principal has used, which `barnabas acl learn` reads.",
        internal=True,
    ),
    Definition(
        "barnabas.audit.topic",
        STRING,
        "",
        "Topic into which the lines of the audit are written, beside the logger barnabas.audit; empty: none.",
        internal=True,
    ),
    Definition(
        "barnabas.fetch.session.max.partitions",
        INT,
        200_000,
        "Most partitions that all fetch sessions together remember, of about 0.4 KB each, and one session a quarter of "
        "them: who finds no room fetches without a session.",
        at_least(0),
        internal=True,
    ),
    Definition(
        "barnabas.produce.validation",
        STRING,
        VALIDATE_RECORDS,
        "What is checked of a client's batch: 'headers' means header and checksum, 'records' also that it can be "
        "decompressed and holds the records that its header counts.",
        one_of(VALIDATE_RECORDS, VALIDATE_HEADERS),
        update=CLUSTER_WIDE,
        internal=True,
    ),
    Definition(
        "barnabas.request.max.elements",
        INT,
        100_000,
        "Most elements that all arrays of a request together may have, integers included, of about 0.5 KB each while "
        "it is served: the connection of a request that has more is closed.",
        at_least(1000),
        internal=True,
    ),
)
