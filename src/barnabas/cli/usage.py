"""The text of `--help`, in the two columns of Kafka's tools."""

from __future__ import annotations

from textwrap import wrap

from barnabas.cli.options import HELP, VERSION, Option, Parser

WIDTH = 96
COLUMN_MAX = 40


def usage(parser: Parser, command: Parser | None = None, program: str | None = None) -> str:
    program = program or parser.name
    shown = command or parser
    lines = [shown.summary, "", f"usage: {program} {_synopsis(parser, command)}", ""]
    if shown.positionals:
        lines += [*_table([(each.name, each.help) for each in shown.positionals], "Argument"), ""]
    if parser.commands and command is None:
        lines += [*_table([(each.name, each.summary) for each in parser.commands], "Command"), ""]
    options = [*shown.options, *(parser.options if command else ()), HELP, *(() if command else (VERSION,))]
    rows = [(spelled(each), describe(each)) for each in sorted(options, key=lambda each: each.name) if not each.hidden]
    lines += _table(rows, "Option")
    return "\n".join(lines)


def spelled(option: Option) -> str:
    text = ", ".join(option.names[:1] + tuple(name for name in option.names[1:] if not name.startswith("--")))
    if option.takes is None:
        return text
    return f"{text} [{option.takes}]" if option.optional else f"{text} <{option.takes}>"


def describe(option: Option) -> str:
    older = [name for name in option.names[1:] if name.startswith("--")]
    return " ".join(
        [
            option.help,
            *([f"One of {', '.join(option.choices)}."] if option.choices else []),
            *([f"(default: {option.default})"] if option.default is not None else []),
            *([f"Also spelled {', '.join(older)}."] if older else []),
        ]
    )


def _synopsis(parser: Parser, command: Parser | None) -> str:
    words = ["[options]"]
    if parser.commands:
        words.append(command.name if command else "command")
        words.append("[options of the command]")
    for each in (command or parser).positionals:
        word = f"{each.name}..." if each.many else each.name
        words.append(word if each.required else f"[{word}]")
    return " ".join(words)


def _table(rows: list[tuple[str, str]], title: str) -> list[str]:
    width = min(COLUMN_MAX, max(len(title), *(len(left) for left, _ in rows)))
    lines = [f"{title:{width}} Description", f"{'-' * len(title):{width}} -----------"]
    for left, right in rows:
        described = wrap(right, WIDTH - width - 1) or [""]
        if len(left) > width:
            lines.append(left)
            left = ""
        lines += [f"{left if at == 0 else '':{width}} {text}".rstrip() for at, text in enumerate(described)]
    return lines
