"""HDFS on this machine: a namenode and a datanode of Apache Hadoop, from Maven Central."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from barnabas.pipelines.spark.startup.java import find_java
from barnabas.pipelines.streams.errors import StateUnreachable
from barnabas.pipelines.streams.state.storage import Storage
from tests.support.hadoop_aws import HADOOP_VERSION, jars_of
from tests.support.waiting import wait_until

LIMIT_S = 180.0  # of a busy machine
SERVERS = "org.apache.hadoop.hdfs.server"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>barnabas</groupId><artifactId>hdfs</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-minicluster</artifactId>
<version>{HADOOP_VERSION}</version></dependency></dependencies></project>
"""


@dataclass(frozen=True)
class Hdfs:
    """By its own address and by that of its HTTP interface."""

    address: str
    http_address: str

    @property
    def settings(self) -> dict[str, str]:
        """As Spark gets them, behind `spark.hadoop.`."""
        return {"dfs.namenode.http-address": self.http_address}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def hdfs() -> Iterator[Hdfs]:
    jars = jars_of(f"hdfs-{HADOOP_VERSION}", POM)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        own = f"127.0.0.1:{free_port()}"
        made = Hdfs(f"hdfs://{own}", f"127.0.0.1:{free_port()}")
        configure(home, made)
        class_path = os.pathsep.join([str(home), *map(str, jars)])
        java = [find_java()[0], "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path]
        subprocess.run([*java, f"{SERVERS}.namenode.NameNode", "-format"], check=True, capture_output=True)
        with (home / "log").open("wb") as log:
            servers = [
                subprocess.Popen([*java, f"{SERVERS}.{name}"], stdout=log, stderr=log)
                for name in ("namenode.NameNode", "datanode.DataNode")
            ]
        try:
            wait_until(lambda: takes_files(made), "HDFS takes files", LIMIT_S)
            yield made
        finally:
            for one in servers:
                one.kill()
                one.wait()


def configure(home: Path, made: Hdfs) -> None:
    settings = {
        "fs.defaultFS": made.address,
        "dfs.namenode.name.dir": str(home / "names"),
        "dfs.datanode.data.dir": str(home / "data"),
        "dfs.namenode.http-address": made.http_address,
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.replication": "1",
    }
    told = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (home / name).write_text(f"<configuration>{told}</configuration>")


def takes_files(made: Hdfs) -> bool:
    try:
        Storage(made.settings).at(f"{made.address}/tried").write("file", b"x")
    except StateUnreachable:
        return False
    return True
