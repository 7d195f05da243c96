"""Writes docs/tools.md out of the tools' own parsers: `python tools/document_tools.py`."""

from __future__ import annotations

import importlib
from pathlib import Path

from barnabas.cli.catalogue import CLASSES, CONFLUENT_TOOLS, KAFKA_TOOLS, OWN_TOOLS, TOOLS, module_of
from barnabas.cli.options import Option, Parser
from barnabas.cli.usage import describe, spelled

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "tools.md"

HEAD = """\
# The tools

One program, `barnabas`, has a command for each tool, and each of Kafka's tools is also installed under its name with
and without `.sh`: `barnabas topics`, `kafka-topics` and `kafka-topics.sh` are the same. They work against our nodes and
against Apache Kafka alike, print what Kafka's tools print, and end with the same exit codes.

- Options are read as Kafka reads them: one dash or two, `--option value` or `--option=value`, any unique beginning of a
  name, today's spellings and the older ones.
- `--zookeeper` of the older courses prints Kafka's warning of that time and asks `BARNABAS_BOOTSTRAP_SERVERS`, or
  `localhost:9092`. That variable also stands in for a missing `--bootstrap-server`.
- `--command-config FILE` takes Kafka's client properties: `security.protocol`, `sasl.*`, `ssl.*` and the time-outs.
- `--output json` prints listings and descriptions as JSON.
- A mistake is told in one sentence, with exit code 1.

This page is written by `make docs` out of the tools' own declarations; a test checks that it is current.
"""


def page() -> str:
    parts = [HEAD, *_index("Kafka's tools", KAFKA_TOOLS), *_index("Confluent's tools", CONFLUENT_TOOLS)]
    parts += _index("Beyond Kafka's", OWN_TOOLS)
    for tool in sorted(TOOLS):
        parts += _tool(tool)
    return "\n".join(parts).rstrip() + "\n"


def _index(title: str, tools: dict[str, str]) -> list[str]:
    lines = [f"- [{tool}](#{tool}): {what}" for tool, what in sorted(tools.items())]
    return [f"## {title}", "", *lines, ""]


def _tool(tool: str) -> list[str]:
    parser: Parser | None = getattr(importlib.import_module(module_of(tool)), "PARSER", None)
    names = f"`barnabas {tool}`"
    if tool in KAFKA_TOOLS:
        names += f", `{tool if tool.startswith('zookeeper') else f'kafka-{tool}'}`"
    lines = [f"### {tool}", "", names, ""]
    if parser is None:
        lines += [TOOLS[tool], ""]
        return lines + (_classes() if tool == "run-class" else [])
    lines += [parser.summary, "", *_parser(parser)]
    for command in parser.commands:
        lines += [f"#### {tool} {command.name}", "", command.summary, "", *_parser(command)]
    return lines


def _classes() -> list[str]:
    rows = [f"| `{name}` | [{tool}](#{tool}) |" for name, tool in sorted(CLASSES.items())]
    return ["The class may stand with any package.", "", "| class | tool |", "| --- | --- |", *rows, ""]


def _parser(parser: Parser) -> list[str]:
    rows = [f"| `{each.name}` | {_cell(each.help)} |" for each in parser.positionals]
    options = sorted((option for option in parser.options if not option.hidden), key=lambda option: option.name)
    rows += [f"| `{_cell(spelled(option))}` | {_cell(_described(option))} |" for option in options]
    return ["| option | meaning |", "| --- | --- |", *rows, ""] if rows else []


def _described(option: Option) -> str:
    return f"{describe(option)}{' Not in Kafka.' if option.beyond_kafka else ''}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*") if "`" not in text else text


if __name__ == "__main__":
    DOCUMENT.write_text(page())
    print(f"written: {DOCUMENT.name}")
