"""Operators to be put one behind the other, each from a stream of texts to a stream of texts, under the names that
tests/reference/java/Topologies.java has them by. Chains read the topics in, other, rows and names.

Functions are chosen so that keys stay few and values short, and a value tells what went into it and in which order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from barnabas import streams
from barnabas.pipelines.streams.plan import changes_seen
from barnabas.streams import (
    STRING,
    Processor,
    ProcessorContext,
    Topology,
    TopologyTestDriver,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)

GRACE = 5
NEAR = within(before=3, after=9, grace=GRACE)
KEYS = "abc"
Record = tuple[str, str, str, int]  # topic, key, value, time
Row = tuple[str | None, str | None, int]  # key, value, time


class Chains:
    """One topology with a chain for each list of names; chain 3 writes to out-3. Tables that several of them use are
    one."""

    def __init__(self, chains: Sequence[Sequence[str]], **settings: Any) -> None:
        self.topology = Topology(**settings)
        self.chains = chains
        self._tables: dict[str, Any] = {}
        source = self.stream("in")
        for number, names in enumerate(chains):
            stream = source
            for name in names:
                stream = OPERATORS[name](self, stream)
            stream.to(f"out-{number}", key=STRING, value=STRING)

    def table(self, topic: str) -> Any:
        if topic not in self._tables:
            self._tables[topic] = self.topology.table(topic, value=STRING)
        return self._tables[topic]

    def stream(self, topic: str) -> Any:
        return self.topology.stream(topic, value=STRING)

    def shows_once(self, number: int) -> bool:
        """Whether an aggregate of the chain shows keys once a batch."""
        graph = self.topology.graph
        seen = changes_seen(graph)
        (node,) = (node for node, sink in graph.sinks() if sink.topic == f"out-{number}")
        above, found = [node], False
        while above:
            node = above.pop()
            found = found or (hasattr(node.operator, "every_change") and node.number not in seen)
            above += node.inputs
        return found


def short(text: str) -> str:
    return text[-9:]


def key_of(value: str) -> str:
    return KEYS[len(value) % 3]


def pair(left: str | None, right: str | None) -> str:
    return short(f"({left or '-'} {right or '-'})")


def together(old: str, new: str) -> str:
    return short(f"{old}+{new}")


def there(stream: Any) -> Any:
    return stream.filter(lambda key, value: value is not None)


def branched(chain: Chains, stream: Any) -> Any:
    even, odd = stream.branch(lambda key, value: len(value) % 2 == 0, lambda key, value: True)
    return odd.map_values(lambda value: short(f"{value}o")).merge(even)


def doubled(chain: Chains, stream: Any) -> Any:
    """Two ways from one stream to one place; the one that is named last is taken first."""
    first, second = stream.map_values(lambda value: short(f"{value}1")), stream.filter(lambda key, value: key != "c")
    return second.merge(first)


def windows(table: Any) -> Any:
    return there(table.to_stream()).map(lambda key, value: (key.key, short(f"{value}@{key.start_ms % 100}")))


def grouped(stream: Any) -> Any:
    return stream.group_by_key()


def aggregated(table: Any) -> Any:
    """By functions that tell the order of changes."""
    return table.group_by(lambda key, value: key_of(value)).aggregate(
        lambda: "=",
        lambda key, value, found: short(f"{found}+{value}"),
        lambda key, value, found: short(f"{found}-{value}"),
    )


class Last(Processor):
    """Forwards a value with the one before it, and every third value of a key twice."""

    def __init__(self, name: str) -> None:
        self.name = name

    def init(self, context: ProcessorContext) -> None:
        self.context, self.store = context, context.store(self.name)

    def process(self, record: Any) -> None:
        count, last = self.store.get(record.key, (0, ""))
        self.store.put(record.key, (count + 1, record.value))
        for _ in range(2 if count % 3 == 2 else 1):
            self.context.forward(record.with_value(short(f"{last}>{record.value}")))


class Gathered(Processor):
    """Gathers values by key, and forwards them whenever 10 ms of stream time have passed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def init(self, context: ProcessorContext) -> None:
        self.context, self.store = context, context.store(self.name)
        context.schedule(10, self.show)

    def process(self, record: Any) -> None:
        self.store.put(record.key, short(f"{self.store.get(record.key, '')}.{record.value}"))

    def show(self, now_ms: int) -> None:
        for key, value in self.store.all():
            self.context.forward(streams.Record(key, value, now_ms))
            self.store.delete(key)


def processed(kind: Any, chain: Chains, stream: Any) -> Any:
    name = f"processed-{len(chain.topology.graph.nodes)}"
    return stream.process(lambda: kind(name), stores=[name])


OPERATORS: dict[str, Callable[[Chains, Any], Any]] = {
    "filter": lambda chain, s: s.filter(lambda key, value: len(value) % 4 != 3),
    "map-values": lambda chain, s: s.map_values(lambda value: short(f"{value}v")),
    "map": lambda chain, s: s.map(lambda key, value: (key_of(value), short(f"{value}m"))),
    "select-key": lambda chain, s: s.select_key(lambda key, value: key_of(f"{value}s")),
    "flat-map-values": lambda chain, s: s.flat_map_values(lambda value: [value, short(f"{value}f")]),
    "branch": branched,
    "double": doubled,
    "merge": lambda chain, s: s.merge(chain.stream("other")),
    "repartition": lambda chain, s: s.repartition(key=STRING),
    "count": lambda chain, s: grouped(s).count().to_stream().map_values(str),
    "reduce": lambda chain, s: grouped(s).reduce(together).to_stream(),
    "tumbling": lambda chain, s: windows(grouped(s).windowed_by(tumbling(10, grace=GRACE)).reduce(together)),
    "hopping": lambda chain, s: windows(grouped(s).windowed_by(hopping(10, 4, grace=GRACE)).count()),
    "closed": lambda chain, s: windows(grouped(s).windowed_by(tumbling(10, grace=GRACE)).count().suppress()),
    "hopping-closed": lambda chain, s: windows(
        grouped(s).windowed_by(hopping(10, 4, grace=GRACE)).reduce(together).suppress()
    ),
    "session": lambda chain, s: windows(grouped(s).windowed_by(session_window(6, grace=GRACE)).reduce(together)),
    "session-closed": lambda chain, s: windows(
        grouped(s).windowed_by(session_window(6, grace=GRACE)).reduce(together).suppress()
    ),
    "sliding": lambda chain, s: windows(grouped(s).windowed_by(sliding(8, grace=GRACE)).reduce(together)),
    "join": lambda chain, s: s.join(chain.stream("other"), pair, NEAR),
    "left-join": lambda chain, s: s.left_join(chain.stream("other"), pair, NEAR),
    "outer-join": lambda chain, s: s.outer_join(chain.stream("other"), pair, NEAR),
    "join-self": lambda chain, s: s.join(s.map_values(lambda value: short(f"{value}j")), pair, NEAR),
    "join-table": lambda chain, s: s.join(chain.table("rows"), pair),
    "left-join-table": lambda chain, s: s.left_join(chain.table("rows"), pair),
    "join-own-count": lambda chain, s: s.join(grouped(s).count(), lambda value, n: short(f"{value}#{n}")),
    "to-table": lambda chain, s: there(s.to_table().filter(lambda key, value: len(value) % 4 != 2).to_stream()),
    "join-tables": lambda chain, s: there(s.to_table().outer_join(chain.table("rows"), pair).to_stream()),
    "foreign-key": lambda chain, s: there(s.to_table().left_join_by(chain.table("names"), key_of, pair).to_stream()),
    "regrouped": lambda chain, s: (
        s.to_table().group_by(lambda key, value: key_of(value)).count().to_stream().map_values(str)
    ),
    "table-aggregate": lambda chain, s: there(aggregated(s.to_table()).to_stream()),
    "limited": lambda chain, s: there(s.to_table().suppress(time_limit=4).to_stream()),
    "process": lambda chain, s: processed(Last, chain, s),
    "punctuate": lambda chain, s: processed(Gathered, chain, s),
}
STATELESS = ("filter", "map-values", "map", "select-key", "flat-map-values", "branch", "double", "merge", "repartition")
LONELY = ("left-join", "outer-join")  # Kafka Streams shows records without a partner some records later


def random_records(topology: Topology, chance: random.Random, count: int) -> list[Record]:
    """In the order in which Kafka Streams would take them if all were there: by the time of the first record of each
    topic. Within a topic they are out of order, many have the same time, and some come late."""
    topics = topology.graph.topics()
    reached = dict.fromkeys(topics, 0)
    made: list[tuple[int, int, int, Record]] = []
    now = 0
    for number in range(count):
        now += chance.choice((0, 0, 0, 1, 1, 2, 3, 15))
        topic = "in" if chance.random() < 0.4 else "other" if chance.random() < 0.4 else chance.choice(topics)
        topic = topic if topic in topics else "in"
        time = now if chance.random() < 0.7 else max(now - chance.randrange(25), 0)
        reached[topic] = max(reached[topic], time)
        made.append((reached[topic], topics.index(topic), number, (topic, chance.choice(KEYS), str(number), time)))
    return [record for *_, record in sorted(made)]


def rows_by_batch(chains: Chains, records: list[Record], cuts: set[int], *, restart: bool) -> list[list[list[Row]]]:
    """Of batches that begin at `cuts`, what each chain wrote. With `restart` nothing is remembered in memory."""
    found: list[list[list[Row]]] = []
    with TopologyTestDriver(chains.topology) as driver:

        def read() -> None:
            found.append([driver.read_timed_output(f"out-{number}") for number in range(len(chains.chains))])

        for number, (topic, key, value, time) in enumerate(records):
            if number and number in cuts:
                read()
                if restart:
                    driver.restart()
            driver.pipe_input(topic, key, value, timestamp_ms=time)
        read()
    return found


def by_key(rows: list[Row]) -> dict[str | None, list[tuple[str | None, int]]]:
    found: dict[str | None, list[tuple[str | None, int]]] = {}
    for key, value, time in rows:
        found.setdefault(key, []).append((value, time))
    return found


def is_part(shown: list[Row], whole: list[Row]) -> bool:
    """Whether rows of every key are among those of the whole, in the same order."""
    everything = by_key(whole)
    for key, rows in by_key(shown).items():
        rest = iter(everything.get(key, []))
        if not all(row in rest for row in rows):
            return False
    return True
