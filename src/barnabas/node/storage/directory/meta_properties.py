"""`meta.properties`: to which cluster and node a log directory belongs, and the directory's own id."""

from __future__ import annotations

import time
from typing import NamedTuple

from barnabas.node.storage.directory.files import write_atomically
from barnabas.wire.uuids import Uuid

META_PROPERTIES = "meta.properties"


class BadMetaProperties(Exception):
    """The file is there and is not one we understand."""


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: Uuid


def read_meta_properties(directory: str) -> MetaProperties | None:
    path = f"{directory}/{META_PROPERTIES}"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            properties = parse_properties(file.read())
    except FileNotFoundError:
        return None
    if properties.get("version") != "1":
        raise BadMetaProperties(f"{path} has version {properties.get('version')}, only version 1 is supported")
    try:
        directory_id = Uuid.parse(properties["directory.id"])
        return MetaProperties(properties["cluster.id"], int(properties["node.id"]), directory_id)
    except KeyError as missing:
        raise BadMetaProperties(f"{path} lacks {missing.args[0]}") from None
    except ValueError as error:
        raise BadMetaProperties(f"{path}: {error}") from None


def write_meta_properties(directory: str, meta: MetaProperties) -> None:
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    lines = (
        "#",
        f"#{date}",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={meta.directory_id}",
        f"node.id={meta.node_id}",
        "version=1",
    )
    write_atomically(f"{directory}/{META_PROPERTIES}", "".join(f"{line}\n" for line in lines).encode())


def parse_properties(text: str) -> dict[str, str]:
    """The part of Java's format that is met here: comments, `key=value` and escaped separators."""
    properties = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            key, _, value = stripped.partition("=")
            properties[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return properties
