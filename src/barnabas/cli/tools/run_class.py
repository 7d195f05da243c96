"""`kafka-run-class`: runs the tool that stands for a Java class, by the names of today's Kafka and of older courses."""

from __future__ import annotations

import sys

from barnabas.cli.catalogue import CLASSES


def main(arguments: list[str]) -> int:
    words = list(arguments)
    while words and words[0].startswith("-"):  # -daemon, -name NAME, -loggc: for the JVM
        words = words[2:] if words[0] == "-name" else words[1:]
    if not words:
        print("USAGE: kafka-run-class classname [opts]", file=sys.stderr)
        return 1
    name = words[0].rpartition(".")[2].removesuffix("$")
    tool = CLASSES.get(name)
    if tool is None:
        from difflib import get_close_matches

        near = get_close_matches(name, CLASSES, n=2)
        hint = f" Did you mean {' or '.join(near)}?" if near else f" There are {', '.join(sorted(CLASSES))}."
        print(f"No tool stands for the class {words[0]}.{hint}", file=sys.stderr)
        return 1
    from barnabas.cli.run import run_tool

    return run_tool(tool, words[1:], program=f"kafka-run-class {words[0]}")
