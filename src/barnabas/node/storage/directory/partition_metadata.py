"""`partition.metadata`: the topic id a partition's directory belongs to."""

from __future__ import annotations

from barnabas.node.storage.directory.files import write_atomically
from barnabas.wire.uuids import Uuid

PARTITION_METADATA = "partition.metadata"


def render_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: 0\ntopic_id: {topic_id}".encode()


def write_partition_metadata(directory: str, topic_id: Uuid, *, sync: bool = True) -> None:
    write_atomically(f"{directory}/{PARTITION_METADATA}", render_partition_metadata(topic_id), sync=sync)


def read_partition_metadata(directory: str) -> Uuid | None:
    """None if there is no such file, or one that a power failure emptied: the cluster's metadata knows the id."""
    try:
        with open(f"{directory}/{PARTITION_METADATA}", encoding="utf-8", errors="replace") as file:
            fields = dict(line.split(": ", 1) for line in file.read().splitlines() if ": " in line)
        return Uuid.parse(fields["topic_id"])
    except (FileNotFoundError, KeyError, ValueError):
        return None
