"""A disk that forgets: what was written and not fsynced is lost, kept, torn or reordered when the power goes.

Theory. The code under test works on real files in a real directory. Beside them this model keeps, for every file, what
the disk surely has (`durable`) and what was changed since (`pending`); and for every directory the same of its entries.
fsync of a file moves its changes over, fsync of a directory those of its entries, as POSIX promises and no more: the
fsync of a new file does not make its name durable.

A crash may come before any change. `after_crash` draws what the disk holds then:
  - of a file's writes: none, all, the first few (the last of them torn), or for each page any of the states it had;
    a write behind a truncation is there only if the truncation is, and the size may be ahead of the data (zeros)
  - of the names: the first few changes, as a file system with a journal has it; and perhaps, ahead of its turn, the
    name of a file that was fsynced
A change is atomic for names (a rename is there or not) and, inside a sector, for data.

An fsync that fails has lost what it was to write: a later one that succeeds does not bring it to the disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

PAGE_BYTES = 4096
SECTOR_BYTES = 512


class Crash(BaseException):
    """The power is gone. No `except Exception` may keep anybody alive."""


@dataclass(frozen=True, slots=True)
class Write:
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """A truncation; also one that makes the file longer."""

    size: int


Change = Write | Cut


def apply_change(content: bytearray, change: Change) -> None:
    if isinstance(change, Cut):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    end = change.position + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.position : end] = change.data


@dataclass(slots=True, eq=False)
class SimulatedFile:
    durable: bytes = b""
    current: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    # An fsync has failed: the kernel takes what was pending then for written, and it is not.
    untrusted: bool = False

    def change(self, change: Change) -> None:
        apply_change(self.current, change)
        self.pending.append(change)

    def synced(self) -> None:
        if not self.untrusted:
            self.durable = bytes(self.current)
            self.pending.clear()

    def sync_failed(self) -> None:
        self.untrusted = True

    def after_crash(self, random: Random) -> bytes:
        content = bytearray(self.durable)
        if not self.pending:
            return bytes(content)
        fate = random.choice(("lost", "kept", "prefix", "pages", "pages"))
        if fate == "kept":
            return bytes(self.current)
        if fate == "prefix":
            self._apply_prefix(content, random)
        elif fate == "pages":
            self._apply_pages(content, random)
        return bytes(content)

    def _apply_prefix(self, content: bytearray, random: Random) -> None:
        count = random.randrange(len(self.pending))
        for change in self.pending[:count]:
            apply_change(content, change)
        torn = self.pending[count]
        if isinstance(torn, Write) and random.random() < 0.7:
            size = random.randrange(len(torn.data) + 1)
            if random.random() < 0.5:
                size = max(size - (torn.position + size) % SECTOR_BYTES, 0)
            apply_change(content, Write(torn.position, torn.data[:size]))

    def _apply_pages(self, content: bytearray, random: Random) -> None:
        """Runs of writes between truncations; in a run every page goes its own way."""
        run: list[Write] = []
        for change in self.pending:
            if isinstance(change, Write):
                run.append(change)
                continue
            apply_pages(content, run, random)
            run = []
            if random.random() < 0.5:
                return
            apply_change(content, change)
        apply_pages(content, run, random)


def apply_pages(content: bytearray, writes: list[Write], random: Random) -> None:
    pages: dict[int, list[Write]] = {}
    for write in writes:
        for fragment in fragments(write, PAGE_BYTES):
            pages.setdefault(fragment.position // PAGE_BYTES, []).append(fragment)
    likely = random.choice((0.2, 0.5, 0.9))
    size_before = len(content)
    size_after = max([size_before, *(write.position + len(write.data) for write in writes)])
    for states in pages.values():
        if random.random() > likely:
            continue
        kept = states if random.random() < 0.7 else states[: random.randrange(len(states) + 1)]
        for number, fragment in enumerate(kept):
            is_last = number == len(kept) - 1
            for sector in fragments(fragment, SECTOR_BYTES):
                if not is_last or random.random() < 0.95:
                    apply_change(content, sector)
    if random.random() < 0.3:
        apply_change(content, Cut(random.randint(size_before, size_after)))


def fragments(write: Write, unit: int) -> Iterator[Write]:
    position, data = write.position, write.data
    while data:
        size = unit - position % unit
        yield Write(position, data[:size])
        position, data = position + size, data[size:]


@dataclass(slots=True, eq=False)
class SimulatedDirectory:
    current: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node = SimulatedFile | SimulatedDirectory


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a directory that stood for one thing and now stands for another, or for nothing."""

    directory: SimulatedDirectory
    name: str
    before: Node | None
    after: Node | None

    def apply(self, entries: dict[str, Node]) -> None:
        if self.after is None:
            if entries.get(self.name) is self.before:
                del entries[self.name]
            return
        for other in [name for name, node in entries.items() if node is self.after]:
            del entries[other]
        entries[self.name] = self.after


Names = tuple[Entry, ...]  # one atomic change


class SimulatedTree:
    """The files below one directory, as the processes see them and as the disk has them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self.top = read_tree(root)
        self.pending: list[Names] = []
        self._early: set[Names] = set()

    def find(self, path: str) -> Node | None:
        node: Node | None = self.top
        if path == self._prefix[:-1]:
            return node
        for part in self._parts(path):
            if not isinstance(node, SimulatedDirectory):
                return None
            node = node.current.get(part)
        return node

    def parent(self, path: str) -> tuple[SimulatedDirectory, str]:
        *above, name = self._parts(path)
        node: Node = self.top
        for part in above:
            assert isinstance(node, SimulatedDirectory)
            node = node.current[part]
        assert isinstance(node, SimulatedDirectory)
        return node, name

    def _parts(self, path: str) -> list[str]:
        assert path.startswith(self._prefix)
        return path[len(self._prefix) :].split("/")

    def add(self, path: str, node: Node) -> None:
        directory, name = self.parent(path)
        self._change((Entry(directory, name, directory.current.get(name), node),))

    def remove(self, path: str) -> None:
        directory, name = self.parent(path)
        self._change((Entry(directory, name, directory.current[name], None),))

    def rename(self, source: str, target: str) -> None:
        old_directory, old_name = self.parent(source)
        new_directory, new_name = self.parent(target)
        node, replaced = old_directory.current[old_name], new_directory.current.get(new_name)
        self._change(
            (Entry(old_directory, old_name, node, None), Entry(new_directory, new_name, replaced, node)),
        )

    def _change(self, names: Names) -> None:
        for entry in names:
            entry.apply(entry.directory.current)
        self.pending.append(names)

    def file_synced(self, file: SimulatedFile) -> None:
        """Its name may be on the disk from now on, and need not be."""
        file.synced()
        self._early.update(names for names in self.pending if names[-1].after is file)

    def directory_synced(self, directory: SimulatedDirectory) -> None:
        waiting: list[Names] = []
        for names in self.pending:
            if any(entry.directory is directory for entry in names):
                for entry in names:
                    entry.apply(entry.directory.durable)
            else:
                waiting.append(names)
        self.pending = waiting

    def all_synced(self) -> None:
        for names in self.pending:
            for entry in names:
                entry.apply(entry.directory.durable)
        self.pending = []
        for node in walk(self.top):
            if isinstance(node, SimulatedFile):
                node.synced()

    def after_crash(self, random: Random, target: Path) -> None:
        """Writes what the disk holds now into an empty directory."""
        count = random.randint(0, len(self.pending))
        early = [names for names in self.pending[count:] if names in self._early and random.random() < 0.3]
        for names in self.pending[:count] + early:
            for entry in names:
                entry.apply(entry.directory.durable)
        write_tree(self.top, target, random)

    def check_against_files(self) -> None:
        """The model is right: what it believes to be there is there, and nothing else."""
        compare(self.top, self.root)


def read_tree(path: Path) -> SimulatedDirectory:
    directory = SimulatedDirectory()
    for each in sorted(path.iterdir()):
        node: Node
        if each.is_dir():
            node = read_tree(each)
        else:
            content = each.read_bytes()
            node = SimulatedFile(content, bytearray(content))
        directory.current[each.name] = directory.durable[each.name] = node
    return directory


def walk(directory: SimulatedDirectory) -> Iterator[Node]:
    for node in directory.current.values():
        yield node
        if isinstance(node, SimulatedDirectory):
            yield from walk(node)


def write_tree(directory: SimulatedDirectory, path: Path, random: Random) -> None:
    for name, node in sorted(directory.durable.items()):
        if isinstance(node, SimulatedDirectory):
            (path / name).mkdir()
            write_tree(node, path / name, random)
        else:
            (path / name).write_bytes(node.after_crash(random))


def compare(directory: SimulatedDirectory, path: Path) -> None:
    names = {each.name for each in path.iterdir()}
    assert names == set(directory.current), f"{path} has {sorted(names)}, expected {sorted(directory.current)}"
    for name, node in directory.current.items():
        if isinstance(node, SimulatedDirectory):
            compare(node, path / name)
        else:
            assert (path / name).read_bytes() == node.current, f"{path / name} was changed behind the model's back"
