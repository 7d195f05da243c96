"""All tests, three at a time. What fails beside other tests is run once more alone, and told in any case.

Many tests wait for other processes, so that three at a time keep two cores busy; on a small machine they may starve one
of these processes. A test that passes alone did not find a defect of what it tests, but it is not as robust as it
should be: it is named at the end. More than `RETRIED_MAX` failures are no accident, and are not repeated.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS_FAILED = 1
RETRIED_MAX = 8


def run(*arguments: str, failed: Path) -> int:
    environment = {**os.environ, "BARNABAS_FAILED_TESTS": str(failed)}
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        failed = Path(directory) / "failed"
        code = run("-n", "3", "--dist", "loadfile", "--durations=30", *sys.argv[1:], failed=failed)
        names = failed.read_text().splitlines() if failed.exists() else []
        if code != TESTS_FAILED or not 0 < len(names) <= RETRIED_MAX:
            return code
        print(f"\n{len(names)} tests failed beside others; each is run once more alone.", flush=True)
        code = run("-p", "no:xdist", *names, failed=failed)
        if code == 0:
            print("These tests failed beside others and passed alone. Make them robust:", *names, sep="\n  ")
        return code


if __name__ == "__main__":
    sys.exit(main())
