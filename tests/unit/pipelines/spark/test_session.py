from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from barnabas.pipelines.spark.session import settings_for
from barnabas.pipelines.spark.startup import archive as archives
from barnabas.pipelines.spark.startup.java import JavaMissing, find_java, java_version
from barnabas.pipelines.spark.startup.jvm import JAVA_OPTIONS, command_for, kept_command, needs_submit


@pytest.fixture(autouse=True)
def without_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_SPARK_ARCHIVE", "off")
    monkeypatch.delenv("MASTER", raising=False)


def runtime(directory: Path, version: str) -> str:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    (directory / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return str(java)


def test_on_one_machine_the_session_starts_quickly_and_what_the_user_says_wins() -> None:
    settings = settings_for(
        None, {"spark.sql.shuffle.partitions": 8, "spark.ui.enabled": True}, submitted=False, quick_start=True
    )
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.sql.shuffle.partitions"] == "8"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.speculation"] == "false"
    assert "-XX:+UseSerialGC" in settings[JAVA_OPTIONS]


def test_java_options_of_the_user_come_behind_ours() -> None:
    options = settings_for("local[2]", {JAVA_OPTIONS: "-Xss4m"}, submitted=False, quick_start=True)[JAVA_OPTIONS]
    assert options.endswith(" -Xss4m")
    plain = settings_for("local[2]", {JAVA_OPTIONS: "-Xss4m"}, submitted=False, quick_start=False)
    assert plain[JAVA_OPTIONS] == "-Xss4m"


def test_on_a_cluster_shuffles_and_the_jvm_are_left_alone() -> None:
    settings = settings_for("spark://here:7077", {}, submitted=False, quick_start=True)
    assert settings["spark.master"] == "spark://here:7077"
    assert "spark.sql.shuffle.partitions" not in settings
    assert JAVA_OPTIONS not in settings
    submitted = settings_for(None, {}, submitted=True, quick_start=True)
    assert "spark.master" not in submitted
    assert submitted["spark.python.unix.domain.socket.enabled"] == "true"


def test_a_missing_java_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="needs Java 17 or newer, and there is none on the PATH: install one"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="there is none in JAVA_HOME"):
        find_java()
    runtime(tmp_path, "11.0.2")
    with pytest.raises(JavaMissing, match=r"bin/java is Java 11: install one .* or set JAVA_HOME"):
        find_java()


def test_the_version_is_read_where_the_runtime_tells_it(tmp_path: Path) -> None:
    assert java_version(runtime(tmp_path, "1.8.0_392")) == 8
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.1"')
    assert java_version(str(tmp_path / "bin" / "java")) == 21
    (tmp_path / "release").unlink()
    assert java_version(str(tmp_path / "bin" / "java")) == 0


def test_an_archive_that_could_not_be_made_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = []

    def dump(made: Path, class_path: str) -> str | None:
        tried.append(made)
        return "no room"

    monkeypatch.delenv("BARNABAS_SPARK_ARCHIVE")
    monkeypatch.setattr(archives, "archive_path", lambda: tmp_path / "cache" / "spark.jsa")
    monkeypatch.setattr(archives, "_dump", dump)
    assert archives.archive() is None
    assert tried == []
    assert archives.made_archive() is None
    assert archives.made_archive() is None
    assert len(tried) == 1
    assert not archives.make_later()
    assert (tmp_path / "cache" / "spark.failed").read_text() == "no room"
    (tmp_path / "cache" / "spark.jsa").touch()
    assert archives.archive() == tmp_path / "cache" / "spark.jsa"


def test_an_archive_that_took_too_long_is_tried_again_and_nothing_of_it_runs_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its JVM went on, and the file beside the archive kept it from ever being made."""
    here = tmp_path / "bin"
    here.mkdir()
    python = here / "python"  # with a child, as the one that starts a JVM
    python.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    python.chmod(0o755)
    monkeypatch.delenv("BARNABAS_SPARK_ARCHIVE")
    monkeypatch.setattr(archives, "archive_path", lambda: tmp_path / "cache" / "spark.jsa")
    monkeypatch.setattr(archives, "_copy_unsigned", lambda directory: None)
    monkeypatch.setattr("sys.executable", str(python))
    child = tmp_path / "child"
    for timeout_s in (0.1, 1, 10):  # on a busy machine the child is not there yet
        monkeypatch.setattr(archives, "MAKING_TIMEOUT_S", timeout_s)
        assert archives.made_archive() is None
        if child.exists() and child.read_text().endswith("\n"):
            break
    assert not (tmp_path / "cache" / "spark.failed").exists()
    deadline = time.monotonic() + 30
    while is_alive(int(child.read_text())):
        assert time.monotonic() < deadline, "the child of the process that was given up runs on"
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


KEPT = ["/usr/bin/java", "-cp", "/a.jar", "-Xmx1g", "<options>", "--add-modules=x"]


def test_the_jvm_is_started_by_the_command_kept_with_the_memory_options_and_settings_of_the_session() -> None:
    settings = {
        JAVA_OPTIONS: "-Xshare:auto -Xss4m",
        "spark.driver.memory": "512m",
        "spark.master": "local[2]",
        "x": "y",
    }
    command = command_for(KEPT, settings)
    assert command[:7] == ["/usr/bin/java", "-cp", "/a.jar", "-Xmx512m", "-Xshare:auto", "-Xss4m", "--add-modules=x"]
    assert "-Dspark.master=local[2]" in command
    assert "-Dx=y" not in command
    assert command[-1] == "org.apache.spark.api.python.PythonGatewayServer"
    assert command_for(KEPT, {})[3:5] == ["-Xmx1g", "--add-modules=x"]
    assert command_for(KEPT, {}, Path("/b.jar"))[1:3] == ["-cp", "/a.jar:/b.jar"]


@pytest.mark.parametrize(
    ("settings", "environment", "files", "needed"),
    [
        ({"spark.master": "local[2]"}, {"SPARK_LOCAL_DIRS": "/tmp"}, [], False),
        ({"spark.jars.packages": "a:b:1"}, {}, [], True),
        ({JAVA_OPTIONS: '-Da="b c"'}, {}, [], True),
        ({}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, [], True),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}, [], True),
        ({}, {}, ["spark-defaults.conf"], True),
    ],
)
def test_what_only_spark_submit_can_do_is_left_to_it(
    tmp_path: Path, settings: dict[str, str], environment: dict[str, str], files: list[str], needed: bool
) -> None:
    (tmp_path / "conf").mkdir()
    for name in files:
        (tmp_path / "conf" / name).touch()
    assert needs_submit(settings, environment, tmp_path) is needed


def test_a_command_that_was_not_kept_or_is_broken_is_none(tmp_path: Path) -> None:
    assert kept_command(tmp_path / "spark.command") is None
    (tmp_path / "spark.command").write_text("[")
    assert kept_command(tmp_path / "spark.command") is None


def test_archives_that_nobody_used_for_a_month_go_with_what_lies_beside_them(tmp_path: Path) -> None:
    for name, age_days in (("spark-old", 31), ("spark-new", 29)):
        for suffix in (".jsa", ".command", ".jar", ".lock"):
            (tmp_path / name).with_suffix(suffix).touch()
        (tmp_path / f"{name}.jars").mkdir()
        (tmp_path / f"{name}.jars" / "copy.jar").touch()
        used = time.time() - age_days * 24 * 3600
        os.utime(tmp_path / f"{name}.jsa", (used, used))
    archives.remove_unused(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {"spark-new"}
    assert len(list(tmp_path.iterdir())) == 5
