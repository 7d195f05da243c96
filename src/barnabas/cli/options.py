"""How the tools read their command line: Kafka's habits, declared once per tool.

A tool declares a `Parser`: its options and, where it has some, its commands (`describe`, `format`). The same
declaration gives the parsing, `--help`, docs/tools.md and shell completion. The habits:

- long options with one dash or two, `--option value` and `--option=value`, and any unique prefix of a name;
- older spellings of an option are further names of it;
- an option that takes a value takes the next word, whatever that looks like (`--shift-by -2`);
- options of the tool itself stand before or after the name of the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.cli.errors import UsageError

Value = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    names: tuple[str, ...]  # as Kafka spells it today, then older and shorter spellings
    help: str
    takes: str | None = None  # what the value is called in the help; None for a flag
    kind: type[str] | type[int] | type[float] = str
    repeated: bool = False
    optional: bool = False  # the value may be left out: `without_value` stands for it
    without_value: str = ""
    default: Value | None = None
    many: bool = False  # takes all words up to the next option, as argparse's nargs="+"
    choices: tuple[str, ...] = ()
    completes: str = ""  # what shell completion offers: "topic", "group", "file", "broker"
    hidden: bool = False
    beyond_kafka: bool = False

    @property
    def name(self) -> str:
        return self.names[0].lstrip("-")


def option(*names: str, takes: str | None = None, help: str, **more: Any) -> Option:
    return Option(names=names, takes=takes, help=help, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positional:
    name: str
    help: str
    many: bool = False
    required: bool = True
    completes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    name: str  # of the tool without "kafka-": "topics"
    summary: str
    options: tuple[Option, ...] = ()
    positionals: tuple[Positional, ...] = ()
    commands: tuple[Parser, ...] = ()
    beyond_kafka: bool = False  # a tool that Kafka does not have
    help_exit: int = 1  # Kafka's tools differ: those with commands answer 0 and print to stdout
    ignores_rest: bool = True  # words that belong to no option are ignored
    helps_without_arguments: bool = True  # called with nothing at all, the tool prints its help

    def all_options(self) -> tuple[Option, ...]:
        return (*self.options, HELP, VERSION)

    def command(self, name: str) -> Parser | None:
        return next((command for command in self.commands if command.name == name), None)

    def parse(self, arguments: Sequence[str]) -> Parsed:
        return _Parse(self, arguments).run()


HELP = option("--help", "-h", help="Print usage information.")
VERSION = option("--version", "-v", help="Display the version.")


class HelpWanted(Exception):
    """`--help`, or no argument at all where Kafka's tool prints its help then."""

    def __init__(self, parser: Parser, command: Parser | None) -> None:
        super().__init__()
        self.parser = parser
        self.command = command


class VersionWanted(Exception):
    """`--version`."""


class Parsed:
    """What stands on the command line; a value is read as a number when it is asked for.

    A name without a declaration is a mistake of ours and raises KeyError.
    """

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.command: str | None = None
        self.rest: list[str] = []
        self._values: dict[str, list[str]] = {}
        self._options = {option.name: option for option in parser.all_options()}

    def choose(self, command: Parser) -> None:
        self.command = command.name
        self._options |= {option.name: option for option in command.options}

    def add(self, option: Option, value: str) -> None:
        self._values.setdefault(option.name, []).append(value)

    def __contains__(self, name: str) -> bool:
        """Whether it was given; a default does not count."""
        return self._declared(name) is not None and name in self._values

    def given(self) -> Iterator[str]:
        return iter(self._values)

    def value(self, name: str) -> Value | None:
        option = self._declared(name)
        values = self._values.get(name)
        if not values:
            return option.default if option else None
        if len(values) > 1 and not (option and option.repeated):
            raise UsageError(f"Found multiple arguments for option {name}, but you asked for only one")
        try:
            return option.kind(values[-1]) if option else values[-1]
        except ValueError:
            raise UsageError(f"Cannot parse argument '{values[-1]}' of option {name}") from None

    def text(self, name: str) -> str | None:
        value = self.value(name)
        return None if value is None else str(value)

    def number(self, name: str) -> int | None:
        value = self.value(name)
        return None if value is None else int(value)

    def texts(self, name: str) -> list[str]:
        option = self._declared(name)
        values = self._values.get(name)
        if values is None:
            return [] if option is None or option.default is None else [str(option.default)]
        return list(values)

    def _declared(self, name: str) -> Option | None:
        """None for an option that another command of the tool has."""
        option = self._options.get(name)
        if option is None and not any(name == each.name for each in self._of_commands()):
            raise KeyError(f"{self.parser.name} declares no option {name}")
        return option

    def _of_commands(self) -> Iterator[Option]:
        for command in self.parser.commands:
            yield from command.options

    def require(self, *names: str) -> None:
        for name in names:
            if name not in self:
                raise UsageError(f'Missing required argument "{self.spelled(name)}"')

    def refuse(self, used: str, *others: str) -> None:
        """`used` cannot stand beside any of the others."""
        if used not in self:
            return
        for other in others:
            if other in self:
                raise UsageError(f'Option "{self.spelled(used)}" can\'t be used with option "{self.spelled(other)}"')

    def spelled(self, name: str) -> str:
        """As Kafka's sentences name an option: in brackets."""
        return f"[{self._options[name].name}]"


def _names(options: Sequence[Option]) -> set[str]:
    return {name.lstrip("-") for option in options for name in option.names}


class _Parse:
    def __init__(self, parser: Parser, arguments: Sequence[str]) -> None:
        self.parser = parser
        self.words = list(arguments)
        self.at = 0
        self.command: Parser | None = None
        self.parsed = Parsed(parser)

    def run(self) -> Parsed:
        if not self.words and self.parser.helps_without_arguments and not self.parser.commands:
            raise HelpWanted(self.parser, None)
        options_end = False
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if options_end or not word.startswith("-") or word == "-" or self._is_negative_number(word):
                self._word(word)
            elif word == "--":
                options_end = True
            else:
                self._option(word)
        if self.parser.commands and self.command is None:
            raise UsageError("too few arguments")
        self._check_rest()
        return self.parsed

    def _is_negative_number(self, word: str) -> bool:
        return word[1:].isdecimal()

    def _word(self, word: str) -> None:
        if self.parser.commands and self.command is None:
            self.command = self.parser.command(word)
            if self.command is None:
                # The sentence is Kafka's where Kafka has the tool.
                known = [each for each in self.parser.commands if not each.beyond_kafka] or self.parser.commands
                names = ", ".join(f"'{command.name}'" for command in known)
                raise UsageError(f"invalid choice: '{word}' (choose from {names})")
            self.parsed.choose(self.command)
        else:
            self.parsed.rest.append(word)

    def _check_rest(self) -> None:
        declared = self.command.positionals if self.command else self.parser.positionals
        if declared:
            needed = sum(1 for each in declared if each.required)
            if len(self.parsed.rest) < needed:
                raise UsageError(f"{declared[len(self.parsed.rest)].name} is missing")
        elif self.parsed.rest and (self.parser.commands or not self.parser.ignores_rest):
            raise UsageError(f"unrecognized arguments: '{self.parsed.rest[0]}'")

    def _option(self, word: str) -> None:
        spelled, equals, value = self._attached(word) or word.partition("=")
        option = self._find(spelled)
        if option is HELP:
            raise HelpWanted(self.parser, self.command)
        if option is VERSION:
            raise VersionWanted
        if option.takes is None:
            self.parsed.add(option, "")
        elif equals:
            self._add(option, value)
        elif option.many:
            self._add_many(option)
        elif option.optional and (self.at == len(self.words) or self.words[self.at].startswith("-")):
            self.parsed.add(option, option.without_value)
        elif self.at == len(self.words):
            raise UsageError(f"Option {option.name} requires an argument")
        else:
            self._add(option, self.words[self.at])
            self.at += 1

    def _attached(self, word: str) -> tuple[str, str, str] | None:
        """`-K:` is `-K :` where there is an option of one letter that takes a value, and no longer one of that name."""
        options = [*(self.command.options if self.command else ()), *self.parser.all_options()]
        if word.startswith("--") or len(word) < 3:
            return None
        short = next((each for each in options if word[:2] in each.names and each.takes is not None), None)
        return None if short is None or word[1:].partition("=")[0] in _names(options) else (word[:2], "=", word[2:])

    def _add_many(self, option: Option) -> None:
        start = self.at
        while self.at < len(self.words) and not self.words[self.at].startswith("-"):
            self._add(option, self.words[self.at])
            self.at += 1
        if self.at == start:
            raise UsageError(f"Option {option.name} requires an argument")

    def _add(self, option: Option, text: str) -> None:
        if option.choices and text not in option.choices:
            names = ", ".join(option.choices)
            raise UsageError(f"{text} is not a value of --{option.name}, which takes {names}.")
        self.parsed.add(option, text)

    def _find(self, spelled: str) -> Option:
        options = [*(self.command.options if self.command else ()), *self.parser.all_options()]
        name = spelled.lstrip("-")
        for option in options:
            if name in [each.lstrip("-") for each in option.names]:
                return option
        beginning = [option for option in options if any(each.lstrip("-").startswith(name) for each in option.names)]
        if len(beginning) == 1 and len(name) > 1:
            return beginning[0]
        meant = self._meant(name, beginning, options)
        if self.parser.commands:
            raise UsageError(f"unrecognized arguments: '{spelled}'{meant}")
        raise UsageError(f"{name} is not a recognized option{meant}")

    def _meant(self, name: str, beginning: list[Option], options: list[Option]) -> str:
        from difflib import get_close_matches

        names = sorted(option.name for option in beginning if not option.hidden)
        if not names:
            names = get_close_matches(name, [option.name for option in options if not option.hidden], n=2)
        return f": did you mean {' or '.join(f'--{each}' for each in names)}?" if names else ""
