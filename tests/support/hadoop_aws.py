"""Hadoop's S3A and the parts of Amazon's library that it needs, from Maven Central, kept in the reference's cache."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.reference_libs import MAVEN_TIMEOUT_S, ReferenceUnavailable, cache_dir

HADOOP_VERSION = "3.5.0"  # of PySpark's jars
SDK_VERSION = "2.35.4"  # these two are what Hadoop of this version is built with
ACCELERATOR_VERSION = "1.3.1"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>objects</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{HADOOP_VERSION}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>software.amazon.awssdk</groupId><artifactId>s3-transfer-manager</artifactId>
<version>{SDK_VERSION}</version></dependency>
<dependency><groupId>software.amazon.awssdk</groupId><artifactId>sts</artifactId><version>{SDK_VERSION}</version>
</dependency>
<dependency><groupId>software.amazon.s3.analyticsaccelerator</groupId><artifactId>analyticsaccelerator-s3</artifactId>
<version>{ACCELERATOR_VERSION}</version></dependency></dependencies></project>
"""


def hadoop_aws_jars() -> list[Path]:
    """Amazon's bundle, which Hadoop asks for, has 600 MB; S3A needs 15 of them."""
    return jars_of(f"hadoop-aws-{HADOOP_VERSION}", POM)


def jars_of(name: str, pom: str) -> list[Path]:
    """Of a project that is described by its POM, and their dependencies."""
    home = cache_dir()
    home.mkdir(parents=True, exist_ok=True)
    target = home / name
    with open(home / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _fetch(target, pom)
    return sorted(target.glob("*.jar"))


def _fetch(target: Path, pom: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ReferenceUnavailable(f"{target.name} is not in the cache and Maven is not installed")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as directory:
        (Path(directory) / "pom.xml").write_text(pom)
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={directory}/libs")
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise ReferenceUnavailable(f"Maven could not fetch {target.name}: {done.stdout[-500:]}")
        (Path(directory) / "libs").rename(target)
