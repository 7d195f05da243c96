"""The JVM's start-up archive: the classes that Spark loads, parsed and verified once, mapped from then on.

Made by a process of its own that starts Spark, runs two small queries and dumps what was loaded; kept by versions of
Java and Spark in `~/.cache/barnabas` (or $BARNABAS_CACHE). Without it Spark starts too, more slowly. A JVM that finds
the archive not to fit its class path leaves it alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAKING_TIMEOUT_S = 300
SWITCH = "BARNABAS_SPARK_ARCHIVE"  # "off": neither made nor used


def archive() -> Path | None:
    """Where it is, made now if it is not there yet; None if it can't be made."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return None
    path = archive_path()
    if not path.exists() and not path.with_suffix(".failed").exists():
        _make(path)
    return path if path.exists() else None


def archive_path() -> Path:
    """By Java and by Spark's jars, their sizes and times: the JVM takes no archive of others, and says so aloud."""
    import pyspark

    from barnabas.pipelines.spark.java import find_java

    java, major = find_java()
    runtime = Path(java).resolve().parents[1]
    release = runtime / "release"
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    facts = ((jar.name, jar.stat()) for jar in sorted((home / "jars").glob("*.jar")))
    jars = ",".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in facts)
    identity = (str(runtime), release.read_text() if release.exists() else "", str(home), jars)
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
    root = os.environ.get("BARNABAS_CACHE")
    base = Path(root) if root else Path.home() / ".cache" / "barnabas"
    return base / "spark" / f"spark-{pyspark.__version__}-java-{major}-{digest}.jsa"


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() or path.with_suffix(".failed").exists():
            return
        print("Making Spark's start-up archive, once; it takes about half a minute ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as directory:
            made = Path(directory) / "archive.jsa"
            problem = _dump(made)
            if problem is None:
                made.rename(path)
            else:
                path.with_suffix(".failed").write_text(problem)
                print(f"Spark starts without an archive, more slowly: {problem}", file=sys.stderr)


def _dump(made: Path) -> str | None:
    """What went wrong, if it did. The process ends its JVM and waits for it, as that writes the archive."""
    command = [sys.executable, "-m", "barnabas.pipelines.spark.archive_queries", str(made)]
    environment = os.environ | {SWITCH: "off"}
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=MAKING_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not made.exists():
        return (done.stderr.strip().splitlines() or ["the JVM wrote no archive"])[-1]
    return None
