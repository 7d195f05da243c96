"""Programs in Go, compiled once. That takes a minute or two, so it is done only if BARNABAS_GO=1 says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("BARNABAS_CACHE", Path.home() / ".cache" / "barnabas"))


def compiled(source: Path) -> Path:
    """The program of a directory; skips the test if there is none and it is not to be made."""
    program = CACHE / source.name.replace("_", "-")
    if not program.exists():
        if shutil.which("go") is None:
            pytest.skip("Go is not installed")
        if os.environ.get("BARNABAS_GO") != "1":
            pytest.skip(f"{source.name} is compiled only with BARNABAS_GO=1")
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(program), "."], cwd=source, check=True, timeout=600)
    return program
