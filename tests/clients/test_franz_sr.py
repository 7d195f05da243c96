"""franz-go's registry client. Compiling takes a minute or two, so it is done only if BARNABAS_GO=1 says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.testing.registry import Registry

SOURCE = Path(__file__).parent / "franz_sr"
CACHE = Path(os.environ.get("BARNABAS_CACHE", Path.home() / ".cache" / "barnabas")) / "franz-sr"


@pytest.fixture(scope="module")
def program() -> Path:
    if not CACHE.exists():
        if shutil.which("go") is None:
            pytest.skip("Go is not installed")
        if os.environ.get("BARNABAS_GO") != "1":
            pytest.skip("franz-go's client is compiled only with BARNABAS_GO=1")
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(CACHE), "."], cwd=SOURCE, check=True, timeout=600)
    return CACHE


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
