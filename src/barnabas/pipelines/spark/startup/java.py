"""The Java that Spark will use: found as Spark finds it, and old enough to be refused with a sentence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_VERSION_MIN = 17

HOW_TO_GET_IT = (
    "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to where it is"
)


class JavaMissing(RuntimeError):
    """There is no Java that Spark could run on; the text says what to do."""


def find_java() -> tuple[str, int]:
    """The executable and its major version."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise JavaMissing(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is none {where}: {HOW_TO_GET_IT}")
    major = java_version(found)
    if major < JAVA_VERSION_MIN:
        raise JavaMissing(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {found} is {f'Java {major}' if major else 'none'}: "
            f"{HOW_TO_GET_IT}"
        )
    return found, major


def java_version(executable: str) -> int:
    """The major version, out of the runtime's `release` file, which costs less than to start it; 0 if unknown."""
    release = Path(executable).resolve().parents[1] / "release"
    if release.is_file() and (match := re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release.read_text())):
        return int(match[1])
    try:
        said = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else 0
