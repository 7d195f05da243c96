"""What a failure says in one sentence, and whether another start could heal it.

An error of a query has come through Spark as text: a page that ends, or begins, with what was the matter. The name of
the Python class that is in it decides. What is not known may heal: a pipeline tries again, more and more seldom.
"""

from __future__ import annotations

import difflib
import re
import traceback
from dataclasses import dataclass

# By the name of the class, as texts have it. A replay of the same batch would end the same way.
NEVER_HEALS = {
    "OptionError", "BadRow", "IncompatibleCheckpoint", "LostRecords", "UnreadableRecord", "Unrepeatable",
    "InvalidSetting", "AuthenticationFailed", "UnsupportedByBroker", "JavaMissing", "TopologyError",
    "CheckpointError", "TopicGrown", "RecordError",
    "AnalysisException", "ParseException", "IllegalArgumentException", "SyntaxError", "ModuleNotFoundError",
}  # fmt: skip

OF_CHECKPOINTS = {"CheckpointError", "IncompatibleCheckpoint"}
OF_STATE = {"StateUnreachable", "StateDamaged"}  # a disk or an object store

# Of Python's own errors in the pipeline's file these come from elsewhere.
MAY_HEAL = (ConnectionError, TimeoutError, MemoryError, InterruptedError)
HEALING_NAMES = ("ClientError", "Py4JNetworkError", "Py4JError", "Py4JJavaError", "StreamingQueryException")

# Spark's own words about a checkpoint of another query.
FOREIGN_CHECKPOINT = re.compile(
    r"STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|sources in the checkpoint offsets and now there are|"
    r"STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_INVALID_CONFIG_AFTER_RESTART"
)

PYTHON_ERROR = re.compile(r"^(?:Caused by: )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: (.*))?$")
STREAM_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[id = [^]]*\] terminated with exception: ")
ERROR_CLASS = re.compile(r"^\[[A-Z][A-Z0-9_.]+\] ")
SQL_STATE = re.compile(r"\s*SQLSTATE: \w{5}$")
JAVA_NAME = re.compile(r"^(?:java|javax|org|scala|com)\.[\w.$]+: ")


@dataclass(frozen=True, slots=True)
class Failure:
    sentence: str
    final: bool
    query: str | None = None
    detail: str = ""  # the traceback, for --verbose
    foreign_checkpoint: bool = False

    def told(self) -> str:
        return self.sentence if self.query is None else f"query {self.query}: {self.sentence}"


def of_query(name: str, text: str) -> Failure:
    """Of a query that ended with an error, by what Spark says of it."""
    error, sentence = _python_error(text) or ("", _first_line(text))
    foreign = error in OF_CHECKPOINTS or FOREIGN_CHECKPOINT.search(text) is not None
    return Failure(sentence, error in NEVER_HEALS or foreign, name, text, foreign)


def of_file(app: str, error: BaseException, *, resumed: bool = False) -> Failure:
    """Of the pipeline's file, raised while it ran. What is wrong in it stays wrong, unless it waits for others: for
    brokers, or for the storage of a checkpoint that queries of it have used before."""
    detail = "".join(traceback.format_exception(error))
    if isinstance(error, SyntaxError):
        where = f"{error.filename or app}, line {error.lineno}"
        return Failure(f"{where}: {error.msg}", True, detail=detail)
    names = {each.__name__ for each in type(error).__mro__}
    if any(each.__module__.startswith(("pyspark.", "py4j.")) for each in type(error).__mro__[:-2]):
        found = _python_error(str(error))
        if found is not None:
            foreign = found[0] in OF_CHECKPOINTS
            return Failure(found[1], found[0] in NEVER_HEALS, detail=detail, foreign_checkpoint=foreign)
        foreign = FOREIGN_CHECKPOINT.search(str(error)) is not None
        final = foreign or not names & set(HEALING_NAMES)
        return Failure(_first_line(str(error)), final, detail=detail, foreign_checkpoint=foreign)
    if names & {"ClientError", "JavaMissing"} or names & NEVER_HEALS:
        foreign = bool(names & OF_CHECKPOINTS) and "TopicGrown" not in names  # its state can be moved
        return Failure(str(error), bool(names & NEVER_HEALS), detail=detail, foreign_checkpoint=foreign)
    if names & OF_STATE:
        return Failure(str(error), not resumed, detail=detail)
    line = next(
        (frame.lineno for frame in reversed(traceback.extract_tb(error.__traceback__)) if frame.filename == app), 0
    )
    said = f"{type(error).__name__}: {error}{_hint(error)}" if str(error) else type(error).__name__
    return Failure(f"{app}{f', line {line}' if line else ''}: {said}", not isinstance(error, MAY_HEAL), detail=detail)


def _hint(error: BaseException) -> str:
    """As Python's own traceback has it, which does not say it of errors that were caught."""
    if not isinstance(error, AttributeError) or not isinstance(error.name, str) or error.obj is None:
        return ""
    near = difflib.get_close_matches(error.name, [one for one in dir(error.obj) if not one.startswith("_")], 1)
    return f", is {near[0]} meant?" if near else ""


def _python_error(text: str) -> tuple[str, str] | None:
    """Class and words of the last Python exception in a text, with the lines that belong to its words."""
    at = text.rfind("Traceback (most recent call last):")
    if at < 0:
        return None
    lines = text[at:].splitlines()[1:]
    while lines and (lines[0].startswith((" ", "\t")) or not PYTHON_ERROR.match(lines[0])):
        lines.pop(0)
    if not lines:
        return None
    match = PYTHON_ERROR.match(lines[0])
    assert match is not None
    name = match[1].rpartition(".")[2]
    words = match[2] or ""
    known = match[1].startswith("barnabas.")
    return name, words if known and words else f"{name}: {words}" if words else name


def _first_line(text: str) -> str:
    line = next(
        (line.strip() for line in STREAM_FAILED.sub("", text.strip()).splitlines() if line.strip()), "no reason"
    )
    for noise in (JAVA_NAME, STREAM_FAILED, ERROR_CLASS, SQL_STATE):
        line = noise.sub("", line)
    return line
