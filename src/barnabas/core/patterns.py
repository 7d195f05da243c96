"""Regular expressions that strangers may send, in RE2/J's syntax, matched in linear time whatever they are.

Kafka's brokers match with RE2/J, the Java sibling of Google's RE2, and `google-re2` is RE2: it follows all states that
a text may be in at once and never goes back. The few places where the two read an expression differently are settled
here before RE2 sees it, in `_as_re2_reads_it`; `tests/reference/test_patterns.py` compares them. Bounds that RE2/J does
not have: the length, the size of the compiled program, how deep groups are nested, and classes of Unicode, which are
slow to read.

RE2 works on bytes. Most expressions are compiled for Latin-1, where `.` is one step instead of eight; one that names
characters beyond ASCII, and a text that has some, takes a program for UTF-8. Names of topics are ASCII.
"""

from __future__ import annotations

import re
from functools import cached_property

import re2

LENGTH_MAX = 32_768
PROGRAM_SIZE_MAX = 12_000
UNICODE_CLASSES_MAX = 32
DEPTH_MAX = 500
MEMORY_BYTES = 4 << 20
NUMBER = "(?:0|[1-9][0-9]*)"
TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)"
    r"|\\(?P<escaped>.)"
    r"|(?P<set>\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\])"
    r"|(?P<open>\((?:\?P?<(?P<name>[^>=!][^>]*)>)?)"
    r"|(?P<close>\))"
    rf"|\{{(?P<least>{NUMBER})(?:,(?P<most>{NUMBER}?))?\}}"
    rf"|(?P<brace>\{{)(?=[*+?]|\{{{NUMBER}(?:,{NUMBER}?)?\}})",
    re.DOTALL,
)
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
NAME = re.compile(r"[A-Za-z0-9_]+")
# How RE2/J says what RE2 says.
SAID = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class PatternError(ValueError):
    """It is no regular expression, or none that is matched here; one sentence."""


class Pattern:
    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise PatternError(f"the expression has more than {LENGTH_MAX} characters")
        self._text = _as_re2_reads_it(text)
        is_ascii = self._text.isascii() and "\\x{" not in self._text
        self._for_ascii = _compiled(self._text, re2.Options.Encoding.LATIN1 if is_ascii else re2.Options.Encoding.UTF8)
        # What matching one character of ASCII may cost at most.
        self.size: int = self._for_ascii.programsize
        if self.size > PROGRAM_SIZE_MAX:
            raise PatternError("the expression is too large")

    def fullmatch(self, text: str) -> bool:
        """Whether all of the text matches; a text beyond ASCII does not match where the program gets too large."""
        program = self._for_ascii if text.isascii() else self._for_unicode
        return program is not None and program.fullmatch(text.encode(errors="replace")) is not None

    @cached_property
    def _for_unicode(self) -> re2._Regexp | None:
        try:
            return _compiled(self._text, re2.Options.Encoding.UTF8)
        except PatternError:
            return None


def _compiled(text: str, encoding: re2.Options.Encoding) -> re2._Regexp:
    options = re2.Options()
    options.encoding = encoding
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        # Not `re2.compile`, which would keep 128 of them: whoever needs a pattern again keeps it.
        return re2._Regexp(text.encode(), options)
    except re2.error as error:
        raise _error(*error.args[0].decode(errors="replace").split(": ", 1)) from error
    except UnicodeEncodeError as error:
        raise _error("invalid UTF-8") from error


def _as_re2_reads_it(text: str) -> str:
    """RE2's way to write what RE2/J reads; the error where RE2/J would refuse and RE2 would not."""
    names: set[str] = set()
    unicode_classes = depth = 0

    def rewritten(token: re.Match[str]) -> str:
        nonlocal unicode_classes, depth
        if token["escaped"] or token["set"]:
            unicode_classes += sum(each[1] in "pP" for each in ESCAPED.finditer(token[0]))
            if unicode_classes > UNICODE_CLASSES_MAX:
                raise PatternError(f"the expression has more than {UNICODE_CLASSES_MAX} classes of Unicode")
            if token["escaped"] == "C":
                raise _error("invalid escape sequence", token[0])
            # RE2/J takes a needless \ before a letter beyond ASCII.
            return ESCAPED.sub(lambda each: each[0] if each[1].isascii() else each[1], token[0])
        depth += (token["open"] is not None) - (token["close"] is not None)
        if depth > DEPTH_MAX:
            raise PatternError(f"the groups of the expression are more than {DEPTH_MAX} deep")
        if name := token["name"]:
            if not NAME.fullmatch(name):
                raise _error("invalid named capture group", token[0])
            if name in names:
                raise _error("duplicate capture group name", name)
            names.add(name)
        elif token["least"] and max(len(token["least"]), len(token["most"] or "")) > 4:
            raise _error("invalid repetition size", token[0])
        elif token["brace"]:
            raise _error("bad repetition operator", text[token.start() : token.end() + 1])
        return token[0]

    return TOKEN.sub(rewritten, text)


def _error(what: str, where: str = "") -> PatternError:
    said = f"error parsing regexp: {SAID.get(what, what)}"
    return PatternError(f"{said}: `{where[:100]}`" if where else said)
