"""Changes of a database go through a topic into a table while workers, drivers, Spark's Python workers and the database
are killed. It takes minutes, so it waits to be asked for: BARNABAS_CONNECT_KILLS=8, and BARNABAS_CONNECT_SEED.

The source promises exactly once, and so does the JDBC sink with `insert.mode=insert`: every row is in the topic and in
the table once, the topic in the order of the commits.
"""

from __future__ import annotations

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
