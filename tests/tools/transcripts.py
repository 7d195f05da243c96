"""Golden transcripts of command lines: read, run, compared, written.

A transcript is prose with indented commands and what they print, as in the courses:

    Create a topic.

      $ kafka-topics --bootstrap-server localhost:9092 --create --topic t
      Created topic t.
      $ kafka-topics --bootstrap-server localhost:9092 --create --topic t
      2> Topic 't' already exists.
      [1]

`2> ` is stderr, `[1]` the exit code where it is not 0. `$ tool ... <<END` takes the following `> ` lines as stdin, and
`$ cat > file <<END` writes a file. Every address of the courses is the cluster under test. Prose may hold directives
for the next command, each on a line of its own:

    @ until             it is repeated until it prints this: the cluster needs a moment
    @ unordered         the order of the lines is not fixed
    @ words differ      the sentences are the server's or ours: only where something is printed and the exit code count
    @ numbers differ    numbers are measured
    @ ours only         Kafka's tool has no such thing
    @ skipped on our node    the node does not have the API yet
    @ mask REGEX        what the expression finds is not compared

and for the whole transcript, `@ not on our node`, `@ not with Kafka's tools`, and `@ with KEY=VALUE` for the cluster.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

INDENT = "  "
ADDRESSES = ("localhost:9092", "127.0.0.1:9092", "192.168.1.100:9092", "localhost:19092")


@dataclass(slots=True)
class Output:
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    code: int = 0

    def lines(self) -> list[str]:
        code = [f"[{self.code}]"] if self.code else []
        return [*_without_blank_end(self.stdout), *(f"2> {line}".rstrip() for line in self.stderr), *code]


@dataclass(slots=True)
class Step:
    command: str
    stdin: list[str]
    expected: Output
    directives: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command.partition("<<")[0])

    def has(self, directive: str) -> bool:
        return directive in self.directives

    def seen(self, output: Output) -> Output:
        """What of an output counts."""
        if self.has("words differ"):
            return Output(["..."] if output.stdout else [], ["..."] if output.stderr else [], output.code)
        stdout, stderr = _without_blank_end(output.stdout), output.stderr
        for directive in self.directives:
            if directive.startswith("mask "):
                stdout = [re.sub(directive[5:], "*", line) for line in stdout]
                stderr = [re.sub(directive[5:], "*", line) for line in stderr]
        if self.has("numbers differ"):
            stdout = [re.sub(r"-?\d+(\.\d+)?( {2,})?", _without_number, line) for line in stdout]
        if self.has("unordered"):
            stdout = sorted(stdout)
        return Output(stdout, stderr, output.code)


def read(path: Path) -> list[str | Step]:
    """Lines of prose and steps, in order."""
    parts: list[str | Step] = []
    directives: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith(f"{INDENT}$ "):
            parts.append(Step(line[4:], [], Output(), tuple(directives)))
            directives = []
        elif line.startswith(INDENT) and parts and isinstance(step := _last_step(parts), Step):
            while parts[-1] == "":
                parts.pop()
                step.expected.stdout.append("")
            _take(step, line[len(INDENT) :])
        else:
            if line.startswith("@ "):
                directives.append(line[2:].strip())
            parts.append(line)
    return parts


def _last_step(parts: list[str | Step]) -> str | Step:
    return next((part for part in reversed(parts) if part != ""), "")


def _take(step: Step, line: str) -> None:
    if line.startswith("> ") or line == ">":
        step.stdin.append(line[2:])
    elif line.startswith("2>"):
        step.expected.stderr.append(line[3:])
    elif re.fullmatch(r"\[\d+\]", line):
        step.expected.code = int(line[1:-1])
    else:
        step.expected.stdout.append(line)


def write(path: Path, parts: list[str | Step]) -> None:
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Step):
            lines.append(f"{INDENT}$ {part.command}")
            lines += [f"{INDENT}> {line}".rstrip() for line in part.stdin]
            lines += [f"{INDENT}{line}".rstrip() for line in part.expected.lines()]
        else:
            lines.append(part)
    path.write_text("\n".join(lines).rstrip("\n") + "\n")


def normal(stdout: str, stderr: str, code: int, names: Mapping[str, str]) -> Output:
    """An output without what differs from run to run: ids, times, addresses, directories."""
    stdout = _TRACE.sub("", stdout)
    return Output(_normal_lines(stdout, names), _normal_lines(_sentences(stderr), names), code)


def _without_number(found: re.Match[str]) -> str:
    """As wide as it was where it stands in a table."""
    return "N".ljust(len(found[0])) if found[2] else "N"


def _normal_lines(text: str, names: Mapping[str, str]) -> list[str]:
    for held, name in names.items():
        text = text.replace(held, name)
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", _id, text)
    text = re.sub(r"(?<![.\w])1[5-9]\d{11}\b", "<time>", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,:]\d{3})?", "<time>", text)
    return [line.rstrip() for line in text.splitlines()]


def _id(found: re.Match[str]) -> str:
    """Of 22 characters, large and small, and not words in CamelCase."""
    text = found[0]
    is_word = re.fullmatch(r"(?:[A-Z][a-z]+)+", text) is not None
    return text if is_word or text in (text.lower(), text.upper()) else "<id>"


def _without_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


# What Kafka's tools print about themselves.
NOISE = ("The consumer rebalance protocol (KIP-848) is production-ready!",)
_TRACE = re.compile(
    r"^(?:(?:Caused by: )?[\w.$]+(?:Exception|Error): .*\n(?=\tat )|\tat .*\n|\t\.\.\. .*\n|Caused by: .*\n)", re.M
)
_LOGGED = re.compile(r"\[\d{4}-\d\d-\d\d .*\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_EXCEPTION = re.compile(r"(?:Exception in thread \"\w+\" |Caused by: )?[\w.$]+(?:Exception|Error)(?:: (.*))?$")


def _sentences(stderr: str) -> str:
    """Without the tables of usage, the log lines and the stack traces of Java's tools, and without our hints."""
    if stderr.startswith("usage: ") and ": error: " in (joined := " ".join(stderr.split())):
        return joined.partition(": error: ")[2].replace("-- ", "--") + "\n"
    kept: list[str] = []
    exceptions: list[str] = []
    for line in stderr.splitlines():
        if re.match(r"Option(?: \(\* = required\))?\s+Description", line):
            break
        if found := _EXCEPTION.match(line):
            exceptions.append(found[1] or line)
        elif (
            line.startswith(("\tat ", "\t...", "\tSuppressed", "See '", *NOISE))
            or _LOGGED.match(line)
            or not line.strip()
        ):
            continue
        else:
            kept.append(re.sub(r": did you mean .*\?$| Did you mean .*\?$", "", line))
    return "\n".join(kept or exceptions[:1])


Runner = Callable[[str, list[str], str | None], tuple[str, str, int]]


def perform(step: Step, directory: Path, run: Runner, names: Mapping[str, str]) -> Output:
    """Runs one step in the directory of its transcript."""
    words = step.words
    ending = step.command.partition("<<")[2].strip() if "<<" in step.command else None
    stdin = None
    if ending is not None:
        lines = step.stdin[:-1] if step.stdin and step.stdin[-1] == ending else step.stdin
        stdin = "".join(f"{line}\n" for line in lines)
    if words[:2] == ["cat", ">"]:
        (directory / words[2]).write_text(_replaced(stdin or "", {name: held for held, name in names.items()}))
        return Output()
    addresses = {name: held for held, name in names.items() if name in ADDRESSES}
    addresses |= {address: addresses["localhost:9092"] for address in ADDRESSES if "localhost:9092" in addresses}
    places = {name: held for held, name in names.items() if name not in ADDRESSES}
    arguments = [_replaced(word, addresses | places) for word in words[1:]]
    stdout, stderr, code = run(words[0], arguments, stdin)
    return normal(stdout, stderr, code, names)


def _replaced(word: str, names: Mapping[str, str]) -> str:
    for name, held in names.items():
        word = word.replace(name, held)
    return word
