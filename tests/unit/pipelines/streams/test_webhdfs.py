"""Directories on HDFS by HTTP, against a server that speaks as a namenode does (`make soak-hdfs` has a real one)."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.streams.errors import StateUnreachable
from barnabas.pipelines.streams.state import remote
from barnabas.pipelines.streams.state.storage import Directory, Storage
from barnabas.pipelines.streams.state.versions import PartitionState

ROOT = "/webhdfs/v1"


class NameNode(ThreadingHTTPServer):
    """And its datanode: /data gives and takes contents."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.users: set[str] = set()
        self.full = False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: NameNode

    def log_message(self, *_: Any) -> None: ...

    def answer(self, content: Any, status: int = 200) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, exception: str, message: str) -> None:
        self.answer({"RemoteException": {"exception": exception, "message": message}}, status)

    def do_GET(self) -> None:
        self.handle_operation()

    do_PUT = do_DELETE = do_GET

    def handle_operation(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        path, given = urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query))
        if path.startswith("/data"):
            self.content(path.removeprefix("/data"))
            return
        self.server.users.add(given["user.name"])
        getattr(self, given["op"])(path.removeprefix(ROOT), given)

    def content(self, path: str) -> None:
        if self.command == "GET":
            self.answer(self.server.files[path])
        elif self.server.full:
            self.rfile.read(int(self.headers["content-length"]))
            self.refuse(403, "DSQuotaExceededException", "The quota is exceeded\n\tat java")
        else:
            self.server.files[path] = self.rfile.read(int(self.headers["content-length"]))
            self.answer(b"", 201)

    def LISTSTATUS(self, path: str, given: dict[str, str]) -> None:
        below = {name[len(path) + 1 :] for name in self.server.files if name.startswith(f"{path}/")}
        if path in self.server.files:
            self.answer({"FileStatuses": {"FileStatus": [{"pathSuffix": "", "type": "FILE"}]}})
        elif not below:
            self.refuse(404, "FileNotFoundException", f"File {path} does not exist.")
        else:
            entries = {name.partition("/")[0]: "DIRECTORY" if "/" in name else "FILE" for name in below}
            listed = [{"pathSuffix": name, "type": kind} for name, kind in sorted(entries.items())]
            self.answer({"FileStatuses": {"FileStatus": listed}})

    def GETFILESTATUS(self, path: str, given: dict[str, str]) -> None:
        if path in self.server.files:
            self.answer({"FileStatus": {"type": "FILE", "length": len(self.server.files[path])}})
        elif any(name.startswith(f"{path}/") for name in self.server.files):
            self.answer({"FileStatus": {"type": "DIRECTORY", "length": 0}})
        else:
            self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")

    def OPEN(self, path: str, given: dict[str, str]) -> None:
        assert given["noredirect"] == "true"
        if path not in self.server.files:
            self.refuse(404, "FileNotFoundException", f"File does not exist: {path}")
            return
        self.answer({"Location": f"http://{self.server.address}/data{urllib.parse.quote(path)}"})

    def CREATE(self, path: str, given: dict[str, str]) -> None:
        assert (self.command, given["overwrite"], given["noredirect"]) == ("PUT", "true", "true")
        self.answer({"Location": f"http://{self.server.address}/data{urllib.parse.quote(path)}"})

    def RENAME(self, path: str, given: dict[str, str]) -> None:
        assert given["renameoptions"] == "OVERWRITE"
        self.server.files[given["destination"]] = self.server.files.pop(path)
        self.answer(b"")

    def DELETE(self, path: str, given: dict[str, str]) -> None:
        gone = [name for name in self.server.files if name == path or name.startswith(f"{path}/")]
        assert given.get("recursive") == "true" or gone in ([], [path])
        for name in gone:
            del self.server.files[name]
        self.answer({"boolean": bool(gone)})


@pytest.fixture
def namenode() -> Iterator[NameNode]:
    with NameNode() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(params=["hdfs", "webhdfs"])
def directory(namenode: NameNode, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Directory:
    monkeypatch.setattr(remote, "has_libhdfs", lambda: False)
    monkeypatch.setenv("HADOOP_USER_NAME", "anna")
    host = "127.0.0.1:1" if request.param == "hdfs" else namenode.address
    settings = {"dfs.namenode.http-address": f"0.0.0.0:{namenode.server_port}"}
    return Storage(settings).at(f"{request.param}://{host}/a/b")


def test_files_are_written_beside_and_renamed_listed_and_removed(
    directory: Directory, namenode: NameNode, tmp_path: Path
) -> None:
    assert (directory.names(), directory.walk(), directory.size("x")) == ([], [], None)
    with pytest.raises(FileNotFoundError):
        directory.read("x")
    directory.write("x", b"one ", b"two")
    directory.write("x", b"three")
    directory.under("y", "c d").write("e%f", b"")
    assert sorted(namenode.files) == ["/a/b/x", "/a/b/y/c d/e%f"]
    assert namenode.users == {"anna"}
    assert (directory.names(), sorted(directory.walk())) == (["x", "y"], ["x", "y/c d/e%f"])
    assert (directory.read("x"), directory.size("x"), directory.size("y")) == (b"three", 5, None)
    (tmp_path / "large").write_bytes(bytes(100_000))
    directory.store(tmp_path / "large", "large")
    directory.fetch("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == bytes(100_000)
    directory.remove("x")
    directory.remove("x")
    assert not directory.has("x")
    directory.remove_all()
    assert namenode.files == {}


@pytest.mark.parametrize("cache_bytes", [1000, 1 << 20])
def test_state_goes_on_where_another_worker_left_it(directory: Directory, cache_bytes: int) -> None:
    for version in range(1, 12):
        state = PartitionState(directory, cache_bytes=cache_bytes)
        state.load(version - 1)
        for key in range(version, version + 20):
            state.store("s").put(key, version)
        state.save(version)
        state.close()
    last = PartitionState(directory, cache_bytes=cache_bytes)
    last.load(11)
    assert dict(last.store("s").data.items()) == {key: min(key, 11) for key in range(1, 31)}
    last.close()


def test_what_hdfs_refuses_is_one_sentence(directory: Directory, namenode: NameNode) -> None:
    namenode.full = True
    said = "DSQuotaExceededException: The quota is exceeded; the batch is done again, nothing is lost"
    with pytest.raises(StateUnreachable, match=rf"^state can't be written to {directory.address}/x: {said}$"):
        directory.write("x", b"1")
    assert namenode.files == {}


def test_an_hdfs_that_is_not_there_is_one_sentence() -> None:
    gone = Storage().at("webhdfs://127.0.0.1:1/x")
    with pytest.raises(StateUnreachable, match=r"^webhdfs://127.0.0.1:1/x can't be reached: Connection refused$"):
        gone.names()
    with pytest.raises(StateUnreachable, match=r"^state can't be written to webhdfs://127.0.0.1:1/x/a: Connection ref"):
        gone.write("a", b"")
