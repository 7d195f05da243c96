from __future__ import annotations

from collections.abc import Callable

from barnabas.streams import TopologyTestDriver


def test_the_lines_of_the_slide_give_the_counts_of_the_slide(driver: Callable[[str], TopologyTestDriver]) -> None:
    counting = driver("word_count")
    counting.pipe_input("streams-plaintext-input", None, "all streams lead to kafka")
    first = dict(counting.read_output("streams-wordcount-output"))
    assert first == {"all": 1, "streams": 1, "lead": 1, "to": 1, "kafka": 1}
    counting.restart()
    counting.pipe_input("streams-plaintext-input", None, "Hello, Kafka Streams!")
    assert dict(counting.read_output("streams-wordcount-output")) == {"hello": 1, "kafka": 2, "streams": 2}
    assert dict(counting.store("counts").range("a", "h~")) == {"all": 1, "hello": 1}
