"""Directories on HDFS by its HTTP interface, which needs nothing of Hadoop on the machine that asks.

    webhdfs://namenode:9870/path     the HTTP address itself; swebhdfs:// is the same by TLS
    hdfs://namenode:8020/path        where libhdfs is not there: `dfs.namenode.http-address`, else port 9870 of the host

Spark knows both addresses, too. The user is HADOOP_USER_NAME, or who runs the process, as in Hadoop without Kerberos;
with Kerberos libhdfs is needed. A file is written beside and renamed over its target, which HDFS does atomically.
"""

from __future__ import annotations

import contextlib
import getpass
import http.client
import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from barnabas.pipelines.streams.errors import StateUnreachable
from barnabas.pipelines.streams.state.storage import Directory, unwritable

HTTP_PORT = 9870
HTTP_ADDRESS = "dfs.namenode.http-address"
ANY_HOST = "0.0.0.0"
LIMIT_S = 60.0
CHUNK_BYTES = 1 << 20
SCHEMES = {"webhdfs": "http", "swebhdfs": "https"}
Body = bytes | IO[bytes]


class WebHdfsDirectory(Directory):
    """`root` is the URL of the namenode's interface, `path` the directory there, `address` what a user calls it."""

    def __init__(self, root: str, path: str, address: str) -> None:
        self._root, self._path, self.address = root, path, address

    def under(self, *names: str) -> WebHdfsDirectory:
        return WebHdfsDirectory(self._root, "/".join([self._path, *names]), "/".join([self.address, *names]))

    def names(self) -> list[str]:
        return [one["pathSuffix"] for one in self._listed("")]

    def walk(self) -> list[str]:
        found: list[str] = []
        waiting = [""]
        while waiting:
            above = waiting.pop()
            for one in self._listed(above):
                name = f"{above}{one['pathSuffix']}"
                if one["type"] == "DIRECTORY":
                    waiting.append(f"{name}/")
                else:
                    found.append(name)
        return found

    def _listed(self, below: str) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError), self._reading(self.address):
            listed = self._ask("GET", f"/{below}".rstrip("/"), "LISTSTATUS")["FileStatuses"]["FileStatus"]
            return [one for one in listed if one["pathSuffix"]]  # a file has itself
        return []

    def read(self, name: str) -> bytes:
        with self._reading(self.place_of(name)), self._opened(name) as content:
            return bytes(content.read())

    def write(self, name: str, *pieces: bytes) -> None:
        self._put(name, lambda: b"".join(pieces))

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._reading(self.place_of(name)):
            self._ask("DELETE", f"/{name}", "DELETE")

    def remove_all(self) -> None:
        with contextlib.suppress(FileNotFoundError), self._reading(self.address):
            self._ask("DELETE", "", "DELETE", recursive="true")

    def size(self, name: str) -> int | None:
        try:
            with self._reading(self.place_of(name)):
                found = self._ask("GET", f"/{name}", "GETFILESTATUS")["FileStatus"]
        except FileNotFoundError:
            return None
        return int(found["length"]) if found["type"] == "FILE" else None

    def store(self, source: Path, name: str) -> None:
        if self.size(name) != source.stat().st_size:
            self._put(name, lambda: source.open("rb"), source.stat().st_size)

    def fetch(self, name: str, target: Path, *, linked: bool = False) -> None:
        with self._reading(self.place_of(name)), self._opened(name) as content, target.open("wb") as written:
            shutil.copyfileobj(content, written, CHUNK_BYTES)

    def _put(self, name: str, content: Callable[[], Body], size: int | None = None) -> None:
        above, _, last = name.rpartition("/")
        beside = f"/{above}/.{last}.{os.getpid()}" if above else f"/.{last}.{os.getpid()}"
        try:
            place = self._ask("PUT", beside, "CREATE", overwrite="true", noredirect="true")["Location"]
            body = content()
            headers = {"content-type": "application/octet-stream"} | (
                {} if size is None else {"content-length": str(size)}
            )
            try:
                send(urllib.request.Request(place, data=body, headers=headers, method="PUT")).close()
            finally:
                if not isinstance(body, bytes):
                    body.close()
            self._ask("PUT", beside, "RENAME", destination=f"{self._path}/{name}", renameoptions="OVERWRITE")
        except OSError as error:
            raise unwritable(self.place_of(name), error) from error

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[http.client.HTTPResponse]:
        """A datanode gives the content."""
        place = self._ask("GET", f"/{name}", "OPEN", noredirect="true")["Location"]
        with send(urllib.request.Request(place)) as content:
            yield content

    def _ask(self, method: str, below: str, operation: str, **given: str) -> Any:
        words = urllib.parse.urlencode({"op": operation, "user.name": user(), **given})
        path = urllib.parse.quote(f"/webhdfs/v1{self._path}{below}")
        with send(urllib.request.Request(f"{self._root}{path}?{words}", method=method)) as answer:
            content = answer.read()
        return json.loads(content) if content else {}

    @contextlib.contextmanager
    def _reading(self, place: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StateUnreachable(f"{place} can't be reached: {error.strerror or error}") from error


def send(request: urllib.request.Request) -> http.client.HTTPResponse:
    """Raises FileNotFoundError, or OSError with what HDFS said."""
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=LIMIT_S)
    except urllib.error.HTTPError as error:
        with error:
            told = said_in(error.read()) or f"HTTP status {error.code}"
        kind = FileNotFoundError if error.code == http.HTTPStatus.NOT_FOUND else OSError
        raise kind(error.code, told) from None
    except urllib.error.URLError as error:
        raise OSError(None, str(getattr(error.reason, "strerror", None) or error.reason)) from error
    except http.client.HTTPException as error:
        raise OSError(None, f"the answer broke off: {error}") from error
    return answer


def said_in(content: bytes) -> str:
    """The first line of the exception that HDFS tells of."""
    try:
        told = json.loads(content)["RemoteException"]
        return f"{told['exception']}: {told['message'].splitlines()[0]}"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ""


def user() -> str:
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def webhdfs_directory(scheme: str, host: str, path: str, address: str, settings: Mapping[str, str]) -> WebHdfsDirectory:
    """Of an address in HTTP, or of the one of HDFS whose namenode has an address in HTTP beside it."""
    if scheme in SCHEMES:
        root = f"{SCHEMES[scheme]}://{host if ':' in host else f'{host}:{HTTP_PORT}'}"
    else:
        told, _, port = settings.get(HTTP_ADDRESS, f"{ANY_HOST}:{HTTP_PORT}").rpartition(":")
        root = f"http://{host.partition(':')[0] if told in ('', ANY_HOST) else told}:{port}"
    return WebHdfsDirectory(root, f"/{path}".rstrip("/"), address)
