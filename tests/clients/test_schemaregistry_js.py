"""Confluent's JavaScript client from npm. It brings 170 MB, so it is fetched only if BARNABAS_NPM=1 says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from barnabas.testing.registry import Registry

PACKAGE = "@confluentinc/schemaregistry"
CACHE = Path(os.environ.get("BARNABAS_CACHE", Path.home() / ".cache" / "barnabas")) / "schemaregistry-js"


@pytest.fixture(scope="module")
def modules() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js and npm are not installed")
    if not (CACHE / "node_modules" / PACKAGE).exists():
        if os.environ.get("BARNABAS_NPM") != "1":
            pytest.skip(f"{PACKAGE} is fetched only with BARNABAS_NPM=1")
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(CACHE), f"{PACKAGE}@1"]
        subprocess.run(command, check=True, timeout=600)
    return CACHE / "node_modules"


def test_confluents_javascript_client(servers: str, topic: str, modules: Path) -> None:
    own = {"kafkastore.topic": f"_{topic}", "schema.registry.group.id": topic}
    with Registry(servers, own) as registry:
        told = subprocess.run(
            ["node", str(Path(__file__).with_name("schemaregistry_story.js")), registry.url, topic],
            env=os.environ | {"NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert told.returncode == 0, told.stderr
    schema = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "id": 1,
        "again": 1,
        "byId": json.dumps(schema, separators=(",", ":")),
        "latest": 1,
        "versions": [1],
        "subjects": [f"{topic}-value"],
        "compatible": True,
        "level": "FULL",
        "avro": {"name": "anna"},
        "json": {"name": "anna"},
        "refused": [409, 409],
        "deleted": [1],
    }
