"""An S3 server in a process of its own: moto, from PyPI. It keeps objects in its memory."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until

LIMIT_S = 180.0  # of a busy machine
RUNNING = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


class ObjectStoreMissing(Exception):
    """moto is not installed; the text says how it can be had."""


@dataclass(frozen=True)
class ObjectStore:
    endpoint: str

    @property
    def settings(self) -> dict[str, str]:
        """As Spark gets them, behind `spark.hadoop.`."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "anna",
            "fs.s3a.secret.key": "secret",
            "fs.s3a.connection.ssl.enabled": "false",
        }

    def make_bucket(self, name: str) -> None:
        from pyarrow.fs import S3FileSystem

        from barnabas.pipelines.streams.state.remote import s3_options

        S3FileSystem(**s3_options(name, self.settings), allow_bucket_creation=True).create_dir(name)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """BARNABAS_MOTO_PYTHON may name the interpreter of another environment that has moto."""
    python = sys.executable if importlib.util.find_spec("moto") else os.environ.get("BARNABAS_MOTO_PYTHON")
    if python is None:
        raise ObjectStoreMissing("moto is not installed: pip install 'moto[s3,server]'")
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "moto.log"
        with log.open("wb") as said:
            command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
            process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            wait_until(lambda: RUNNING.search(log.read_text(errors="replace")), "the address of moto", LIMIT_S)
            found = RUNNING.search(log.read_text(errors="replace"))
            assert found is not None
            yield ObjectStore(found[1])
        finally:
            process.kill()
            process.wait()
