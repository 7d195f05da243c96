"""What a controller's configuration and directory say about it, for a quorum that shall take it in."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cli.errors import ToolFailed
from barnabas.wire.uuids import Uuid


def controller_of(properties: Mapping[str, str], path: str) -> tuple[int, Uuid, list[tuple[str, str, int]]]:
    """Its node id, the id of its metadata directory, and its endpoints."""
    from barnabas.node.storage.directory.meta_properties import BadMetaProperties, read_meta_properties

    if "controller" not in properties.get("process.roles", ""):
        raise ToolFailed(f"{path} is not the configuration of a controller: process.roles does not name one.")
    directory = properties.get("metadata.log.dir") or properties.get("log.dirs", "").split(",")[0]
    if not directory:
        raise ToolFailed(f"{path} names no directory: neither metadata.log.dir nor log.dirs is there.")
    try:
        meta = read_meta_properties(directory)
    except BadMetaProperties as error:
        raise ToolFailed(str(error)) from None
    if meta is None:
        raise ToolFailed(f"{directory} is not formatted: kafka-storage format does that.")
    names = [name.strip() for name in properties.get("controller.listener.names", "").split(",")]
    listed = properties.get("advertised.listeners") or properties.get("listeners", "")
    endpoints = []
    for listener in listed.split(","):
        name, _, address = listener.strip().partition("://")
        host, _, port = address.rpartition(":")
        if name in names and port.isdecimal():
            endpoints.append((name, host or "localhost", int(port)))
    if not endpoints:
        raise ToolFailed(f"{path} has no listener of a controller: controller.listener.names must name one.")
    return meta.node_id, meta.directory_id, endpoints
