"""From the command line to a cluster: the address, the file with the client's properties, and nearest names.

The older courses type `--zookeeper HOST:2181`. Kafka's warning of that time is printed, and the tool goes on with
BARNABAS_BOOTSTRAP_SERVERS or localhost:9092, so that their transcripts run as printed, and says which it asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Option, Parsed, option

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.settings import ClientSettings

ENVIRONMENT = "BARNABAS_BOOTSTRAP_SERVERS"
DEFAULT_SERVER = "localhost:9092"

BOOTSTRAP_SERVER = option(
    "--bootstrap-server",
    "--bootstrap-servers",
    "--broker-list",
    takes="host:port,...",
    help="The brokers to ask first; one that cannot be reached is passed over.",
)
BOOTSTRAP_SERVER_ONLY = option(
    "--bootstrap-server", "--bootstrap-servers", takes="host:port,...", help=BOOTSTRAP_SERVER.help
)
BOOTSTRAP_CONTROLLER = option(
    "--bootstrap-controller", takes="host:port,...", help="Controllers to ask instead of brokers."
)
COMMAND_CONFIG = option(
    "--command-config",
    "--admin.config",
    takes="file",
    help="A file with the client's properties: security.protocol, sasl.*, ssl.* and others.",
    completes="file",
)
ZOOKEEPER = option(
    "--zookeeper", takes="host:port", help="Of older versions: warns, and asks the local broker.", hidden=True
)
OUTPUT = option(
    "--output",
    takes="format",
    help="How listings and descriptions are printed: as Kafka's tool does, or as JSON.",
    choices=("text", "json"),
    default="text",
    beyond_kafka=True,
)

# Of nearly every tool. `--broker-list` is a list of brokers' ids in some: these take CONNECTION_WITHOUT_LIST.
CONNECTION: tuple[Option, ...] = (BOOTSTRAP_SERVER, COMMAND_CONFIG, ZOOKEEPER)
CONNECTION_WITHOUT_LIST: tuple[Option, ...] = (BOOTSTRAP_SERVER_ONLY, COMMAND_CONFIG, ZOOKEEPER)

ZOOKEEPER_WARNING = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
    "Use --bootstrap-server instead to specify a broker to connect to."
)


def wants_json(parsed: Parsed) -> bool:
    return parsed.text("output") == "json"


def bootstrap(parsed: Parsed, *, missing: str | None = 'Missing required argument "[bootstrap-server]"') -> str:
    """The address to begin with. `missing` is what is said without one; None goes on with localhost:9092."""
    declared = {each.name for each in parsed.parser.options}
    for name in ("bootstrap-server", "bootstrap-controller"):
        if name in declared and name in parsed:
            return parsed.text(name) or ""
    if "zookeeper" in declared and "zookeeper" in parsed:
        asked = os.environ.get(ENVIRONMENT, DEFAULT_SERVER)
        told = f"{parsed.text('zookeeper')} is not asked, because no ZooKeeper is needed: {asked} is."
        print(f"{ZOOKEEPER_WARNING}\n{told}", file=sys.stderr)
        return asked
    if address := os.environ.get(ENVIRONMENT):
        return address
    if missing is not None:
        raise UsageError(missing)
    return DEFAULT_SERVER


def properties_of(parsed: Parsed, *, file: str = "command-config", pairs: str | None = None) -> dict[str, str]:
    """The client's properties: of the file, and of the `key=value` pairs of the option `pairs`, which win."""
    properties: dict[str, str] = {}
    if path := parsed.text(file):
        from barnabas.client.settings import read_properties

        properties |= read_properties(path)
    if pairs is not None:
        properties |= key_values(parsed.texts(pairs))
    return properties


def key_values(pairs: Iterable[str]) -> dict[str, str]:
    """`a=b` pairs; a pair without `=` has an empty value."""
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def settings(
    parsed: Parsed, *, client_id: str, missing: str | None = 'Missing required argument "[bootstrap-server]"'
) -> ClientSettings:
    from barnabas.client.settings import ClientSettings

    address = bootstrap(parsed, missing=missing)
    return ClientSettings.from_properties(properties_of(parsed), bootstrap_servers=address, client_id=client_id)


def connect(parsed: Parsed, *, missing: str | None = 'Missing required argument "[bootstrap-server]"') -> Cluster:
    from barnabas.client.cluster import Cluster

    controllers = BOOTSTRAP_CONTROLLER.name in {each.name for each in parsed.parser.options} & set(parsed.given())
    chosen = settings(parsed, client_id=f"{parsed.parser.name}-tool", missing=missing)
    return Cluster(chosen, controllers=controllers)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint to add to a sentence about a name that is not there, or nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def unknown_topic(name: str, known: Iterable[str], sentence: str | None = None) -> ToolFailed:
    """What a tool says of a topic that is not there: the nearest names follow."""
    return ToolFailed((sentence or f"Topic '{name}' does not exist.") + nearest(name, known))
