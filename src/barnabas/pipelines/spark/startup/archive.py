"""The JVM's start-up archive: the classes that Spark loads, parsed and verified once, mapped from then on.

Made by a process of its own that starts Spark, runs small queries and dumps what was loaded; kept by versions of Java
and Spark in `~/.cache/barnabas` (or $BARNABAS_CACHE). Without it Spark starts too, more slowly: so the first program on
a machine starts without, and has it made in the background when it ends. A JVM that finds the archive not to fit its
class path leaves it alone.

`python -m barnabas.pipelines.spark.startup.archive` makes it at once, and waits for it.

The JVM archives no class of a signed jar and checks their signatures at every start. Spark's compiler of generated code
is in two of those: copies without signatures lie beside the archive, and come first on the class path.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from importlib import metadata, util
from pathlib import Path

MAKING = "Spark's start-up archive is being made in the background, once; from then on Spark starts in half the time."
MAKING_TIMEOUT_S = 900
UNUSED_S = 30 * 24 * 3600
SWITCH = "BARNABAS_SPARK_ARCHIVE"  # "off": neither made nor used
RECIPE = "3"  # how archives are made: one of another recipe is not used
SIGNED = ("janino", "commons-compiler")
SIGNATURES = (".SF", ".RSA", ".DSA", ".EC", "MANIFEST.MF")


def archive() -> Path | None:
    """Where it is; None if there is none."""
    if _is_off():
        return None
    path = archive_path()
    if not path.exists():
        return None
    with contextlib.suppress(OSError):  # in a cache that is only read
        os.utime(path)  # it is in use
    return path


def made_archive() -> Path | None:
    """Where it is, made now if it is not there yet; None if it can't be made."""
    if not _is_off() and _is_missing(path := archive_path()):
        _make(path)
    return archive()


def make_later() -> bool:
    """In the background, by a process that outlives this one and gives way to others; false if there is no need."""
    if _is_off() or not _is_missing(path := archive_path()) or _is_being_made(path):
        return False
    subprocess.Popen(
        [sys.executable, "-m", "barnabas.pipelines.spark.startup.archive"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return True


def _is_off() -> bool:
    return os.environ.get(SWITCH, "").lower() == "off"


def _is_missing(path: Path) -> bool:
    return not path.exists() and not path.with_suffix(".failed").exists()


def _is_being_made(path: Path) -> bool:
    with contextlib.suppress(OSError), open(path.with_suffix(".lock")) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def archive_path() -> Path:
    """By Java and by Spark's jars, their sizes and times: the JVM takes no archive of others, and says so aloud."""
    from barnabas.pipelines.spark.startup.java import find_java

    java, major = find_java()
    runtime = Path(java).resolve().parents[1]
    release = runtime / "release"
    home = spark_home()
    facts = ((jar.name, jar.stat()) for jar in sorted((home / "jars").glob("*.jar")))
    jars = ",".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in facts)
    identity = (str(runtime), release.read_text() if release.exists() else "", str(home), jars, RECIPE)
    digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
    root = os.environ.get("BARNABAS_CACHE")
    base = Path(root) if root else Path.home() / ".cache" / "barnabas"
    return base / "spark" / f"spark-{metadata.version('pyspark')}-java-{major}-{digest}.jsa"


def spark_home() -> Path:
    """Where PySpark is, without importing it."""
    found = util.find_spec("pyspark")
    assert found is not None, "PySpark is not installed"
    return Path(os.environ.get("SPARK_HOME") or Path(str(found.origin)).parent)


def class_path_of(archive: Path) -> str:
    """What comes first on the class path of a JVM that uses it."""
    return os.pathsep.join(map(str, sorted(_copies(archive).glob("*.jar"))))


def command_path_of(archive: Path) -> Path:
    return archive.with_suffix(".command")


def files_jar_of(archive: Path) -> Path:
    """What comes last on it; not archived, as it did not exist then."""
    return archive.with_suffix(".jar")


def remove_unused(directory: Path) -> None:
    """Archives of Sparks and Javas that nobody has started for a month: each is as large as 200 MB."""
    for path in directory.glob("spark-*.jsa"):
        if time.time() - path.stat().st_mtime > UNUSED_S:
            for file in (path, command_path_of(path), files_jar_of(path), path.with_suffix(".lock")):
                file.unlink(missing_ok=True)
            shutil.rmtree(_copies(path), ignore_errors=True)


def _copies(archive: Path) -> Path:
    return archive.with_suffix(".jars")


def _copy_unsigned(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for jar in (spark_home() / "jars").glob("*.jar"):
        if not jar.name.startswith(SIGNED):
            continue
        with zipfile.ZipFile(jar) as signed, zipfile.ZipFile(directory / jar.name, "w", zipfile.ZIP_STORED) as copy:
            for entry in signed.infolist():
                if not (entry.filename.startswith("META-INF/") and entry.filename.endswith(SIGNATURES)):
                    copy.writestr(entry, signed.read(entry))


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_missing(path):
            return
        with tempfile.TemporaryDirectory(dir=path.parent) as directory:
            made = Path(directory) / "archive.jsa"
            _copy_unsigned(_copies(path))
            try:
                problem = _dump(made, class_path_of(path))
            except subprocess.TimeoutExpired:  # a busy machine: the end of the next program tries again
                print(f"Spark's start-up archive took longer than {MAKING_TIMEOUT_S} s to make", file=sys.stderr)
                return
            if problem is None:
                for beside in (command_path_of, files_jar_of):
                    if beside(made).exists():
                        beside(made).rename(beside(path))
                made.rename(path)
                remove_unused(path.parent)
            else:
                path.with_suffix(".failed").write_text(problem)
                print(f"Spark starts without an archive, more slowly: {problem}", file=sys.stderr)


def _dump(made: Path, class_path: str) -> str | None:
    """What went wrong, if it did. The process ends its JVM and waits for it, as that writes the archive. One that takes
    too long is ended, its JVM too."""
    command = [sys.executable, "-m", "barnabas.pipelines.spark.startup.archive_queries", str(made), class_path]
    environment = os.environ | {SWITCH: "off"}
    environment.pop("PYSPARK_SUBMIT_ARGS", None)
    try:
        errors = _errors_of(command, environment)
    except OSError as error:
        return str(error)
    if not made.exists():
        return (errors.strip().splitlines() or ["the JVM wrote no archive"])[-1]
    return None


def _errors_of(command: list[str], environment: dict[str, str]) -> str:
    """What it wrote to stderr. If it takes too long, it and its children are killed."""
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=MAKING_TIMEOUT_S)[1]
        except BaseException:  # Ctrl-C, too
            os.killpg(process.pid, signal.SIGKILL)
            raise


if __name__ == "__main__":
    os.nice(10)
    made_archive()
