"""Stores that are larger than memory: a RocksDB of one partition on the worker's own disk, with a cache before it.

    DiskTables   the database of a partition; one table for each store
    DiskTable    stands where a store has its dictionary otherwise

What a batch changes stays in memory until the batch is saved (`write`): the version in the checkpoint is the truth, and
the database is a copy of it that can be thrown away. So it has no log of its own, and is never synced. Caches are two
dictionaries: one that fills, and the one that was full before, from which what is used again goes over.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.errors import StateUnreachable
from barnabas.pipelines.streams.state.key_bytes import from_bytes, to_bytes

if TYPE_CHECKING:
    from rocksdict import Rdict

BLOCK_CACHE_BYTES = 32 << 20  # of a process
BLOCK_BYTES = 16 << 10
WRITE_BUFFER_BYTES = 16 << 20
OPEN_FILES_MAX = 128  # with filters of some 80 million keys
OPEN_FILES_SHARD_BITS = 2
ENTRY_OVERHEAD_BYTES = 200  # of a key and a value in a dictionary, beside twice what they have pickled
SAMPLES = 32
PREFIX = "barnabas-state-"
GONE: Any = object()
_missing: Any = object()
_block_cache: Any = None


class DiskTables:
    """`directory` is where the database lies; it is removed with `close`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.database = _opened(directory)
        self._tables: dict[str, DiskTable] = {}

    def table(self, name: str) -> DiskTable:
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = DiskTable(self.database, name, self.directory)
        return found

    def write(self) -> None:
        """What the batch has changed, into the database."""
        for table in self._tables.values():
            table.write()

    def trim(self, cache_bytes: int) -> None:
        for table in self._tables.values():
            table.trim(cache_bytes // max(len(self._tables), 1))

    def snapshot_in(self, directory: Path) -> None:
        """All files of the database as they are now, in a directory that must not be there yet."""
        from rocksdict import Checkpoint

        with told_in_a_sentence(directory):
            Checkpoint(self.database).create_checkpoint(str(directory))

    def figures(self) -> tuple[int, int, int, int]:
        """Rows and bytes as the database estimates them, and how often the cache had what was asked for and had not."""
        rows = self.database.property_int_value("rocksdb.estimate-num-keys") or 0
        size = self.database.property_int_value("rocksdb.total-sst-files-size") or 0
        size += self.database.property_int_value("rocksdb.cur-size-all-mem-tables") or 0
        tables = self._tables.values()
        return rows, size, sum(one.hits for one in tables), sum(one.misses for one in tables)

    def close(self) -> None:
        self._tables.clear()
        with contextlib.suppress(Exception):
            self.database.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class DiskTable(MutableMapping[Any, Any]):
    def __init__(self, database: Rdict, name: str, directory: Path) -> None:
        self._database = database
        self._directory = directory
        self._prefix = name.encode() + b"\0"
        self._changed: dict[Any, Any] = {}  # by the batch at hand; GONE where it has removed
        self._young: dict[Any, Any] = {}
        self._old: dict[Any, Any] = {}
        self.hits = self.misses = 0

    def get(self, key: Any, default: Any = None) -> Any:
        found = self._changed.get(key, _missing)
        if found is _missing:
            found = self._young.get(key, _missing)
        if found is not _missing:
            self.hits += 1
            return default if found is GONE else found
        found = self._old.get(key, _missing)
        if found is _missing:
            self.misses += 1
            data = self._database.get(self._prefix + to_bytes(key))
            found = GONE if data is None else pickle.loads(data)
        else:
            self.hits += 1
        self._young[key] = found
        return default if found is GONE else found

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, GONE)
        if found is GONE:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self.get(key, GONE) is not GONE

    def __setitem__(self, key: Any, value: Any) -> None:
        self._changed[key] = value

    def __delitem__(self, key: Any) -> None:
        self._changed[key] = GONE

    def pop(self, key: Any, default: Any = None) -> Any:
        """What was there is not asked for."""
        self._changed[key] = GONE
        return default

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Any]:
        """May be changed meanwhile: what is put is not seen, what is removed may be."""
        changed = dict(self._changed)
        yield from (key for key, value in changed.items() if value is not GONE)
        for data in self._stored(self._prefix):
            key = from_bytes(data[0][len(self._prefix) :])
            if key not in changed:
                yield key

    def items(self) -> Any:
        changed = dict(self._changed)
        yield from ((key, value) for key, value in changed.items() if value is not GONE)
        for name, data in self._stored(self._prefix):
            key = from_bytes(name[len(self._prefix) :])
            if key not in changed:
                yield key, pickle.loads(data)

    def windows_before(self, start: int) -> Iterator[tuple[int, Any]]:
        """Of keys that are (start, key): those with a lesser start. Windows of the batch at hand may be left out: they
        are found later."""
        for name, _ in self._stored(self._prefix):
            key: tuple[int, Any] = from_bytes(name[len(self._prefix) :])
            if key[0] >= start:
                return
            if self._changed.get(key) is not GONE:
                yield key

    def _stored(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        found: Any = self._database.items(from_key=prefix)  # bytes, as the database is raw
        for name, data in found:
            if not name.startswith(prefix):
                return
            yield name, data

    def write(self) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for key, value in self._changed.items():
            name = self._prefix + to_bytes(key)
            if value is GONE:
                batch.delete(name)
            else:
                batch.put(name, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
        with told_in_a_sentence(self._directory):
            self._database.write(batch, _without_log())
        self._young.update(self._changed)
        self._changed = {}

    def trim(self, cache_bytes: int) -> None:
        if estimated_bytes(self._young) > cache_bytes // 2:
            self._old, self._young = self._young, {}


@contextlib.contextmanager
def told_in_a_sentence(directory: Path) -> Iterator[None]:
    """Errors of the database are plain exceptions with RocksDB's words."""
    try:
        yield
    except Exception as error:
        why = str(error).strip() or type(error).__name__
        kept = f"state can't be kept on this worker's disk, in {directory}: {why}"
        raise StateUnreachable(f"{kept}; the batch is done again, nothing is lost") from error


def estimated_bytes(entries: dict[Any, Any]) -> int:
    """What a dictionary takes in memory, by a look at some of its entries."""
    if not entries:
        return 0
    seen = 0
    for number, (key, value) in enumerate(entries.items()):
        if number == SAMPLES:
            break
        seen += len(pickle.dumps((key, None if value is GONE else value), pickle.HIGHEST_PROTOCOL))
    return len(entries) * (2 * seen // min(len(entries), SAMPLES) + ENTRY_OVERHEAD_BYTES)


def scratch_directory() -> Path:
    """A new directory beside this worker; those of workers that are gone are removed."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    root = Path(given or tempfile.gettempdir())
    for left in root.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))


def _opened(directory: Path) -> Rdict:
    from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict

    global _block_cache
    if _block_cache is None:
        _block_cache = Cache(BLOCK_CACHE_BYTES)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(_block_cache)
    blocks.set_bloom_filter(10, False)
    # In memory as long as a file is open. In the cache the filter of a large file fits no shard, and every key that is
    # looked up would read it anew.
    blocks.set_cache_index_and_filter_blocks(False)
    blocks.set_block_size(BLOCK_BYTES)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_table_cache_num_shard_bits(OPEN_FILES_SHARD_BITS)  # with more of them, two files may keep one place
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(1)
    # Named, or those that a database of a snapshot has noted would count instead, which have neither filter nor cache.
    return Rdict(str(directory), options, column_families={"default": options})


def _without_log() -> Any:
    from rocksdict import WriteOptions

    options: Any = WriteOptions()
    options.disable_wal = True  # a property, whatever its stub says
    return options
