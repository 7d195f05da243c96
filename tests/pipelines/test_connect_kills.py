"""Changes of a database go through a topic into a table while workers, drivers, Spark's Python workers and the database
are killed. It takes minutes, so it waits to be asked for: BARNABAS_CONNECT_KILLS=8, and BARNABAS_CONNECT_SEED.

The source promises exactly once, and so does the JDBC sink with `insert.mode=insert`: every row is in the topic and in
the table once, the topic in the order of the commits. The second test has two workers that come, go, and are frozen
until others have gone on; each record has to be in the files once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import list_transactions
from barnabas.testing import Node
from tests.pipelines.kill_stage import descendants, kill, parent
from tests.support.databases import DatabaseUnavailable, Postgres
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
KILLS = int(os.environ.get("BARNABAS_CONNECT_KILLS", "0"))
SEED = int(os.environ.get("BARNABAS_CONNECT_SEED", "0")) or random.randrange(1_000_000)
LIMIT_S = 240.0
CONFIG = json.loads((HERE.parents[1] / "examples/bank_capture.json").read_text())["config"]
TABLE = "(id text primary key, user_name text not null, amount numeric(10, 2) not null)"


def stage() -> Any:
    """The worker and the bench of the integration tests."""
    spec = importlib.util.spec_from_file_location("connect_stage", HERE.parent / "integration/connect/conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bank:
    """The database, a worker, and who is killed."""

    def __init__(self, stage: Any, directory: Path, servers: str, postgres: Postgres, chance: random.Random) -> None:
        self._stage, self._directory, self._servers = stage, directory, servers
        self.postgres, self._chance = postgres, chance
        self.rows = 0
        self.worker = self._worker()

    def _worker(self) -> Any:
        directory = self._directory / f"worker-{self._chance.randrange(1 << 40)}"
        directory.mkdir()
        return self._stage.Worker(directory, self._servers)

    def insert(self) -> None:
        """A transaction of some rows, sometimes a large one."""
        count = self._chance.choice([1, 500, 5_000, 20_000])
        first, self.rows = self.rows, self.rows + count
        self.postgres.execute(
            "insert into transactions select 't' || lpad(n::text, 9, '0'), 'user ' || n % 7, n % 1000 "
            f"from generate_series({first}, {self.rows - 1}) n"
        )

    def create(self) -> None:
        place = {"database.hostname": "127.0.0.1", "database.port": str(self.postgres.port)}
        login = {"database.user": "tester", "database.dbname": "postgres"}
        source = CONFIG | place | login | {"value.converter.schemas.enable": "true"}
        sink = {
            "connector.class": "JdbcSink",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self.postgres.port}/postgres",
            "connection.user": "tester",
            "topics": "bank_transactions",
            "table.name.format": "copies",
            "insert.mode": "insert",
            "auto.create": "true",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }
        for name, config in (("bank", source), ("copies", sink)):
            status, body = self.worker.call("POST", "/connectors", {"name": name, "config": config})
            assert status == 201, body

    def copied(self) -> Counter[str]:
        (there,) = self.postgres.execute("select to_regclass('copies')")[0]
        return Counter(row[0] for row in self.postgres.execute("select id from copies")) if there else Counter()

    def told(self) -> str:
        """What is to be known of connectors that do not go on."""
        found = [self.worker.call("GET", f"/connectors/{name}/{what}")[1]
                 for name in ("bank", "copies") for what in ("status", "offsets", "logs")]  # fmt: skip
        for statement in ("select * from pg_replication_slots", "select * from pg_stat_activity where pid is not null",
                          f"select count(*) from copies, (select {self.rows}) rows"):  # fmt: skip
            found.append(self.postgres.execute(statement))
        settings = ClientSettings.from_properties({}, bootstrap_servers=self._servers)
        with Cluster(settings) as cluster:
            for isolation in ("read_committed", "read_uncommitted"):
                found.append(cluster.list_offsets({("bank_transactions", 0): -1}, isolation=isolation))
            found.append(list_transactions(cluster))
        return "\n".join(map(str, found))

    def kill_python_worker(self) -> None:
        """One of the processes that run tasks: the children of those that were forked for tasks."""

        def workers() -> list[int]:
            found = dict(descendants(self.worker.process.pid))
            forked = {pid for pid, name in found.items() if "forked_workers" in name}
            daemons = {pid for pid in forked if parent(pid) in forked}
            return [pid for pid in forked if parent(pid) in daemons]

        wait_until(workers, "Spark has a Python worker", LIMIT_S)
        kill(self._chance.choice(workers()))

    def kill_driver(self) -> None:
        def drivers() -> list[int]:
            return [pid for pid, name in descendants(self.worker.process.pid) if "plane.driver" in name]

        wait_until(drivers, "the process with Spark is there", LIMIT_S)
        kill(drivers()[0])

    def kill_worker(self) -> None:
        self.worker.process.kill()
        self.worker.process.wait()
        self.worker = self._worker()

    def kill_database(self) -> None:
        self.postgres.stop(self._chance.choice([signal.SIGQUIT, signal.SIGINT]))
        self.postgres.start()

    @property
    def ways(self) -> list[Callable[[], None]]:
        return [self.kill_python_worker, self.kill_driver, self.kill_worker, self.kill_database]


@pytest.mark.skipif(not KILLS, reason="BARNABAS_CONNECT_KILLS says how many kills")
@pytest.mark.timeout(300 * max(KILLS, 1))
def test_every_row_arrives_once_whoever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"BARNABAS_CONNECT_SEED={SEED}")
    made = stage()
    try:
        postgres = Postgres()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    with Node() as node:
        postgres.execute(f"create table transactions {TABLE}")
        bank = Bank(made, tmp_path, node.bootstrap_servers, postgres, chance)
        try:
            bank.insert()
            bank.create()
            wait_until(lambda: bank.copied().total() == bank.rows, "the first rows are copied", LIMIT_S)
            for number in range(KILLS):
                bank.insert()
                way = bank.ways[number % len(bank.ways)]
                print(
                    f"kill {number}: {way.__name__} with {bank.rows} rows, {bank.copied().total()} copied", flush=True
                )
                way()
                bank.insert()
                if chance.random() < 0.5:  # else the next kill comes while this one is still mended
                    wait_until(lambda: len(bank.copied()) == bank.rows, "all rows are copied", LIMIT_S)
            wait_until(lambda: len(bank.copied()) == bank.rows, "all rows are copied", LIMIT_S)
            wanted = [f"t{n:09}" for n in range(bank.rows)]
            found = [
                json.loads(value)["payload"]["id"]
                for value in made.Bench(node.bootstrap_servers).values("bank_transactions")
            ]
            assert Counter(found) == Counter(wanted), "in the topic, each once"
            assert found == wanted, "in the order of the commits"
            assert bank.copied() == Counter(wanted), "in the table, each once"
            print(f"{bank.rows} rows, {KILLS} kills")
        except AssertionError:
            print(bank.told())
            raise
        finally:
            bank.worker.process.terminate()
            bank.worker.process.wait()
            postgres.close()


class Flock:
    """Workers that come and go beside a files sink, and records that never stop."""

    def __init__(self, made: Any, directory: Path, servers: str, chance: random.Random) -> None:
        self._made, self._directory, self._servers, self._chance = made, directory, servers, chance
        self.files = directory / "files"
        self.sent = 0
        self.workers: list[Any] = []
        self._number = 0

    def join(self) -> None:
        self._number += 1
        directory = self._directory / f"worker-{self._number}"
        directory.mkdir()
        quick = {"heartbeat_interval_ms": "300", "session_timeout_ms": "6000"}
        self.workers.append(self._made.Worker(directory, self._servers, **quick))

    def create(self) -> None:
        config = {
            "connector.class": "S3Sink", "directory": str(self.files), "format.class": "JsonFormat",
            "flush.size": "700", "rotate.schedule.interval.ms": "1000", "topics": "numbers", "tasks.max": "2",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        }  # fmt: skip
        status, body = self.workers[0].call("POST", "/connectors", {"name": "files", "config": config})
        assert status == 201, body

    def send(self) -> None:
        count = self._chance.choice([50, 2_000, 10_000])
        with Producer(ClientSettings.from_properties({}, bootstrap_servers=self._servers)) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send("numbers", json.dumps({"id": number}).encode(), partition=number % 4)
            producer.flush()
        self.sent += count

    def found(self) -> Counter[int]:
        """What is in the files that a reader sees."""
        found: Counter[int] = Counter()
        for path in self.files.rglob("*+*.json"):
            if not any(part.startswith(".") for part in path.parts):
                with contextlib.suppress(FileNotFoundError):  # of a turn that is done again
                    found.update(json.loads(line)["id"] for line in path.read_text().splitlines())
        return found

    def owner(self) -> Any:
        status, found = self.workers[0].call("GET", "/connectors/files/status")
        assert status == 200, found
        owns = [each for each in self.workers if each.url.endswith(f"//{found['connector']['worker_id']}")]
        return owns[0] if owns else self.workers[-1]

    def leave(self) -> None:
        """The owner dies, and another worker is there or comes."""
        gone = self.owner()
        self.workers.remove(gone)
        gone.process.kill()
        gone.process.wait()
        if not self.workers:
            self.join()

    def freeze(self) -> None:
        """The owner is thought dead, in the middle of what it does, and awakes when another has gone on."""
        if len(self.workers) < 2:
            self.join()
        asleep = self.owner()
        pids = [asleep.process.pid, *(pid for pid, _ in descendants(asleep.process.pid))]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self.workers.remove(asleep)
        try:
            self.send()
            wait_until(
                lambda: self.owner() is not asleep and len(self.found()) == self.sent, "another goes on", LIMIT_S
            )
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            self.workers.append(asleep)

    def close(self) -> None:
        for each in self.workers:
            each.process.terminate()
        for each in self.workers:
            each.process.wait()


@pytest.mark.skipif(not KILLS, reason="BARNABAS_CONNECT_KILLS says how many kills")
@pytest.mark.timeout(300 * max(KILLS, 1))
def test_files_hold_every_record_once_whoever_comes_and_goes(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"BARNABAS_CONNECT_SEED={SEED}")
    with Node({"num.partitions": 4}) as node:
        flock = Flock(stage(), tmp_path, node.bootstrap_servers, chance)
        try:
            flock.join()
            flock.send()
            flock.create()
            wait_until(lambda: len(flock.found()) == flock.sent, "the first records are in files", LIMIT_S)
            ways = [flock.join, flock.freeze, flock.leave]
            for number in range(KILLS):
                way = ways[number % len(ways)]
                flock.send()
                print(f"{number}: {way.__name__} with {flock.sent} sent, {len(flock.found())} in files", flush=True)
                way()
                flock.send()
            wait_until(lambda: len(flock.found()) == flock.sent, "all records are in files", LIMIT_S)
            twice = {number: count for number, count in flock.found().items() if count > 1}
            assert not twice, f"{len(twice)} records are in files more than once"
            assert set(flock.found()) == set(range(flock.sent))
            print(f"{flock.sent} records, {KILLS} changes")
        finally:
            flock.close()
