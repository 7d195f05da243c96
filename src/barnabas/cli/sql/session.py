"""A session of the command line: statements one by one, to the server or for the session itself."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from barnabas.cli.sql import tables
from barnabas.cli.sql.client import ServerRefused, SqlClient
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.lexer import with_variables
from barnabas.pipelines.sql.language.statements import parse_statement, split_statements, tokens_with_variables

LOCAL = ("SET", "UNSET", "DEFINE", "UNDEFINE", "RUN")
HELP = """
Description:
    Statements are typed here and sent to the server. docs/sql.md has all of them.

help:                        this text
clear:                       clears the terminal
output [TABULAR|JSON]:       shows or sets the format of answers; SET OUTPUT is the same
history:                     what was typed before
spool <file>|off:            writes what is shown to a file as well
run script '<file>':         runs the statements of a file
cli width <columns>:         the width of tables
version, server, exit, quit

A statement ends with a semicolon and may have many lines. Ctrl-C ends a push query.
"""


class Leave(Exception):
    """exit, quit."""


class SqlSession:
    def __init__(self, client: SqlClient, out: TextIO | None = None) -> None:
        self.client = client
        self.properties: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self.output = "TABULAR"
        self.history: list[str] = []
        self.failed = False
        self._out = out or sys.stdout
        self._spool: TextIO | None = None
        self._width: int | None = None

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)
        if self._spool is not None:
            print(text, file=self._spool, flush=True)

    def note(self, text: str) -> None:
        """What was typed: for SPOOL, which has all that the terminal shows."""
        if self._spool is not None:
            print(f"ksql> {text}", file=self._spool, flush=True)

    @property
    def width(self) -> int:
        return self._width or shutil.get_terminal_size((80, 24)).columns

    def command(self, line: str) -> bool:
        """Does what is for the command line itself; False if it is a statement."""
        words = line.strip().rstrip(";").split()
        if not words:
            return True
        name = words[0].lower()
        if name == "set" and len(words) > 1 and words[1].lower() == "output":
            words, name = words[1:], "output"
        commands: dict[str, Callable[[list[str]], None]] = {
            "help": lambda _: self.say(HELP),
            "clear": lambda _: self.say("\033[H\033[2J"),
            "output": self._set_output,
            "history": lambda _: self.say("\n".join(f"{at + 1}: {one}" for at, one in enumerate(self.history))),
            "spool": self._set_spool,
            "version": lambda _: self.say(f"Version: {self.client.info()['version']}"),
            "server": lambda _: self.say(f"Server: {self.client.url}"),
        }
        if name in ("exit", "quit"):
            raise Leave
        if name == "cli" and len(words) > 2 and words[1].lower() == "width" and words[2].isdigit():
            self._width = int(words[2])
            return True
        if name not in commands or (len(words) > 2 and name != "spool"):
            return False
        commands[name](words[1:])
        return True

    def _set_output(self, words: list[str]) -> None:
        if words:
            if words[0].upper() not in ("TABULAR", "JSON"):
                self._error(f"Invalid output format: {words[0]}. Valid formats: TABULAR, JSON")
                return
            self.output = words[0].upper()
            self.say(f"Output format set to {self.output}")
        else:
            self.say(f"Current output format: {self.output}")

    def _set_spool(self, words: list[str]) -> None:
        target = " ".join(words).strip("'\"")
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if target and target.lower() != "off":
            self._spool = Path(target).open("a")  # noqa: SIM115 (SPOOL OFF closes it)
            self.say(f"Session will be spooled to {Path(target).absolute()}\nEnter SPOOL OFF to disable")

    def run(self, text: str) -> None:
        """Statements, ended by semicolons. The first one that is refused ends them."""
        try:
            for statement in split_statements(text):
                self._one(statement.strip() + ";")
        except (SqlError, ServerRefused) as error:
            self._error(str(error))

    def _error(self, message: str) -> None:
        self.failed = True
        self.say(message)

    def _one(self, text: str) -> None:
        words = [token.text for token in tokens_with_variables(text)[:3]]
        if words[0] in LOCAL:
            self._local(parse_statement(with_variables(text, self.variables)))
        elif words in (["SHOW", "VARIABLES", ";"], ["LIST", "VARIABLES", ";"]):
            self.say(tables.table(["Variable Name", "Value"], [[*one] for one in sorted(self.variables.items())]))
        elif words[0] in ("SELECT", "WITH"):
            self._select(text)
        elif words[0] == "PRINT":
            self._print(text)
        else:
            for answer in self.client.execute(text, self.properties, self.variables):
                self._show(answer)

    def _local(self, statement: tree.Statement) -> None:
        if isinstance(statement, tree.SetProperty):
            if statement.value is None:
                before = self.properties.pop(statement.name, None)
                self.say(f"Successfully unset local property '{statement.name}' (value was '{before}').")
                return
            before = self.properties.get(statement.name)
            self.properties[statement.name] = statement.value
            was = f" from '{before}'" if before is not None else ""
            self.say(f"Successfully changed local property '{statement.name}'{was} to '{statement.value}'.")
        elif isinstance(statement, tree.Define):
            if statement.value is None:
                self.variables.pop(statement.name, None)
            else:
                self.variables[statement.name] = statement.value
        elif isinstance(statement, tree.RunScript):
            try:
                self.run(Path(statement.path).read_text())
            except OSError as error:
                raise SqlError(f"Failed to read file: {statement.path}: {error.strerror}") from None

    def _show(self, answer: dict[str, Any]) -> None:
        self.say(json.dumps([answer], indent=2) if self.output == "JSON" else tables.answer_text(answer))

    def _select(self, text: str) -> None:
        lines = self.client.lines(text, self.properties, self.variables)
        try:
            for line in lines:
                found = read_line(line)
                if found is None:
                    continue
                written, entry = found
                if self.output == "JSON" and ("header" in entry or "row" in entry):
                    self.say(written)
                elif "header" in entry:
                    self.say(tables.head(column_names(entry["header"]["schema"]), self.width))
                elif "row" in entry:
                    self.say(tables.row(cells_of(entry["row"]), self.width))
                elif "finalMessage" in entry and entry["finalMessage"] != "Query Completed":
                    self.say(entry["finalMessage"])
                elif "errorMessage" in entry:
                    raise ServerRefused(entry["errorMessage"]["message"])
        except KeyboardInterrupt:
            pass
        finally:
            lines.close()  # type: ignore[attr-defined]
        self.say("Query terminated")

    def _print(self, text: str) -> None:
        lines = self.client.lines(text, self.properties, self.variables)
        try:
            for line in lines:
                self.say(line)
        except KeyboardInterrupt:
            pass
        finally:
            lines.close()  # type: ignore[attr-defined]
        self.say("Topic printing ceased")


def cells_of(row: dict[str, Any]) -> list[Any]:
    """The columns of a row; of one that is gone from its table its key."""
    if not row.get("tombstone"):
        return list(row["columns"])
    return ["<TOMBSTONE>" if one is None else one for one in row["columns"]]


def read_line(line: str) -> tuple[str, dict[str, Any]] | None:
    """A line of the array that POST /query answers with, as it was written and as a tree, where numbers with a point
    are texts: 2.50 of a DECIMAL stays so."""
    bare = line.strip()
    bare = bare.removeprefix("[").removeprefix(",").strip()
    if not bare or bare == "]":
        return None
    for candidate in (bare.removesuffix(","), bare.removesuffix(",").removesuffix("]")):
        try:
            found = json.loads(candidate, parse_float=str)
            return (candidate, found) if isinstance(found, dict) else None
        except ValueError:
            continue
    return None


def column_names(schema: str) -> list[str]:
    """Names of `A` INTEGER, `B` STRUCT<`C` STRING>: those outside of angle brackets."""
    names, depth, name = [], 0, ""
    inside = False
    for letter in schema:
        if letter == "`":
            if inside and not depth:
                names.append(name)
            inside, name = not inside, ""
        elif inside:
            name += letter
        else:
            depth += (letter == "<") - (letter == ">")
    return names
