"""State that is larger than its cache: the same results, versions, and files."""

from __future__ import annotations

import importlib.util
import pickle
import random
import resource
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.streams.errors import StateDamaged, StateUnreachable
from barnabas.pipelines.streams.state import versions
from barnabas.pipelines.streams.state.disk import DiskTables
from barnabas.pipelines.streams.state.key_bytes import from_bytes, to_bytes
from barnabas.pipelines.streams.state.versions import PartitionState
from barnabas.pipelines.streams.windows import Windowed
from barnabas.streams import LONG, STRING, Topology, TopologyError, TopologyTestDriver, tumbling


def beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chains = beside("chains")


def test_every_operator_gives_with_state_on_disk_what_it_gives_with_state_in_memory() -> None:
    chance = random.Random(4)
    names = [(name,) for name in chains.OPERATORS]
    records = chains.random_records(chains.Chains(names).topology, chance, 40)
    cuts = {chance.randrange(40) for _ in range(8)}
    in_memory = chains.rows_by_batch(chains.Chains(names), records, cuts, restart=False)
    assert any(any(rows) for rows in in_memory)
    for restart in (False, True):
        made = chains.Chains(names, state_cache_bytes=0)
        assert chains.rows_by_batch(made, records, cuts, restart=restart) == in_memory


def on_disk(directory: Path) -> PartitionState:
    return PartitionState(directory, cache_bytes=1000)


def write(state: PartitionState, batch: int, entries: dict[Any, Any]) -> None:
    state.load(batch)
    for key, value in entries.items():
        state.store("table").put(key, value)
    state.save(batch + 1)


def content(directory: Path, batch: int) -> dict[Any, Any]:
    state = on_disk(directory)
    state.load(batch)
    return dict(state.store("table").data.items())


NUMBERS = {f"key-{number}": number for number in range(500)}


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionState:
    """500 keys in version 1, on disk because the cache is too small; every version has a snapshot."""
    monkeypatch.setattr(versions, "SIZE_LOOK_DELTAS", 1)
    monkeypatch.setattr(versions, "DELTAS_MAX", 1)
    state = on_disk(tmp_path / "state")
    write(state, 0, NUMBERS)
    assert state.tables is not None
    return state


def place(state: PartitionState) -> Path:
    return Path(state.directory.address)


def files(state: PartitionState) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (place(state) / "files").glob("*.sst")}


def test_a_worker_follows_another_and_a_batch_that_is_done_again_finds_what_it_found(filled: PartitionState) -> None:
    directory = place(filled)
    other = on_disk(directory)
    write(other, 1, {"key-1": None, "new": 1})
    expected = {key: value for key, value in NUMBERS.items() if key != "key-1"}
    assert content(directory, 1) == NUMBERS
    assert content(directory, 2) == expected | {"new": 1}
    write(other, 1, {"new": 7})  # done again
    assert content(directory, 2) == NUMBERS | {"new": 7}
    write(filled, 2, {"new": 2})
    assert content(directory, 9) == NUMBERS | {"new": 2}


def test_a_snapshot_adds_the_files_that_are_new_and_old_ones_are_removed(filled: PartitionState) -> None:
    first = files(filled)
    write(filled, 1, {"key-1": -1})
    second = files(filled)
    assert first.items() < second.items()
    for batch in range(2, 12):
        write(filled, batch, {f"key-{number}": batch for number in range(500)})
    assert content(place(filled), 12) == {f"key-{number}": 11 for number in range(500)}
    assert not first.items() & files(filled).items()  # compacted, and no snapshot that is kept has them


def test_a_database_of_a_snapshot_has_the_filters_that_the_first_one_had(filled: PartitionState) -> None:
    """Without them every key that is not there is looked for in the files of all levels."""
    after = on_disk(Path(filled.directory.address))
    after.load(1)
    for state in (filled, after):
        assert state.tables is not None
        log = (state.tables.directory / "LOG").read_text()
        assert "filter_policy: bloomfilter" in log
        assert "filter_policy: nullptr" not in log


@pytest.mark.parametrize("how", ["damaged", "missing", "short"])
def test_a_file_that_is_not_whole_is_told_by_name_and_the_version_before_it_stands_in(
    filled: PartitionState, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = files(filled)
    write(filled, 1, {"key-1": -1})
    (name,) = files(filled).keys() - known.keys()
    path = place(filled) / "files" / name
    data = path.read_bytes()
    path.unlink()
    if how != "missing":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if how == "damaged" else data[:-1])
    assert content(place(filled), 2) == NUMBERS | {"key-1": -1}
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"state file {path} is {'missing' if how == 'missing' else 'damaged'}")
    assert told.endswith("state is rebuilt from the version before it")
    delta = place(filled) / "2.delta"
    delta.write_bytes(delta.read_bytes()[:-1] + b"x")
    with pytest.raises(StateDamaged, match=f"state file {delta} is damaged"):
        content(place(filled), 2)


def test_files_of_an_older_edition_are_read(tmp_path: Path) -> None:
    (tmp_path / "1.delta").write_bytes(pickle.dumps((-1, {"table": ({"a": 1}, [])}), pickle.HIGHEST_PROTOCOL))
    assert content(tmp_path, 1) == {"a": 1}


def test_closed_windows_leave_the_disk() -> None:
    topology = Topology(state_cache_bytes=0)
    topology.stream("in", value=STRING).group_by_key().windowed_by(tumbling(10)).count().to("out", value=LONG)
    with TopologyTestDriver(topology) as driver:
        for time in range(0, 60, 5):
            driver.pipe_input("in", "a", "x", timestamp_ms=time)
            driver.restart()
        assert [value for _, value in driver.read_output("out")] == [1, 2] * 6
        state = PartitionState(Path(driver._directory.name) / "barnabas" / "state" / "0" / "0", 0)
        state.load(1000)
        assert state.tables is not None
        assert [start for start, _ in state.store("count-store-1").data] == [50]


def test_what_a_table_on_disk_has_in_memory_is_bounded(tmp_path: Path) -> None:
    tables = DiskTables(tmp_path / "database")
    table = tables.table("table")
    for number in range(10_000):
        table[number] = number
    tables.write()
    tables.trim(100_000)
    assert [table.get(number) for number in (1, 2, 3)] == [1, 2, 3]
    tables.trim(100_000)
    tables.trim(0)
    tables.trim(0)
    assert len(table._young) + len(table._old) < 1000
    assert len(table) == 10_000
    assert table.get(77) == 77
    tables.close()
    assert not (tmp_path / "database").exists()


KEYS = ["text", "", b"bytes", 0, -1, 255, 256, -(1 << 70), (5, "a"), (-5, ("a", "a")), Windowed("k", 1, 2), None, 1.5]


@pytest.mark.parametrize("key", KEYS)
def test_keys_come_back_from_their_bytes(key: Any) -> None:
    found = from_bytes(to_bytes(key))
    assert (found, type(found)) == (key, type(key))


def test_equal_keys_have_equal_bytes_and_windows_are_in_order() -> None:
    part = "".join(["a", "b"])
    assert to_bytes((part, part, 1)) == to_bytes(("ab", "".join(["a", "b"]), 1))
    starts = [-(1 << 40), -1, 0, 1, 255, 256, 1 << 40]
    assert sorted(starts, key=lambda start: to_bytes((start, "a"))) == starts


def test_a_cache_of_no_size_is_refused() -> None:
    with pytest.raises(TopologyError, match="state_cache_bytes is a number of bytes, not '1g'"):
        Topology(state_cache_bytes="1g")  # type: ignore[arg-type]


def test_a_worker_whose_disk_takes_no_more_says_so_and_the_batch_is_done_again(
    filled: PartitionState, tmp_path: Path
) -> None:
    """Files of more than 100 kB are refused here, as a full disk refuses them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    chance = random.Random(5)
    many = {f"key-{number}": chance.randbytes(400) for number in range(500)}
    filled.load(1)
    for key, value in many.items():
        filled.store("table").put(key, value)
    assert filled.tables is not None
    filled.tables.write()  # to its memory
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StateUnreachable, match=r"^state can't be kept on this worker's disk, in .*File too large"):
            filled.tables.snapshot_in(tmp_path / "snapshot")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    filled.close()
    directory = Path(filled.directory.address)
    assert content(directory, 1) == NUMBERS
    write(on_disk(directory), 1, many)
    assert content(directory, 2) == many
