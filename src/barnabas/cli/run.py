"""Runs a tool: the command line read, its mistakes told in one sentence, never a traceback.

A tool is a module of `barnabas.cli.tools` with a `PARSER` and `run(parsed) -> int | None` (None is 0). A tool that
reads its words itself has `main(arguments) -> int` instead.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from barnabas.cli.catalogue import module_of, tool_of_script
from barnabas.cli.errors import ToolFailed, UsageError

KAFKA_VERSION = "4.3.1"  # whose tools these are like


def script() -> int:
    """What the installed scripts call: the tool by the script's own name."""
    tool = tool_of_script(sys.argv[0])
    if tool is None:
        print(f"{sys.argv[0]} is not the name of a tool.", file=sys.stderr)
        return 1
    return leave(run_tool(tool, sys.argv[1:], program=sys.argv[0].rpartition("/")[2]))


def leave(code: int) -> int:
    """A reader who went away must not become a traceback while Python closes stdout."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or 141
    return code


def run_tool(tool: str, arguments: Sequence[str], *, program: str | None = None) -> int:
    program = program or f"barnabas {tool}"
    module = importlib.import_module(module_of(tool))
    try:
        if hasattr(module, "main"):
            return int(module.main(list(arguments)))
        return _run(module, list(arguments), program)
    except UsageError as error:
        print(f"{error}\nSee '{program} --help'.", file=sys.stderr)
        return 1
    except ToolFailed as failure:
        print(failure, file=sys.stdout if failure.on_stdout else sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except Exception as error:
        return _told(error)


def _run(module: object, arguments: list[str], program: str) -> int:
    from barnabas.cli.options import HelpWanted, VersionWanted

    try:
        return int(module.run(module.PARSER.parse(arguments)) or 0)  # type: ignore[attr-defined]
    except HelpWanted as wanted:
        from barnabas.cli.usage import usage

        code = 0 if wanted.command else wanted.parser.help_exit
        stream = sys.stdout if wanted.parser.commands or not code else sys.stderr
        print(usage(wanted.parser, wanted.command, program), file=stream)
        return code
    except VersionWanted:
        from barnabas import __version__

        print(f"{KAFKA_VERSION} (Barnabas {__version__})")
        return 0


def _told(error: Exception) -> int:
    """A client's error is a sentence already; an error of a file too. Anything else is a mistake of ours."""
    from barnabas.client.errors import ClientError

    if isinstance(error, ClientError):
        print(error, file=sys.stderr)
        return 1
    from barnabas.wire.codec import EncodeError

    if isinstance(error, EncodeError):
        print(f"A value that was given is larger than the protocol has room for: {error}.", file=sys.stderr)
        return 1
    if isinstance(error, OSError) and error.filename is not None:
        print(f"{error.filename} cannot be used: {error.strerror}.", file=sys.stderr)
        return 1
    raise error
