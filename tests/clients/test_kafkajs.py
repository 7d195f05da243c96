"""kafkajs from npm. Its consumer needs groups; admin and producer are tried here, and aiokafka reads what it wrote."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from .test_aiokafka import read, run

CACHE = Path(os.environ.get("BARNABAS_CACHE", Path.home() / ".cache" / "barnabas")) / "kafkajs"


@pytest.fixture(scope="module")
def modules() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js and npm are not installed")
    if not (CACHE / "node_modules" / "kafkajs").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(CACHE), "kafkajs@2"]
        installed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if installed.returncode:
            pytest.skip(f"kafkajs cannot be installed: {installed.stderr.strip()[-200:]}")
    return CACHE / "node_modules"


def test_kafkajs_administers_and_produces(servers: str, topic: str, modules: Path) -> None:
    told = subprocess.run(
        ["node", str(Path(__file__).with_name("kafkajs_story.js")), servers, topic],
        env=os.environ | {"NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    story = json.loads(told.stdout.splitlines()[-1])
    assert story["created"] is True
    assert story["again"] is False
    assert story["offsets"] == ["0", "50"]
    assert story["retention"] == "123456"
    assert story["partitions"] == 3
    assert story["byTime"] == "20"
    assert (story["ends"]["low"], story["ends"]["high"]) == ("10", "100")
    assert story["brokers"] == 1
    records = run(lambda: read(servers, TopicPartition(topic, 1), 10, 90))
    assert [record.value for record in records[:2]] == [b"value-10", b"value-11"]
    assert records[-1].headers == (("number", b"49"),)
