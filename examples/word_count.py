"""Word count, as in the slides of every course on Kafka Streams.

    streams-plaintext-input   lines of text, without keys
    streams-wordcount-output  word -> how often it has been seen, as eight bytes (Java's Long)

"all streams lead to kafka" and "hello kafka streams" make all 1, streams 2, lead 1, to 1, kafka 2, hello 1.
"""

from __future__ import annotations

import re

from topics import COMPACTED, Topic, create_topics

import barnabas.spark
from barnabas.streams import LONG, STRING, Topology

TOPICS = [
    Topic("streams-plaintext-input", partitions=3),
    # A table as a topic: only the last count of a word says anything, so older ones may go.
    Topic("streams-wordcount-output", partitions=3, configs=COMPACTED),
]


def words(line: str) -> list[str]:
    return re.findall(r"\w+", line.lower())


def build() -> Topology:
    topology = Topology("word-count", processing_guarantee="exactly_once_v2")
    lines = topology.stream("streams-plaintext-input", value=STRING)
    counts = (
        lines.flat_map_values(words)
        # All of a word must meet at one place to be counted: it becomes the key, and records move to its partition.
        .group_by(lambda _, word: word)
        .count(store="counts")
    )
    counts.to("streams-wordcount-output", value=LONG)
    return topology


if __name__ == "__main__":
    create_topics(TOPICS)
    build().start(barnabas.spark.session("word-count")).await_termination()
