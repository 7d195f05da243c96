"""Where transcripts run: our node or Apache Kafka, by our tools or by Kafka's."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from barnabas.cli.catalogue import tool_of_script
from barnabas.cli.run import run_tool
from barnabas.testing import Node
from tests.support import reference

PROPERTIES = {"node.id": "1", "group.initial.rebalance.delay.ms": "0", "log.initial.task.delay.ms": "3600000"}


@contextmanager
def cluster(kind: str, properties: Mapping[str, str] | None = None) -> Iterator[Any]:
    config = PROPERTIES | dict(properties or {})
    if kind == "our node":
        with Node(config) as node:
            yield node
    else:
        with reference.ApacheKafka(properties=config) as kafka:
            yield kafka


def our_tool(script: str, arguments: list[str], stdin: str | None, bootstrap: str = "") -> tuple[str, str, int]:
    """In this process: what the script would print, and its exit code."""
    tool = tool_of_script(script)
    if script == "barnabas":
        tool, arguments = arguments[0], arguments[1:]
    assert tool is not None, f"{script} is not a tool"
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
    given = io.TextIOWrapper(io.BytesIO((stdin or "").encode()), encoding="utf-8")
    environment = {**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap} if _asks_zookeeper(arguments) else os.environ
    with (
        patch.object(sys, "stdout", streams[0]),
        patch.object(sys, "stderr", streams[1]),
        patch.object(sys, "stdin", given),
        patch.dict(os.environ, environment),
    ):
        code = run_tool(tool, arguments, program=script)
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.detach().getvalue().decode(errors="replace"))
    return texts[0], texts[1], code


def _asks_zookeeper(arguments: list[str]) -> bool:
    return any(word.lstrip("-").partition("=")[0] == "zookeeper" for word in arguments)


def names_of(running: Any, directory: Path) -> dict[str, str]:
    """What is told by name in transcripts."""
    return {
        running.bootstrap_servers: "localhost:9092",
        f"localhost:{running.port}": "localhost:9092",
        str(running.data_dir): "DATA",
        str(directory): "HERE",
    }
