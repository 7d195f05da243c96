"""Dead letters sent again: to the topics they came from, without the headers that told why they failed.

Letters and the position in their topic are one transaction, under the group `connect-replay-TOPIC`: what was sent again
once is not sent again by the next run.
"""

from __future__ import annotations

from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.offsets import CommittedOffset, committed_offsets
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import TransactionalProducer, init_transactions
from barnabas.pipelines.connect.errors import ConnectError
from barnabas.pipelines.connect.plane.tolerance import PREFIX

EARLIEST, END = -2, -1
WAIT_MS = 200


def replay(settings: ClientSettings, letters: str, *, to: str | None = None) -> dict[str, int]:
    """How many letters went to which topic. `to` is the topic for all; else letters need their context headers."""
    group = f"connect-replay-{letters}"
    sent: dict[str, int] = {}
    lost = 0
    with Cluster(settings) as cluster:
        found = cluster.metadata([letters]).topics[letters]
        if found.error:
            raise Refused(found.error, f"Topic {letters}")
        partitions = [(letters, each) for each in found.partitions]
        fetch = FetchSettings.from_properties({"isolation.level": "read_committed"})
        start = {tp: each.offset for tp, each in cluster.list_offsets(dict.fromkeys(partitions, EARLIEST)).items()}
        known = {tp: each.offset for tp, each in committed_offsets(cluster, group, partitions).items()}
        start |= {tp: max(at, start[tp]) for tp, at in known.items()}
        ends = cluster.list_offsets(dict.fromkeys(partitions, END), isolation=fetch.isolation)
        prepared = init_transactions(cluster, group)
        with Fetcher(cluster, fetch) as fetcher, TransactionalProducer(settings, prepared) as producer:
            try:
                fetcher.assign(start)
                while any(fetcher.positions[tp] < end.offset for tp, end in ends.items()):
                    for letter in (each for batch in fetcher.poll(WAIT_MS) for each in iterate_records(batch)):
                        topic = to or origin(letter)
                        if topic is None:
                            lost += 1
                            continue
                        headers = [pair for pair in letter.headers if not pair[0].startswith(PREFIX)]
                        producer.send(topic, letter.value, letter.key, headers, timestamp=letter.timestamp)
                        sent[topic] = sent.get(topic, 0) + 1
                if lost:
                    raise ConnectError(
                        f"{lost} letters of {letters} do not tell their topic: name one with --to. Nothing was sent."
                    )
                if sent:
                    commits = {tp: CommittedOffset(at) for tp, at in fetcher.positions.items()}
                    producer.commit_offsets(group, commits)
                    producer.end(commit=True)
            except BaseException:
                if sent:
                    producer.end(commit=False)
                raise
    return sent


def origin(letter: Any) -> str | None:
    for name, value in letter.headers:
        if name == f"{PREFIX}topic" and value:
            text: str = value.decode()
            return text
    return None
