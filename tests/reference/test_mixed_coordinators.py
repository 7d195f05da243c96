"""Groups and transactions with coordinators on our broker and on Apache Kafka's: either stops or is killed, and Kafka's
own clients go on at the other one, exactly once.

The clients are Java's: librdkafka 2.16 waits for a group coordinator that is gone from the metadata in
`send_offsets_to_transaction`, whatever broker it talks to, until its transaction has run out of time (its issues 5511
and 5456).

Two minutes, so only with BARNABAS_MIXED_COORDINATORS=1: `make mixed`. A pipeline may end with
INVALID_TXN_STATE while Kafka's broker stops: until it knows that it no longer coordinates the transaction, it answers
EndTxn from the state it had, and the partitions are added at the new coordinator already.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.core.coordinator.partitioning import partition_for
from tests.support import reference, reference_libs
from tests.support.replication.mixed import BOTH, KAFKAS, OURS, Mixed
from tests.support.replication.watching import Acknowledged, read_all, wait_led
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).parent / "java" / "Pipelines.java"
PARTITIONS = 4
INTERNAL = ("__consumer_offsets", "__transaction_state")
PROPERTIES = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
}
# The session of a broker that is killed lasts 6 s. A transaction that hangs is aborted after 60 s.
LIMIT_S = 60.0
START_LIMIT_S = 240.0


def key_of(kind: str, coordinator: int) -> str:
    """A group or a transactional id whose partition the broker leads, if it leads what it should."""
    keys = (f"{kind}-{number}" for number in range(100))
    return next(key for key in keys if BOTH[partition_for(key, PARTITIONS) % 2] == coordinator)


class Pipelines:
    """One for each place where the two coordinators of a pipeline may be. Each copies "input" to a topic of its own."""

    def __init__(self, mixed: Mixed) -> None:
        self._mixed = mixed
        self._log = mixed.root / "pipelines.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.outputs: list[str] = []
        self._arguments: list[str] = []
        for group_at in BOTH:
            for transactions_at in BOTH:
                output = f"copy-{group_at}-{transactions_at}"
                group = key_of(f"group-{transactions_at}", group_at)
                transactional_id = key_of(f"transactions-{group_at}", transactions_at)
                protocol = "consumer" if group_at == transactions_at else "classic"
                self.outputs.append(output)
                self._arguments.append(f"{output},{group},{transactional_id},{protocol}")

    def __enter__(self) -> Pipelines:
        java = [reference_libs.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command = [*java, *reference_libs.classpath_options(), str(PROGRAM), self._mixed.bootstrap_servers, "input"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *self._arguments], stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def _committed(self) -> list[int]:
        said = self.said()
        assert "ENDED" not in said, said[-3000:]
        return [said.count(f"COMMITTED {output}\n") for output in self.outputs]

    def go_on(self, after: str, limit_s: float = LIMIT_S) -> None:
        """Each of them commits transactions that began from now on."""
        before, started = self._committed(), time.monotonic()
        try:
            wait_until(
                lambda: all(now > then + 1 for now, then in zip(self._committed(), before, strict=True)),
                f"each pipeline commits after {after}",
                limit_s,
            )
        except AssertionError as error:
            logs = [f"{each}: {self._mixed.nodes[each].log()[-3000:]}" for each in BOTH]
            since = dict(zip(self.outputs, zip(before, self._committed(), strict=True), strict=True))
            raise AssertionError("\n".join([f"{error}: {since}", self.said()[-3000:], *logs])) from None
        print(f"{after}: {time.monotonic() - started:.1f} s")


@pytest.fixture
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    mixed = Mixed(tmp_path_factory.mktemp("mixed"), PROPERTIES)
    try:
        mixed.start()
        yield mixed
    finally:
        mixed.close()


@pytest.mark.skipif("BARNABAS_MIXED_COORDINATORS" not in os.environ, reason="BARNABAS_MIXED_COORDINATORS is not set")
@pytest.mark.timeout(900)
def test_pipelines_go_on_whichever_coordinator_stops_or_is_killed(mixed: Mixed) -> None:
    for topic in INTERNAL:
        mixed.create(topic, PARTITIONS, cleanup_policy="compact", compression_type="uncompressed")
    pipelines = Pipelines(mixed)
    everything = [*INTERNAL, "input", *pipelines.outputs]
    for topic in everything[2:]:
        mixed.create(topic, PARTITIONS)
    with Acknowledged(mixed, "input", PARTITIONS) as producer, pipelines:
        pipelines.go_on("start", START_LIMIT_S)
        for victim, name in ((KAFKAS, "Kafka's broker"), (OURS, "our broker")):
            mixed.nodes[victim].stop()
            pipelines.go_on(f"{name} stopped")
            mixed.nodes[victim].start()
            mixed.elect_preferred(*everything)
            pipelines.go_on(f"{name} is back")
            mixed.nodes[victim].kill()
            pipelines.go_on(f"{name} was killed")
            wait_led(mixed, "input", by_none_of=[victim])
            mixed.nodes[victim].start()
            mixed.elect_preferred(*everything)
            pipelines.go_on(f"{name} is back again")
        producer.end()
        wanted = sorted(producer.acknowledged.values())
        for output in pipelines.outputs:
            wait_until(lambda output=output: len(read_committed(mixed, output)) >= len(wanted), f"{output} has all")
            assert sorted(read_committed(mixed, output)) == wanted, f"{output} does not have each record once"
    assert not producer.failed
    refused = [
        line for line in pipelines.said().splitlines() if line.startswith("UNSENT") and "InvalidTxnState" in line
    ]
    assert not refused, f"{len(refused)} writes in open transactions were refused: {refused[:3]}"
    mixed.require_equal_logs(*everything[2:])
    assert mixed.kafka.running, mixed.kafka.log()[-4000:]


def read_committed(mixed: Mixed, topic: str) -> list[bytes]:
    return list(read_all(mixed, topic, PARTITIONS, **{"isolation.level": "read_committed"}).values())
