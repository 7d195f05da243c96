"""Where files are: a directory, S3 and its like, Google's and Azure's stores, HDFS; all through pyarrow.fs.

A file appears whole or not at all. Directories get it by fsync and rename, object stores by one put.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from barnabas.pipelines.connect.config import Setting
from barnabas.pipelines.connect.errors import ConfigError, RetriableError

PLACES = ("directory", "s3.bucket.name", "gcs.bucket.name", "azblob.container.name", "hdfs.url")
STORE_SETTINGS = (
    Setting("directory", "STRING", "", doc="A local directory.", group="Storage"),
    Setting("s3.bucket.name", "STRING", "", doc="The bucket of S3 or of a store like it.", group="Storage"),
    Setting("s3.region", "STRING", "us-west-2", "MEDIUM", "The bucket's region.", group="Storage"),
    Setting("aws.access.key.id", "STRING", "", doc="Empty: as the AWS tools find it.", group="Storage"),
    Setting("aws.secret.access.key", "PASSWORD", "", doc="With aws.access.key.id.", group="Storage"),
    Setting("store.url", "STRING", "", doc="Address of a store like S3; file:/path is a directory with buckets in it.",
            group="Storage"),
    Setting("gcs.bucket.name", "STRING", "", doc="The bucket of Google's store.", group="Storage"),
    Setting("azblob.container.name", "STRING", "", doc="The container of Azure's store.", group="Storage"),
    Setting("azblob.account.name", "STRING", "", doc="Azure's account.", group="Storage"),
    Setting("azblob.account.key", "PASSWORD", "", doc="The account's key.", group="Storage"),
    Setting("hdfs.url", "STRING", "", doc="hdfs://host:port", group="Storage"),
)  # fmt: skip


def check_place(values: Mapping[str, Any]) -> None:
    given = [name for name in PLACES if values[name]]
    if not given:
        raise ConfigError("needs a value: where the files are; or one of " + ", ".join(PLACES[1:]), "directory", "")
    if len(given) > 1:
        raise ConfigError(f"is set beside {given[1]}: name one place", given[0], values[given[0]])


@contextlib.contextmanager
def reaching(what: str) -> Iterator[None]:
    """A store that is away may come back; a full disk may be emptied."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RetriableError(f"{what}: {error}") from error


@dataclass(frozen=True, slots=True)
class Found:
    path: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Store:
    """Paths are relative to the root, with slashes."""

    def __init__(self, system: Any, root: str) -> None:
        self._system, self.root = system, root.rstrip("/")
        self._local = isinstance(system, fs.LocalFileSystem)
        self._hdfs = not self._local and isinstance(system, fs.HadoopFileSystem)

    def full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root or "/"

    def write(self, path: str, data: bytes) -> None:
        with reaching(f"{path} cannot be written"):
            if self._local:
                write_locally(Path(self.full(path)), data)
                return
            target = self.full(path)
            if self._hdfs:
                self._system.create_dir(target.rpartition("/")[0])
                target += ".writing"
            with self._system.open_output_stream(target) as stream:
                stream.write(data)
            if self._hdfs:
                self.delete(path)
                self._system.move(target, self.full(path))

    def read(self, path: str) -> bytes | None:
        """None if it is not there."""
        try:
            with reaching(f"{path} cannot be read"), self._system.open_input_stream(self.full(path)) as stream:
                data: bytes = stream.read()
                return data
        except FileNotFoundError:
            return None

    def open(self, path: str) -> Any:
        """A binary file that has lines and can seek."""
        with reaching(f"{path} cannot be read"):
            if self._local:
                return open(self.full(path), "rb")
            return io.BufferedReader(self._system.open_input_file(self.full(path)), 1 << 20)

    def exists(self, path: str) -> bool:
        with reaching(f"{path} cannot be looked up"):
            found = self._system.get_file_info(self.full(path))
        return bool(found.type == fs.FileType.File)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), reaching(f"{path} cannot be deleted"):
            self._system.delete_file(self.full(path))

    def move(self, path: str, target: str) -> None:
        """Within the store, or to a local path, if the store is local; `target` is a full path."""
        with reaching(f"{path} cannot be moved to {target}"):
            if self._local:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                Path(self.full(path)).replace(target)
            else:
                self._system.move(self.full(path), target)

    def list(self, folder: str = "", *, recursive: bool = True) -> list[Found]:
        """Files below a folder, without hidden ones, in the order of their paths."""
        selector = fs.FileSelector(self.full(folder), recursive=recursive, allow_not_found=True)
        with reaching(f"{self.full(folder)} cannot be listed"):
            infos = self._system.get_file_info(selector)
        found = []
        cut = len(self.root) + 1 if self.root else 0
        for info in infos:
            path = info.path[cut:]
            inside = path.removeprefix(folder).split("/")
            if info.type != fs.FileType.File or any(part.startswith(".") for part in inside):
                continue
            modified = 0 if info.mtime_ns is None else info.mtime_ns // 1_000_000
            found.append(Found(path, info.size or 0, modified))
        return sorted(found, key=lambda each: each.path)


def write_locally(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def open_store(values: Mapping[str, Any]) -> Store:
    check_place(values)
    with reaching("the store cannot be opened"):
        if values["directory"]:
            return Store(fs.LocalFileSystem(), str(Path(values["directory"]).absolute()))
        if values["s3.bucket.name"]:
            return _s3(values)
        if values["gcs.bucket.name"]:
            return Store(fs.GcsFileSystem(), values["gcs.bucket.name"])
        if values["azblob.container.name"]:
            account, key = values["azblob.account.name"], values["azblob.account.key"]
            return Store(fs.AzureFileSystem(account, key or None), values["azblob.container.name"])
        url = urlsplit(values["hdfs.url"])
        return Store(fs.HadoopFileSystem(url.hostname or "default", url.port or 8020), url.path)


def _s3(values: Mapping[str, Any]) -> Store:
    url, bucket = urlsplit(values["store.url"]), values["s3.bucket.name"]
    if url.scheme == "file":
        return Store(fs.LocalFileSystem(), f"{url.path.rstrip('/')}/{bucket}")
    given: dict[str, Any] = {"region": values["s3.region"]}
    if values["aws.access.key.id"]:
        given |= {"access_key": values["aws.access.key.id"], "secret_key": values["aws.secret.access.key"]}
    if url.scheme:
        given |= {"endpoint_override": url.netloc, "scheme": url.scheme}
    return Store(fs.S3FileSystem(**given), bucket)


def open_path(path: str) -> tuple[Store, str]:
    """A store of a path or a URI as s3://bucket/folder, and the path in front of its files."""
    if "://" not in path and not path.startswith("file:"):
        root = str(Path(path).absolute())
        return Store(fs.LocalFileSystem(), root), root
    with reaching(f"{path} cannot be opened"):
        try:
            system, root = fs.FileSystem.from_uri(path)
        except (ValueError, TypeError) as error:
            raise ConfigError(str(error), "input.path", path) from None
    return Store(system, root), root
