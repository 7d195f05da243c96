"""What statements may reach outside of topics: files, Python functions, and the server's own settings.

Who may send a statement is not thereby trusted with the server's disk and process. Files are read only below the
directories of `ksql.batch.files.directories`, functions are imported only from the modules of `ksql.python.modules`;
both are empty unless the server's file names some. Spark itself is never asked for a file: those that are permitted
become views, and its own way to name files is off. Settings by which the server finds other services, files or itself
are not changed by SET or ALTER SYSTEM.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language.lexer import OPERATOR, QUOTED, STRING, WORD, Token

DIRECTORIES = "ksql.batch.files.directories"
MODULES = "ksql.python.modules"
JAVA_CALLS = ("REFLECT", "JAVA_METHOD", "TRY_REFLECT")
SERVERS_OWN = (
    "bootstrap.servers",
    "listeners",
    "state.dir",
    "rocksdb.config.setter",
    "interceptor.classes",
    "metric.reporters",
    DIRECTORIES,
    MODULES,
    "ksql.connect.url",
    "ksql.extension.dir",
    "ksql.queries.file",
    "ksql.service.id",
    "ksql.state.dir",
    "ksql.logging.processing.topic.name",
)
SERVERS_OWN_PREFIXES = ("ssl.", "sasl.", "security.", "spark.", "ksql.schema.registry.", "ksql.internal.", "ksql.authe")
INHERITED_PREFIXES = ("ksql.streams.", "consumer.", "producer.", "admin.")


@dataclass(frozen=True, slots=True)
class Reach:
    directories: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(_listed(properties.get(DIRECTORIES)), _listed(properties.get(MODULES)))

    def check_file(self, path: str) -> str:
        """The path as it is read. Refuses one that is not below a permitted directory, wherever its links lead."""
        if not self.directories:
            raise SqlError(
                f"Files are not read by this server: `{path}`. Its setting {DIRECTORIES} names the directories whose "
                "files statements may read; it is empty."
            )
        wanted = _resolved(path)
        if any(wanted == one or wanted.startswith(one.rstrip("/") + "/") for one in map(_resolved, self.directories)):
            return wanted
        raise SqlError(
            f"`{path}` is not below a directory of {DIRECTORIES} (now {', '.join(self.directories)}): it is not read."
        )

    def check_module(self, place: str) -> None:
        """`place` is module:function; a permitted package permits what is in it."""
        module = place.partition(":")[0]
        if "*" in self.modules or any(module == one or module.startswith(f"{one}.") for one in self.modules):
            return
        permitted = f"now {', '.join(self.modules)}" if self.modules else "it is empty"
        raise SqlError(
            f"Python functions of module '{module}' are not called by this server: its setting {MODULES} names the "
            f"modules that statements may use; {permitted}."
        )


def check_property(name: str) -> None:
    """Of SET, ALTER SYSTEM and a request's properties."""
    bare = name
    for prefix in INHERITED_PREFIXES:
        bare = bare.removeprefix(prefix)
    if (
        {name, bare} & set(SERVERS_OWN)
        or name.startswith(SERVERS_OWN_PREFIXES)
        or bare.startswith(SERVERS_OWN_PREFIXES)
    ):
        raise SqlError(f"Cannot override property '{name}': it is set where the server is started.")


def check_batch(tokens: Sequence[Token]) -> None:
    """Refuses what Spark SQL has for code: Java methods, scripts, and computed names (they could be either)."""
    for first, second in itertools.pairwise(tokens):
        opens = second.kind == OPERATOR and second.text == "("
        if first.kind in (WORD, QUOTED) and first.text.upper() in JAVA_CALLS and opens:
            raise SqlError(f"{first.text.upper()} calls Java, which statements may not.")
        if first.kind == WORD and first.text == "IDENTIFIER" and opens:
            raise SqlError("IDENTIFIER(...) is not supported: write the name itself.")
        if first.kind == WORD and first.text == "USING" and second.kind == STRING:
            raise SqlError("TRANSFORM ... USING runs a program, which statements may not.")


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(one.strip() for one in (text or "").split(",") if one.strip())


def _resolved(path: str) -> str:
    """Local paths without links and dots; those of other file systems as they are, without dots."""
    scheme, found, rest = path.partition(":")
    if found and scheme.lower() == "file":
        path = "/" + rest.lstrip("/")
    elif found and "/" not in scheme:
        if ".." in rest.split("/"):
            raise SqlError(f"`{path}` is not read: a path of another file system has no '..'.")
        return path
    before, glob = path, ""
    for at, letter in enumerate(path):
        if letter in "*?[{":
            before, glob = os.path.split(path[:at])[0], path[len(os.path.split(path[:at])[0]) :]
            break
    if ".." in glob:
        raise SqlError(f"`{path}` is not read: a pattern has no '..'.")
    return os.path.realpath(before) + glob
