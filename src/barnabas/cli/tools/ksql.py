"""`ksql [http://host:8088]`: statements typed, or of `--execute` and `--file`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

if TYPE_CHECKING:
    from barnabas.cli.sql.session import SqlSession

DEFAULT_URL = "http://localhost:8088"
# Comments, and what is quoted, where none begin.
COMMENT = re.compile(r"""('(?:[^']|'')*'|"[^"]*"|`[^`]*`)|--[^\n]*|/\*.*?\*/""", re.DOTALL)
PARSER = Parser(
    name="ksql",
    summary="Types SQL statements to a server, or runs those of a file.",
    helps_without_arguments=False,
    positionals=(Positional(name="server", help=f"The server, {DEFAULT_URL} if none is given.", required=False),),
    options=(
        option("--execute", "-e", takes="statements", help="Run these statements and leave."),
        option("--file", "-f", takes="file", help="Run the statements of a file and leave.", completes="file"),
        option("--define", "-d", takes="name=value", repeated=True, help="A variable; may be repeated."),
        option("--output", takes="format", default="TABULAR", choices=("TABULAR", "JSON"), help="TABULAR or JSON."),
        option(
            "--config-file",
            takes="file",
            help="The session's properties, and ssl.* of ours.",
            completes="file",
        ),
        option("--user", "-u", takes="name", help="For a server that asks who one is."),
        option("--password", "-p", takes="password", help="The user's password; it is asked for if it is not given."),
        option("--query-row-limit", takes="rows", kind=int, help="Taken for compatibility."),
        option("--query-timeout", takes="ms", kind=int, help="Taken for compatibility."),
    ),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.services.asking import authorization, tls_context
    from barnabas.cli.sql.client import ServerRefused, ServerUnreachable, SqlClient
    from barnabas.cli.sql.session import SqlSession

    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]} is one server too many.")
    url = parsed.rest[0] if parsed.rest else DEFAULT_URL
    properties: dict[str, str] = {}
    if (path := parsed.text("config-file")) is not None:
        from barnabas.client.settings import read_properties

        properties = read_properties(path)
    login = authorization(parsed.text("user"), parsed.text("password"))
    session = SqlSession(SqlClient(url, login, lambda: tls_context(properties)))
    # As in ksqlDB ssl.* are this program's, and the rest is the session's.
    session.properties |= {key: value for key, value in properties.items() if not key.startswith("ssl.")}
    session.output = (parsed.text("output") or "TABULAR").upper()
    for given in parsed.texts("define"):
        name, equals, value = given.partition("=")
        if not equals:
            raise UsageError(f"{given} is no variable: name=value is expected.")
        session.variables[name.upper()] = value
    try:
        if (text := parsed.text("execute")) is not None:
            session.run(text)
        elif (path := parsed.text("file")) is not None:
            session.run(Path(path).read_text())
        else:
            return interactive(session)
    except (ServerUnreachable, ServerRefused) as error:
        raise ToolFailed(str(error)) from None
    return 1 if session.failed else 0


def interactive(session: SqlSession) -> int:
    from barnabas import __version__
    from barnabas.cli.sql.client import ServerRefused, ServerUnreachable
    from barnabas.cli.sql.session import Leave

    info = session.client.info()
    if sys.stdin.isatty():
        _line_editing()
        session.say(
            f"\nBarnabas SQL, in ksqlDB's dialect\n\nCLI v{__version__}, Server v{info['version']} located at "
            f"{session.client.url}\nServer Status: {info['serverStatus']}\n\nHaving trouble? Type 'help' "
            "(case-insensitive) for a rundown of how things work!\n"
        )
    waiting = ""
    while True:
        try:
            line = input("ksql> " if not waiting else ">")
        except EOFError:
            return 0
        except KeyboardInterrupt:
            waiting = ""
            print()
            continue
        try:
            waiting = typed(session, waiting, line)
        except Leave:
            session.say("Exiting ksqlDB.")
            return 0
        except (ServerUnreachable, ServerRefused) as error:
            session.say(str(error))


def typed(session: SqlSession, waiting: str, line: str) -> str:
    """What is still to be ended by a semicolon after a line."""
    from barnabas.pipelines.sql.language.statements import is_ended

    if not waiting and (line.lstrip().startswith("--") or session.command(line)):
        if line.strip():
            session.history.append(line.strip())
        return ""
    text = f"{waiting}\n{line.rstrip().removesuffix(chr(92))}" if waiting else line.rstrip().removesuffix(chr(92))
    if not text.strip():
        return ""
    if not is_ended(text):
        return text
    session.history.append(in_one_line(text))
    if "\n" in text:
        _recall_as_one(text)
    session.note(text)
    session.run(text)
    return ""


def in_one_line(text: str) -> str:
    """A statement without its comments, which would take what stands behind them along."""
    return " ".join(COMMENT.sub(lambda found: found[1] or " ", text).split())


def _recall_as_one(text: str) -> None:
    """The lines of a statement that were typed are one line of the history."""
    if (readline := sys.modules.get("readline")) is None:
        return
    for line in reversed([line for line in text.split("\n") if line.strip()]):
        last = readline.get_current_history_length()
        if last and readline.get_history_item(last).rstrip() == line:
            readline.remove_history_item(last - 1)
    readline.add_history(in_one_line(text))


def _line_editing() -> None:
    try:
        import readline
    except ImportError:
        return
    import atexit

    path = Path.home() / ".ksql-history"
    try:
        readline.read_history_file(path)
    except OSError:
        pass
    readline.set_history_length(1000)

    def keep() -> None:
        try:
            readline.write_history_file(path)
        except OSError:
            pass

    atexit.register(keep)
