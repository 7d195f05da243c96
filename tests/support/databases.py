"""PostgreSQL and MariaDB for tests: servers of their own, killed and started again at will."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.reference import free_port

START_S = 120.0


class DatabaseUnavailable(Exception):
    """The server cannot be had here; the text says why."""


def _program(*names: str, places: tuple[str, ...] = ()) -> str:
    for name in names:
        found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *places]))
        if found is not None:
            return found
    raise DatabaseUnavailable(f"{names[0]} is not installed")


def _owner(directory: Path, name: str) -> dict[str, Any]:
    """Servers refuse to run as root: a user of the package does it, who must reach the directory."""
    if os.geteuid() != 0:
        return {}
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise DatabaseUnavailable(f"the server does not run as root, and there is no user {name}") from None
    os.chown(directory, found.pw_uid, found.pw_gid)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


class DatabaseServer:
    name = ""

    def __init__(self) -> None:
        # Not pytest's directory: each run of pytest closes that to other users.
        self.directory = Path(tempfile.mkdtemp(prefix="barnabas-database-"))
        self.port = free_port()
        self._as = _owner(self.directory, self.user)
        self._process: subprocess.Popen[bytes] | None = None
        self.prepare()
        self.start()

    user = ""

    def prepare(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def run(self, command: list[str]) -> None:
        done = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, timeout=START_S, check=False, **self._as
        )
        if done.returncode != 0:
            raise DatabaseUnavailable(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-300:]}")

    def start(self) -> None:
        log = self.directory / "server.log"
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                self.command(), cwd=self.directory, stdout=output, stderr=output, stdin=subprocess.DEVNULL, **self._as
            )
        until = time.monotonic() + START_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise DatabaseUnavailable(f"{self.name} does not start: {log.read_text()[-500:]}")
            time.sleep(0.05)

    def answers(self) -> bool:
        raise NotImplementedError

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def restart(self) -> None:
        """As after a crash: open connections end, and what was committed is there again."""
        self.stop(self.crash)
        self.start()

    crash = signal.SIGKILL


class Postgres(DatabaseServer):
    name, user = "PostgreSQL", "postgres"
    crash = signal.SIGQUIT  # its immediate shutdown: recovery follows, and no child outlives the postmaster

    def prepare(self) -> None:
        places = tuple(str(each) for each in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
        self._bin = Path(_program("initdb", places=places)).resolve().parent
        data = self.directory / "data"
        self.run([str(self._bin / "initdb"), "-D", str(data), "-A", "trust", "-U", "tester", "-N", "-E", "UTF8"])
        with open(data / "postgresql.conf", "a") as file:
            file.write(
                f"listen_addresses='127.0.0.1'\nport={self.port}\nunix_socket_directories=''\nwal_level=logical\n"
                "fsync=off\nmax_replication_slots=40\nmax_wal_senders=40\nlog_min_messages=fatal\ntimezone='UTC'\n"
            )

    def command(self) -> list[str]:
        return [str(self._bin / "postgres"), "-D", str(self.directory / "data")]

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.dsn("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def dsn(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=tester dbname={database}"

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        super().stop(how)  # the fast shutdown, unless told otherwise

    def execute(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Rows of the last statement; each is a transaction of its own."""
        import psycopg

        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            rows: list[Any] = []
            for each in statements:
                found = connection.execute(each.encode())
                rows = found.fetchall() if found.description is not None else []
            return rows


class MariaDb(DatabaseServer):
    name, user = "MariaDB", "mysql"

    def prepare(self) -> None:
        sbin = ("/usr/sbin", "/usr/local/sbin")
        self._server = _program("mariadbd", "mysqld", places=sbin)
        install = _program("mariadb-install-db", "mysql_install_db", places=sbin)
        data = self.directory / "data"
        self.run([install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
                  "--skip-test-db"])  # fmt: skip

    def command(self) -> list[str]:
        return [
            self._server, "--no-defaults", f"--datadir={self.directory / 'data'}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--socket={self.directory / 's.sock'}", "--skip-name-resolve",
            f"--pid-file={self.directory / 'pid'}", "--server-id=7", "--log-bin=binlog", "--binlog-format=ROW",
            "--binlog-row-metadata=FULL", "--binlog-row-image=FULL", "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=2", "--default-time-zone=+00:00", "--sync-binlog=0",
            "--character-set-server=utf8mb4", "--innodb-log-file-size=32M",
        ]  # fmt: skip

    def connect(self, database: str | None = None) -> Any:
        import pymysql

        return pymysql.connect(host="127.0.0.1", port=self.port, user="tester", database=database, autocommit=True)

    def answers(self) -> bool:
        import pymysql

        try:
            pymysql.connect(host="127.0.0.1", port=self.port, user="tester").close()
        except pymysql.err.OperationalError as error:
            if error.args[0] == 1045 and (self.directory / "s.sock").exists():
                self._create_user()
            return False
        return True

    def _create_user(self) -> None:
        import pymysql

        with pymysql.connect(unix_socket=str(self.directory / "s.sock"), user="root", autocommit=True) as root:
            cursor = root.cursor()
            cursor.execute("create user if not exists tester@'%'")
            cursor.execute("grant all on *.* to tester@'%' with grant option")

    def execute(self, *statements: str, database: str | None = None) -> list[Any]:
        with self.connect(database) as connection, connection.cursor() as cursor:
            for each in statements:
                cursor.execute(each)
            return list(cursor.fetchall())
