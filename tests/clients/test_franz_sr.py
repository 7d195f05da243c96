"""franz-go's registry client. Compiling takes a minute or two, so it is done only if BARNABAS_GO=1 says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from barnabas.testing.registry import Registry
from tests.support.go_programs import compiled

SOURCE = Path(__file__).parent / "franz_sr"


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled(SOURCE)


def test_franz_go(servers: str, topic: str, program: Path) -> None:
    own = {"kafkastore.topic": f"_{topic}", "schema.registry.group.id": topic}
    with Registry(servers, own) as registry:
        told = subprocess.run(
            [str(program), registry.url, f"{topic}-value"], capture_output=True, text=True, timeout=60, check=False
        )
    assert told.returncode == 0, told.stderr
    schema = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
    assert json.loads(told.stdout) == {
        "first": 1,
        "again": True,
        "refused": True,
        "second": 2,
        "compatible": True,
        "byID": json.dumps(schema, separators=(",", ":")),
        "versions": [1, 2],
        "level": "FULL",
        "id": True,
        "deleted": [1, 2],
    }
