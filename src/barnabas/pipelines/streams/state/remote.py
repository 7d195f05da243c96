"""Directories on storages that Spark reaches through Hadoop, reached through pyarrow.fs with the same settings.

    s3a, s3, s3n   S3FileSystem, by `fs.s3a.*` and `fs.s3a.bucket.NAME.*`
    hdfs           HadoopFileSystem where Hadoop's libhdfs and its class path are there, else HDFS by HTTP (`webhdfs`)
    webhdfs        HDFS by HTTP; swebhdfs by TLS
    others         what pyarrow makes of the address alone

An address is a scheme, a bucket or a host, and a path.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.errors import StateUnreachable
from barnabas.pipelines.streams.state import webhdfs
from barnabas.pipelines.streams.state.storage import Directory, local_path, unwritable

if TYPE_CHECKING:
    from pyarrow import fs

S3_SCHEMES = ("s3a", "s3", "s3n")
S3 = "fs.s3a."
S3_SETTINGS = (
    "access.key", "secret.key", "session.token", "endpoint", "endpoint.region", "path.style.access",
    "connection.ssl.enabled", "aws.credentials.provider", "assumed.role.arn", "assumed.role.session.name",
    "proxy.host", "proxy.port", "proxy.username", "proxy.password",
)  # fmt: skip
SPARK_PREFIX = "spark.hadoop."
ANONYMOUS = "AnonymousAWSCredentialsProvider"
CHUNK_BYTES = 1 << 20
HDFS = "hdfs"
RENAMING = (HDFS, "viewfs")


class RemoteDirectory(Directory):
    """`path` is the one of pyarrow's file system, `address` what a user calls it."""

    def __init__(self, files: fs.FileSystem, path: str, address: str, *, renames: bool) -> None:
        self._files, self._path, self.address, self._renames = files, path, address, renames

    def under(self, *names: str) -> RemoteDirectory:
        path, address = "/".join([self._path, *names]), "/".join([self.address, *names])
        return RemoteDirectory(self._files, path, address, renames=self._renames)

    def names(self) -> list[str]:
        return [one.base_name for one in self._listed(recursive=False)]

    def walk(self) -> list[str]:
        begin = len(self._path) + 1
        return [one.path[begin:] for one in self._listed(recursive=True) if one.is_file]

    def _listed(self, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector

        with self._reading(self.address):
            found: list[Any] = self._files.get_file_info(
                FileSelector(self._path, allow_not_found=True, recursive=recursive)
            )
        return found

    def read(self, name: str) -> bytes:
        with self._reading(self.place_of(name)), self._files.open_input_stream(f"{self._path}/{name}") as content:
            return bytes(content.read())

    def write(self, name: str, *pieces: bytes) -> None:
        with self._written(name) as written:
            for piece in pieces:
                written.write(piece)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._reading(self.place_of(name)):
            self._files.delete_file(f"{self._path}/{name}")

    def remove_all(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._reading(self.address):
            self._files.delete_dir(self._path)

    def size(self, name: str) -> int | None:
        with self._reading(self.place_of(name)):
            found = self._files.get_file_info(f"{self._path}/{name}")
        return int(found.size) if found.is_file else None

    def store(self, source: Path, name: str) -> None:
        if self.size(name) == source.stat().st_size:
            return
        with source.open("rb") as content, self._written(name) as written:
            shutil.copyfileobj(content, written, CHUNK_BYTES)

    def fetch(self, name: str, target: Path, *, linked: bool = False) -> None:
        path = f"{self._path}/{name}"
        with (
            self._reading(self.place_of(name)),
            self._files.open_input_stream(path) as content,
            target.open("wb") as written,
        ):
            shutil.copyfileobj(content, written, CHUNK_BYTES)

    @contextlib.contextmanager
    def _written(self, name: str) -> Iterator[Any]:
        """Where a file system can rename, a file that is being written has another name."""
        target = f"{self._path}/{name}"
        beside = f"{self._path}/.{name}.{os.getpid()}" if self._renames else target
        try:
            if self._renames:
                self._files.create_dir(self._path, recursive=True)
            with self._files.open_output_stream(beside) as written:
                yield written
            if self._renames:
                if self._files.get_file_info(target).is_file:
                    self._files.delete_file(target)
                self._files.move(beside, target)
        except OSError as error:
            raise unwritable(self.place_of(name), error) from error

    @contextlib.contextmanager
    def _reading(self, place: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StateUnreachable(f"{place} can't be reached: {first_line(error)}") from error


def remote_directory(address: str, settings: Mapping[str, str]) -> Directory:
    scheme, _, rest = address.rstrip("/").partition("://")
    host, _, path = rest.partition("/")
    scheme = scheme.lower()
    if scheme in webhdfs.SCHEMES or (scheme == HDFS and not has_libhdfs()):
        return webhdfs.webhdfs_directory(scheme, host, path, address.rstrip("/"), settings)
    files, root = _file_system(scheme, host, tuple(sorted(settings.items())))
    return RemoteDirectory(files, f"{root}/{path}".rstrip("/"), address.rstrip("/"), renames=scheme in RENAMING)


@functools.cache
def has_libhdfs() -> bool:
    """pyarrow looks for it in the same places. It starts a JVM in this process, with the class path of Hadoop."""
    named = os.environ.get("ARROW_LIBHDFS_DIR") or os.environ.get("HADOOP_HOME")
    return named is not None and any(Path(named).glob("**/libhdfs.so*"))


@functools.lru_cache(maxsize=16)
def _file_system(scheme: str, host: str, settings: tuple[tuple[str, str], ...]) -> tuple[fs.FileSystem, str]:
    """And where its addresses begin in it."""
    from pyarrow import fs

    try:
        if scheme in S3_SCHEMES:
            return fs.S3FileSystem(**s3_options(host, dict(settings))), host
        if scheme == HDFS:
            name, _, port = host.partition(":")
            return fs.HadoopFileSystem(name or "default", int(port or 0)), ""
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(f"{scheme}://{host}")
        return found
    except (OSError, ValueError, NotImplementedError) as error:
        raise StateUnreachable(f"{scheme}://{host} can't be reached: {first_line(error)}") from error


def s3_options(bucket: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """What S3FileSystem is told, of what Hadoop's S3A was told."""
    given = {
        name: found
        for name in S3_SETTINGS
        if (found := settings.get(f"{S3}bucket.{bucket}.{name}", settings.get(S3 + name)))
    }
    options: dict[str, Any] = {}
    if endpoint := given.get("endpoint"):
        scheme, there, host = endpoint.rpartition("://")
        secure = given.get("connection.ssl.enabled", "true").lower() != "false"
        options["endpoint_override"] = host.rstrip("/")
        options["scheme"] = scheme if there else "https" if secure else "http"
        options["force_virtual_addressing"] = given.get("path.style.access", "false").lower() != "true"
    if region := given.get("endpoint.region"):
        options["region"] = region
    elif "endpoint" in given:
        options["region"] = "us-east-1"
    if ANONYMOUS in given.get("aws.credentials.provider", ""):
        options["anonymous"] = True
    elif role := given.get("assumed.role.arn"):
        options["role_arn"] = role
        if session := given.get("assumed.role.session.name"):
            options["session_name"] = session
    elif key := given.get("access.key"):
        options |= {"access_key": key, "secret_key": given.get("secret.key", "")}
        if token := given.get("session.token"):
            options["session_token"] = token
    if proxy := given.get("proxy.host"):
        options["proxy_options"] = {"scheme": "http", "host": proxy, "port": int(given.get("proxy.port", "80"))}
        if user := given.get("proxy.username"):
            options["proxy_options"] |= {"username": user, "password": given.get("proxy.password", "")}
    return options


def storage_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Those of a storage among settings of Spark's, as `spark.hadoop.fs.s3a.endpoint`, or of Hadoop's."""
    plain = {key.removeprefix(SPARK_PREFIX): str(value) for key, value in given.items()}
    return {key: value for key, value in plain.items() if key.startswith("fs.") or key == webhdfs.HTTP_ADDRESS}


def settings_of_session(spark: Any, address: str) -> dict[str, str]:
    """What Hadoop knows in the session of the storage at an address, wherever it was said."""
    return {} if local_path(address) is not None else settings_of_hadoop(spark._jsparkSession, address)


def settings_of_hadoop(java_session: Any, address: str) -> dict[str, str]:
    scheme, there, rest = address.partition("://")
    bucket = rest.partition("/")[0]
    if there and scheme.lower() == HDFS:
        names = [webhdfs.HTTP_ADDRESS]
    elif there and scheme.lower() in S3_SCHEMES:
        names = [S3 + name for name in S3_SETTINGS] + [f"{S3}bucket.{bucket}.{name}" for name in S3_SETTINGS]
    else:
        return {}
    known = java_session.sparkContext().hadoopConfiguration()
    return {name: str(found) for name in names if (found := known.get(name)) is not None and str(found)}


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
