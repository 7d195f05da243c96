"""Byte for byte with Kafka's own generated classes: they read what we wrote and write it again.

All lines go through one Java process (`java/WireBytes.java`), as a filter.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.wire.apis import APIS, request_header_version, response_header_version
from barnabas.wire.apis import message_classes as api_classes
from barnabas.wire.codec import EncodeError
from barnabas.wire.errors import RETRIABLE, ErrorCode
from barnabas.wire.records.framing import encode_metadata_record, metadata_record_types
from barnabas.wire.schema import Message
from barnabas.wire.shapes import Field, Kind, fields_of
from tests.support import reference
from tests.support.random_messages import RandomMessages, message_classes, messages_and_versions, versions_of

EXAMPLES = 10
FILTER = Path(__file__).parent / "java" / "WireBytes.java"
MESSAGES = "org.apache.kafka.common.message"
GROUPS = "org.apache.kafka.coordinator.group.generated"
PACKAGES = {
    "consumer_groups": GROUPS,
    "groups": GROUPS,
    "metadata": "org.apache.kafka.common.metadata",
    "remote_log": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "share_groups": GROUPS,
    "share_state": "org.apache.kafka.coordinator.share.generated",
    "storage": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "streams_groups": GROUPS,
    "transactions": "org.apache.kafka.coordinator.transaction.generated",
}
# Kafka's default is null, which its brokers replace with empty records in every answer. Ours is empty from the start.
EMPTY_INSTEAD_OF_NULL = {
    ("FetchResponse", "responses.partitions.records"),
    ("FetchSnapshotResponse", "topics.partitions.unalignedrecords"),
    ("ProduceRequest", "topicdata.partitiondata.records"),
    ("ShareFetchResponse", "responses.partitions.records"),
}

Filter = Callable[[list[str]], list[str]]


@pytest.fixture(scope="module")
def kafka_classes() -> Filter:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")

    def answers(lines: list[str]) -> list[str]:
        done = reference.run_tool(str(FILTER), input="".join(f"{line}\n" for line in lines))
        assert done.returncode == 0, done.stderr
        answered = done.stdout.splitlines()
        assert len(answered) == len(lines)
        return answered

    return answers


def java_class(cls: type[Message]) -> str:
    place = cls.__module__.removeprefix("barnabas.wire.")
    if not place.startswith("records."):
        return f"{MESSAGES}.{cls.__name__}Data"
    return f"{PACKAGES.get(place.removeprefix('records.'), MESSAGES)}.{cls.__name__}"


def line(cls: type[Message], read: int, written: int, encoded: bytes | bytearray) -> str:
    return f"bytes {java_class(cls)} {read} {written} {encoded.hex()}"


def test_kafka_writes_the_same_bytes_for_every_message_and_version(kafka_classes: Filter) -> None:
    cases = []
    for cls, version in messages_and_versions():
        for example in range(EXAMPLES):
            message = RandomMessages((cls.__name__, version, example)).message(cls, version)
            cases.append((cls, version, example, message.encode(version)))
    answers = kafka_classes([line(cls, version, version, encoded) for cls, version, _, encoded in cases])
    wrong = [
        (cls.__name__, version, example, encoded.hex(), answer)
        for (cls, version, example, encoded), answer in zip(cases, answers, strict=True)
        if answer != encoded.hex()
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first: {wrong[0]}"


def test_kafka_says_the_same_in_another_version_or_refuses_as_we_do(kafka_classes: Filter) -> None:
    """What may be ignored, what must be at its default, and which default that is."""
    cases: list[tuple[type[Message], int, int, int, str]] = []
    lines = []
    for cls, read in messages_and_versions():
        for written in versions_of(cls):
            for example, default_share in enumerate((0.3, 0.9, 1.0) if read != written else ()):
                chance = RandomMessages((cls.__name__, read, example))
                message = chance.message(cls, read, default_share=default_share)
                lines.append(line(cls, read, written, message.encode(read)))
                cases.append((cls, read, written, example, said(message, written)))
    answers = kafka_classes(lines)
    wrong = [
        (cls.__name__, read, written, example, ours, answer)
        for (cls, read, written, example, ours), answer in zip(cases, answers, strict=True)
        if ours != ("refused" if answer.startswith("refused") else answer)
    ]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first: {wrong[0]}"
    refused = [answer for answer in answers if answer.startswith("refused")]
    assert 500 < len(refused) < len(answers) / 2, "the cases no longer show both"


def said(message: Message, version: int) -> str:
    try:
        return message.encode(version).hex()
    except EncodeError:
        return "refused"


def test_kafka_frames_metadata_records_as_we_do(kafka_classes: Filter) -> None:
    encoded = []
    for cls in metadata_record_types().values():
        chance = RandomMessages(cls.__name__)
        for version in versions_of(cls):
            encoded += [encode_metadata_record(chance.message(cls, version), version).hex() for _ in range(EXAMPLES)]
    assert kafka_classes([f"metadata {data}" for data in encoded]) == encoded


def test_every_field_has_kafkas_default(kafka_classes: Filter) -> None:
    classes = message_classes()
    answers = kafka_classes([f"defaults {java_class(cls)}" for cls in classes])
    deviations = set()
    for cls, answer in zip(classes, answers, strict=True):
        theirs = [tuple(item.split("=", 1)) for item in answer.split("\t") if item]
        ours = list(defaults(cls))
        assert [path for path, _ in ours] == [path.lower() for path, _ in theirs], cls.__name__
        for (path, our_default), (_, their_default) in zip(ours, theirs, strict=True):
            if our_default == "hex:" and their_default == "null":
                deviations.add((cls.__name__, path))
            else:
                assert our_default == their_default, f"{cls.__name__}.{path}"
    assert deviations == EMPTY_INSTEAD_OF_NULL


def defaults(cls: type[Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Path and default of every field, spelt as the filter spells them, without capitals and underscores."""
    instance = cls()
    for item in fields_of(cls):
        name = path + item.name.replace("_", "")
        yield name, shown(item, getattr(instance, item.name))
        if item.struct is not None:
            yield from defaults(item.struct, f"{name}.")


def shown(item: Field, value: Any) -> str:
    if value is None:
        return "null"
    if item.is_array:
        return "[]" if value == [] else "not empty"
    match item.kind:
        case Kind.STRUCT:
            return "struct"
        case Kind.STRING:
            return f"'{value}'"
        case Kind.BYTES | Kind.RECORDS:
            return f"hex:{bytes(value).hex()}"
        case Kind.BOOL:
            return str(value).lower()
    return str(value)


def test_every_api_has_kafkas_versions_and_headers(kafka_classes: Filter) -> None:
    for api_key, answer in zip(APIS, kafka_classes([f"api {api_key}" for api_key in APIS]), strict=True):
        request, _ = api_classes(api_key)
        low, high = request.valid_versions
        headers = [
            f"{request_header_version(request, version)}:{response_header_version(request, version)}"
            for version in range(low, high + 1)
        ]
        assert answer == " ".join([str(low), str(high), *headers]), APIS[api_key].name


def test_every_error_has_kafkas_name_code_and_character(kafka_classes: Filter) -> None:
    (answer,) = kafka_classes(["errors"])
    ours = {f"{code.name}={code.value}={'true' if code in RETRIABLE else 'false'}" for code in ErrorCode}
    assert ours == set(answer.split("\t"))
