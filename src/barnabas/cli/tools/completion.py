"""`barnabas completion bash|zsh`: the script that completes commands, options, and the live names of topics and groups.

The script asks `barnabas completion words` what may stand at the cursor. That never fails loudly: a shell that waits
for a completion shows nothing else.
"""

from __future__ import annotations

import sys

from barnabas.cli.catalogue import TOOLS, module_of, scripts, tool_of_script
from barnabas.cli.errors import UsageError
from barnabas.cli.options import HELP, VERSION, Option, Parser, Positional

LIVE_TIMEOUT_MS = 1500
COMMANDS = ("up", "server")
SHELLS = ("bash", "zsh")
FILES = "*files*"

PARSER = Parser(
    name="completion",
    summary="Prints the completion script of a shell: source <(barnabas completion bash).",
    beyond_kafka=True,
    help_exit=0,
    positionals=(Positional(name="shell", help="bash or zsh."),),
)

BASH = """\
# source <(barnabas completion bash)
_barnabas() {
    local IFS=$'\\n' found
    found=$(barnabas completion words --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [ "$found" = "*files*" ]; then
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        COMPREPLY=($found)
    fi
}
complete -F _barnabas %s
"""

ZSH = """\
# source <(barnabas completion zsh)
_barnabas() {
    local -a found
    found=("${(@f)$(barnabas completion words -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ "$found" == "*files*" ]]; then
        _files
    else
        compadd -- $found
    fi
}
compdef _barnabas %s
"""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["words"]:
        line = arguments[1:2] == ["--line"]
        for word in completions_of_line(arguments[2]) if line else completions(arguments[2:]):
            print(word)
        return 0
    if arguments[:1] in (["--help"], ["-h"], []):
        from barnabas.cli.usage import usage

        print(usage(PARSER, program="barnabas completion"), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 1
    if arguments[0] not in SHELLS:
        raise UsageError(f"There is no completion for {arguments[0]}; there is one for {' and '.join(SHELLS)}.")
    names = " ".join(["barnabas", *scripts()])
    print((BASH if arguments[0] == "bash" else ZSH) % names, end="")
    return 0


def completions_of_line(line: str) -> list[str]:
    """For bash, which takes what stands behind the last `=` or `:` for the word that is completed."""
    import re
    import shlex

    try:
        words = shlex.split(line)
    except ValueError:
        return []
    if not line or line[-1].isspace():
        words.append("")
    found = completions(words)
    kept = max((each.end() for each in re.finditer("[=:]", words[-1])), default=0)
    return [word if word == FILES else word[kept:] for word in found]


def completions(words: list[str]) -> list[str]:
    """What may stand at the last of the words, which may be begun. The first is the program's name."""
    if not words:
        return []
    program, *rest = words
    current = rest[-1] if rest else ""
    tool = tool_of_script(program)
    if tool is None:
        if len(rest) <= 1:
            return _starting(sorted([*TOOLS, *COMMANDS]), current)
        tool, rest = rest[0], rest[1:]
    parser = _parser(tool)
    if parser is None:
        return [FILES]
    return _of_tool(parser, rest[:-1], current)


def _parser(tool: str) -> Parser | None:
    import importlib

    if tool not in TOOLS:
        return None
    found = getattr(importlib.import_module(module_of(tool)), "PARSER", None)
    return found if isinstance(found, Parser) else None


def _of_tool(parser: Parser, before: list[str], current: str) -> list[str]:
    command = next((found for word in before if (found := parser.command(word)) is not None), None)
    options = [*parser.options, *(command.options if command else ()), HELP, VERSION]
    named, equals, begun = current.partition("=")
    if current.startswith("-") and equals:
        option = _named(options, named)
        return [f"{named}={value}" for value in _values(option, before, begun)] if option else []
    if before and (last := _named(options, before[-1])) is not None and last.takes is not None:
        return _values(last, before, current)
    if current.startswith("-"):
        return _starting([f"--{each.name}" for each in options if not each.hidden], current)
    if parser.commands and command is None:
        return _starting([each.name for each in parser.commands], current)
    positionals = (command or parser).positionals
    if positionals and positionals[0].completes:
        return _live(positionals[0].completes, before, current)
    return _starting([f"--{each.name}" for each in options if not each.hidden], current)


def _named(options: list[Option], word: str) -> Option | None:
    if not word.startswith("-") or "=" in word:
        return None
    name = word.lstrip("-")
    return next((each for each in options if name in [one.lstrip("-") for one in each.names]), None)


def _values(option: Option, before: list[str], current: str) -> list[str]:
    if option.choices:
        return _starting(list(option.choices), current)
    return _live(option.completes, before, current)


def _live(kind: str, before: list[str], current: str) -> list[str]:
    if kind == "file":
        return [FILES]
    if kind not in ("topic", "group", "broker"):
        return []
    try:
        return _starting(_names(kind, before), current)
    except Exception:  # a completion that fails offers nothing
        return []


def _names(kind: str, before: list[str]) -> list[str]:
    from barnabas.client.cluster import Cluster
    from barnabas.client.settings import ClientSettings, read_properties

    address, config = _connection(before)
    properties = read_properties(config) if config else {}
    for name in ("default.api.timeout.ms", "request.timeout.ms", "socket.connection.setup.timeout.ms"):
        properties[name] = str(LIVE_TIMEOUT_MS)
    settings = ClientSettings.from_properties(properties, bootstrap_servers=address, client_id="barnabas-completion")
    with Cluster(settings) as cluster:
        if kind == "group":
            from barnabas.client.admin.groups import list_groups

            return [listing.group for listing in list_groups(cluster)]
        if kind == "broker":
            return [str(node_id) for node_id in sorted(cluster.metadata([]).brokers)]
        return sorted(cluster.metadata().topics)


def _connection(before: list[str]) -> tuple[str, str | None]:
    """The address and the file with properties that stand on the line already."""
    import os

    from barnabas.cli.connect import BOOTSTRAP_SERVER, COMMAND_CONFIG, DEFAULT_SERVER, ENVIRONMENT

    found: dict[str, str] = {}
    for at, word in enumerate(before):
        named, equals, value = word.partition("=")
        option = _named([BOOTSTRAP_SERVER, COMMAND_CONFIG], named)
        if option is not None:
            found[option.name] = value if equals else "".join(before[at + 1 : at + 2])
    address = found.get("bootstrap-server") or os.environ.get(ENVIRONMENT) or DEFAULT_SERVER
    return address, found.get("command-config")


def _starting(words: list[str], current: str) -> list[str]:
    return [word for word in words if word.startswith(current)]
