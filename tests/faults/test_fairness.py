"""No request keeps another client waiting for more than 50 ms, whatever it asks for and however much of it.

Requests of all APIs are drawn at their size limits, and those that once stopped the node are sent; a second client asks
for next to nothing meanwhile. What counts is the processor time that the node's loop spent while the second client
waited: on an idle machine the client would wait that long. The machine that runs this is not idle, and its processor
does less in a millisecond then: `FACTOR` times the limit is allowed, and a request is at fault if it exceeds that three
times in a row.

Half a minute; BARNABAS_FAIRNESS_S=600 goes on for ten. BARNABAS_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.node.handlers import HANDLERS
from barnabas.testing import Node
from barnabas.wire.apis import APIS, message_classes
from barnabas.wire.primitives import MAX_REQUEST_ELEMENTS
from barnabas.wire.schema import Struct
from tests.support.hostile_requests import TOPIC, hostile_requests, prepare
from tests.support.large_requests import LargeRequests, Naming, array_paths
from tests.support.second_client import SecondClient, disturb

SECONDS = float(os.environ.get("BARNABAS_FAIRNESS_S", "30"))
LIMIT_MS = 50
FACTOR = 3
ATTEMPTS = 3
HOST = "127.0.0.1"
MIB = 1 << 20
# 100,000 elements are some 50 MB of objects, and some requests have an answer as large beside them.
MEMORY_BYTES = 400 * MIB
# They would, rightly, make the node another one.
SPARED = {33, 44, 57}
# What the quorum and other nodes say needs more than a connection.
CLIENTS = [key for key, api in HANDLERS.items() if key not in SPARED and APIS[key].broker and "vote" not in api.module]


@contextmanager
def node_and_second_client() -> Iterator[tuple[Node, SecondClient]]:
    config = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
    with Node(config) as node:
        with node.connect() as connection:
            prepare(connection)
        with SecondClient(HOST, node.port, node.pid) as second:
            yield node, second


def busy_ms(second: SecondClient, node: Node, frames: Sequence[bytes], limit_ms: float) -> float:
    """The least of up to three attempts; one that is within the limit is enough."""
    least = float("inf")
    for _ in range(ATTEMPTS):
        least = min(least, disturb(second, HOST, node.port, frames).longest_busy_ms)
        if least <= limit_ms:
            break
    return least


def elements(value: Any) -> int:
    if isinstance(value, list):
        return len(value) + sum(map(elements, value))
    if isinstance(value, Struct):
        return sum(map(elements, value.__dict__.values()))
    return 0


def peak_bytes(pid: int) -> int:
    """The most memory that the process has had so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError("VmHWM")


def drawn_request(source: random.Random, maker: LargeRequests) -> tuple[str, bytes]:
    api_key = source.choice(CLIENTS)
    cls = message_classes(api_key)[0]
    offered = APIS[api_key].broker
    assert offered is not None
    version = source.randint(max(offered[0], cls.valid_versions[0]), offered[1])
    paths = list(array_paths(cls, version))
    if not paths:
        return drawn_request(source, maker)
    path, naming = source.choice(paths), source.choice(list(Naming))
    few, more = (elements(maker.request(cls, version, path, count, naming)) for count in (1, 2))
    count = (MAX_REQUEST_ELEMENTS - few) // (more - few)
    where = ".".join(each.name for each in path)
    name = f"{APIS[api_key].name} v{version}, {count} {naming.value} {where}"
    return name, maker.frame(cls, version, path, count, naming)


@pytest.mark.timeout(180 + 4 * SECONDS)
def test_requests_at_their_size_limits_keep_nobody_waiting() -> None:
    seed = int(os.environ.get("BARNABAS_SEED", random.randrange(1 << 30)))
    print(f"BARNABAS_SEED={seed}")
    source, slow = random.Random(seed), []
    with node_and_second_client() as (node, second):
        maker = LargeRequests(seed, [TOPIC, "another"])
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            name, frame = drawn_request(source, maker)
            took_ms = busy_ms(second, node, [frame], FACTOR * LIMIT_MS)
            print(f"{took_ms:6.1f} ms: {name}")
            if took_ms > FACTOR * LIMIT_MS:
                slow.append(f"{name}: {took_ms:.0f} ms")
            assert node.running, name
        peak, said = peak_bytes(node.pid), node.log()
    assert not slow
    assert peak < MEMORY_BYTES
    assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:5000]


@pytest.mark.timeout(400)
def test_requests_that_once_stopped_the_node_keep_nobody_waiting() -> None:
    slow = []
    with node_and_second_client() as (node, second):
        for name, make in hostile_requests(node_id=1).items():
            took_ms = busy_ms(second, node, make(), FACTOR * LIMIT_MS)
            print(f"{took_ms:6.1f} ms: {name}")
            if took_ms > FACTOR * LIMIT_MS:
                slow.append(f"{name}: {took_ms:.0f} ms")
        said = node.log()
    assert not slow
    assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:5000]
