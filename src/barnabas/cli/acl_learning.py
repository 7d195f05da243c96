"""What `barnabas acl learn` reads: lines of the audit, out of its topic or out of a file such as the node's log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.errors import ToolFailed
from barnabas.core.security.learning import Used
from barnabas.core.security.model import Operation, Resource, ResourceType

if TYPE_CHECKING:
    from barnabas.client.settings import ClientSettings

READ_LIMIT_S = 60.0


def used_rights(lines: Iterable[str], principal: str | None, *, with_denied: bool) -> set[Used]:
    """Lines that are none of the audit are passed over: a log has others."""
    events = {"allowed", "denied"} if with_denied else {"allowed"}
    rights: set[Used] = set()
    for line in lines:
        try:
            told = json.loads(line[line.index("{") :])
            if told["event"] not in events or principal not in (None, told["principal"]):
                continue
            resource = Resource(ResourceType[told["type"]], told["name"])
            rights.add(Used(told["principal"], Operation[told["operation"]], resource))
        except (ValueError, KeyError, TypeError):
            continue
    return rights


def lines_of_file(path: str) -> Iterator[str]:
    try:
        with Path(path).open(errors="replace") as file:
            yield from file
    except OSError as error:
        raise ToolFailed(f"{path} cannot be read: {error.strerror}.") from None


def lines_of_topic(settings: ClientSettings, topic: str) -> Iterator[str]:
    """From the start of the topic to what is its end now."""
    from barnabas.client.cluster import Cluster
    from barnabas.client.consumer import AssignedConsumer

    with Cluster(settings) as cluster:
        partitions = [(topic, number) for number in range(len(cluster.topic(topic).partitions))]
        ends = {name: at.offset for name, at in cluster.list_offsets(dict.fromkeys(partitions, -1)).items()}
        starts = {name: at.offset for name, at in cluster.list_offsets(dict.fromkeys(partitions, -2)).items()}
    deadline = time.monotonic() + READ_LIMIT_S
    with AssignedConsumer(settings) as consumer:
        consumer.assign(starts)
        while any(consumer.positions[name] < end for name, end in ends.items()):
            records = consumer.poll(1000)
            for record in records:
                if record.value is not None:
                    yield bytes(record.value).decode(errors="replace")
            if not records and time.monotonic() > deadline:
                raise ToolFailed(f"The end of {topic} was not reached within {READ_LIMIT_S:g} s.")
