"""What a topology looks like, what is refused while it is built, and what makes it the same on an old checkpoint."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pytest

from barnabas.pipelines.streams.checkpoint import kept_tasks
from barnabas.pipelines.streams.checks import check_co_partitioning, check_unchanged, fingerprint
from barnabas.pipelines.streams.expressions import Computed, lit
from barnabas.pipelines.streams.plan import planned
from barnabas.pipelines.streams.slots import read_slots
from barnabas.pipelines.streams.state.storage import LocalDirectory
from barnabas.streams import (
    INT,
    JSON,
    LONG,
    STRING,
    CheckpointError,
    SerdeError,
    Topology,
    TopologyError,
    Windowed,
    col,
    hopping,
    json,
    session_windowed,
    time_windowed,
    tumbling,
)


def words(**settings: Any) -> Topology:
    topology = Topology("words", **settings)
    split = topology.stream("lines", value=STRING).flat_map_values(str.split)
    split.group_by(lambda _, word: word).count(store="counts").to("counts", value=LONG)
    return topology


def test_a_topology_is_described_like_those_of_kafka_streams() -> None:
    assert words().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: source-0 (topics: [lines])\n"
        "      --> flat-map-values-1\n"
        "    Processor: flat-map-values-1 (stores: [])\n"
        "      --> select-key-2\n"
        "      <-- source-0\n"
        "    Processor: select-key-2 (stores: [])\n"
        "      --> repartition-3\n"
        "      <-- flat-map-values-1\n"
        "   Sub-topology: 1\n"
        "    Repartition: repartition-3 (stores: [])\n"
        "      --> count-4\n"
        "      <-- select-key-2\n"
        "    Processor: count-4 (stores: [counts])\n"
        "      --> to-stream-5\n"
        "      <-- repartition-3\n"
        "    Processor: to-stream-5 (stores: [])\n"
        "      --> sink-6\n"
        "      <-- count-4\n"
        "    Sink: sink-6 (topic: counts)\n"
        "      <-- to-stream-5\n"
    )


def test_a_picture_has_a_box_for_every_node_and_an_arrow_for_every_edge(tmp_path: Path) -> None:
    topology = words()
    picture = topology.draw(tmp_path / "words.svg")
    assert (tmp_path / "words.svg").read_text() == picture
    root = ElementTree.fromstring(picture)
    names = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert all(node.name in names for node in topology.graph.nodes)
    assert {"lines", "counts"} <= set(names)
    arrows = [one for one in root.iter("{http://www.w3.org/2000/svg}path") if "marker-end" in one.attrib]
    assert len(arrows) == sum(len(node.inputs) for node in topology.graph.nodes)


def test_older_names_of_guarantees_are_taken_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="exactly_once_beta is the older name of exactly_once_v2"):
        assert Topology(processing_guarantee="exactly_once_beta").processing_guarantee == "exactly_once_v2"
    with pytest.raises(TopologyError, match="processing_guarantee is at_least_once or exactly_once_v2, not 'once'"):
        Topology(processing_guarantee="once")


def test_a_changed_topology_is_told_from_the_one_of_the_checkpoint() -> None:
    def facts(topology: Topology, partitions: int = 2) -> dict[str, Any]:
        return fingerprint(topology.graph, {"lines": partitions})

    check_unchanged(facts(words()), facts(words()), "here")
    longer = words()
    longer.stream("lines").to("copy")
    with pytest.raises(CheckpointError, match="another topology: source-7 is new; choose another checkpoint than here"):
        check_unchanged(facts(words()), facts(longer), "here")
    with pytest.raises(CheckpointError, match="source-7 is gone"):
        check_unchanged(facts(longer), facts(words()), "here")
    with pytest.raises(CheckpointError, match="topic lines had 2 partitions and has 3: keys have moved away"):
        check_unchanged(facts(words()), facts(words(), 3), "here")

    def filtered(*, to: str) -> Topology:
        topology = Topology()
        topology.stream("lines").filter(lambda key, value: True).to(to)
        return topology

    copying = Topology()
    copying.stream("lines").to("copy")
    check_unchanged(facts(copying), facts(filtered(to="copy")), "here")  # between its ends nothing is kept
    with pytest.raises(CheckpointError, match="another topology"):
        check_unchanged(facts(copying), facts(filtered(to="others")), "here")

    def windowed(size: int) -> Topology:
        topology = Topology()
        topology.stream("lines").group_by_key().windowed_by(tumbling(size)).count().to("out")
        return topology

    said = r"windowed-count-1 \(tumbling 5 ms by 5 ms, grace 0 ms\) is now windowed-count-1 \(tumbling 6 ms"
    with pytest.raises(CheckpointError, match=said):
        check_unchanged(facts(windowed(5)), facts(windowed(6)), "here")


def test_what_makes_no_sense_is_refused_where_it_is_written() -> None:
    topology = Topology()
    stream = topology.stream("in")
    with pytest.raises(TopologyError, match=r"stream\(\) needs the name of a topic"):
        topology.stream()
    with pytest.raises(TopologyError, match="begins with key or value"):
        col("amount")
    with pytest.raises(TopologyError, match="combine columns with &"):
        bool(col("value") > 1)
    with pytest.raises(TopologyError, match=r"join\(\) of two streams needs within="):
        stream.join(topology.stream("other"), lambda a, b: a)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="needs key="):
        stream.join(topology.global_table("names"), lambda a, b: a)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="functions or columns, not both"):
        stream.group_by_key().aggregate(dict, lambda key, value, found: found, total=col("value").sum())
    with pytest.raises(TopologyError, match="would leave records out"):
        hopping(5, 10)
    with pytest.raises(TopologyError, match="the size of a window is at least 1 ms, not 0"):
        tumbling(0)


def test_values_are_read_into_slots_if_columns_alone_look_at_them() -> None:
    def read(build: Any, value: Any = None) -> Any:
        topology = Topology()
        build(topology.stream("in", value=value or json("n long, text string, more struct<a: int, b: string>")))
        plan = planned(topology.graph, {"in": 1}, {}, state=None, dead_letter=None)
        return plan.stages[0].sources[0].value_serde.decode(b'{"n":2,"x":"y","more":{"a":1}}')

    large = col("value.n") > 1
    whole = {"n": 2, "x": "y", "more": {"a": 1}}
    assert isinstance(read(lambda stream: stream.filter(large).to("out")), msgspec.Struct)
    assert isinstance(
        read(lambda stream: stream.filter(large).map_values(n=col("value.more.a")).to("out")), msgspec.Struct
    )
    assert isinstance(
        read(lambda stream: stream.group_by_key().aggregate(n=col("value.n").sum()).to("out")), msgspec.Struct
    )
    assert read(lambda stream: stream.filter(large).to("out"), JSON) == whole
    assert read(lambda stream: stream.filter(large).filter(lambda key, value: True).to("out")) == whole
    assert read(lambda stream: stream.map_values(all=col("value")).to("out")) == whole
    assert read(lambda stream: stream.filter(col("value.x") > 1).to("out")) == whole
    assert read(lambda stream: stream.filter(large).group_by(col("value.n")).reduce(lambda a, b: b).to("out")) == whole


def test_columns_compute_by_the_rules_of_sql_whatever_holds_the_fields() -> None:
    n, text = col("value.n"), col("value.text")
    cases: list[tuple[Any, Any]] = [
        (n + 1, 3), (1 + n, 3), (n - 5, -3), (5 - n, 3), (n * 2.5, 5.0), (3 * n, 6), (n / 4, 0.5), (n % 2, 0),
        (n == 2, True), (n != 2, False), (n < 2, False), (n <= 2, True), (n > 1, True), (n >= 3, False),
        (text + "!", "a!"), (col("key"), "k"), (col("value.none"), None), (col("value.none") > 1, None),
        ((n > 1) & (text == "a"), True), ((n > 1) & (text == "b"), False), ((n > 5) | (text == "a"), True),
        ((n > 5) & (col("value.none") > 1), False), ((n > 1) & (col("value.none") > 1), None),
        ((n > 1) | (col("value.none") > 1), True), ((n > 5) | (col("value.none") > 1), None),
        (~(n > 1), False), (~(col("value.none") > 1), None), (col("value.none").is_null(), True),
        (n.is_not_null(), True), (n + lit(None), None), (col("value.more.a") * n, 2),
    ]  # fmt: skip
    record = b'{"n":2,"text":"a","more":{"a":1}}'
    slots = read_slots("n long, text string, none long, more struct<a: int>", ("more", "n", "none", "text"), record)
    for expression, wanted in cases:
        for value in (JSON.decode(record), slots):
            assert Computed(expression)("k", value) == wanted, str(expression)
            assert Computed(expression).all(["k", "k"], [value, value]) == [wanted, wanted]
    assert Computed(fields={"twice": n * 2, "key": col("key")}).all(["k", "k"], [slots, None]) == [
        {"twice": 4, "key": "k"},
        None,
    ]


def test_serdes_write_javas_bytes_and_say_what_is_wrong() -> None:
    assert LONG.encode(1) == b"\0\0\0\0\0\0\0\1"
    assert INT.decode(b"\xff\xff\xff\xff") == -1
    assert JSON.decode(b' {"a": [1, null]} ') == {"a": [1, None]}
    assert JSON.encode({"ä": [1.5, None, True]}) == '{"ä":[1.5,null,true]}'.encode()
    window = Windowed("k", 10, 20)
    assert time_windowed(STRING).encode(window) == b"k" + LONG.encode(10)
    assert time_windowed(STRING, 10).decode(b"k" + LONG.encode(10)) == window
    assert session_windowed(STRING).encode(window) == b"k" + LONG.encode(20) + LONG.encode(10)
    assert session_windowed(STRING).decode(session_windowed(STRING).encode(window)) == window
    for serde, data, said in (
        (LONG, b"1", "a long has 8 bytes, and here are 1"),
        (STRING, b"\xff", "it is no UTF-8"),
        (JSON, b"{", "it is no JSON"),
        (JSON, b"1 2", "it is no JSON: Extra data at character 2"),
    ):
        with pytest.raises(SerdeError, match=said):
            serde.decode(data)
    for serde, value, said in (
        (LONG, "1", "it should be a long, not str"),
        (LONG, 1 << 63, "is no long"),
        (LONG, True, "it should be a long, not bool"),
        (STRING, 1, "it should be text, not int"),
        (JSON, object(), "it can't be written as JSON"),
    ):
        with pytest.raises(SerdeError, match=said):
            serde.encode(value)


def test_topics_whose_keys_meet_have_the_same_number_of_partitions() -> None:
    topology = Topology()
    topology.stream("a").merge(topology.stream("b")).group_by_key().count().to("out")
    check_co_partitioning(topology.graph, {"a": 2, "b": 2})
    with pytest.raises(
        TopologyError, match="count-3 needs topics of the same number of partitions, and a has 2 and b has 3"
    ):
        check_co_partitioning(topology.graph, {"a": 2, "b": 3})
    mended = Topology()
    mended.stream("a").merge(mended.stream("b")).repartition().group_by_key().count().to("out")
    check_co_partitioning(mended.graph, {"a": 2, "b": 3})
    stateless = Topology()
    stateless.stream("a", "b").filter(lambda key, value: True).to("out")
    check_co_partitioning(stateless.graph, {"a": 2, "b": 3})


def test_a_batch_that_is_done_again_has_as_many_tasks_as_the_first_time(tmp_path: Path) -> None:
    assert kept_tasks(LocalDirectory(tmp_path), 2) == 2
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
    (tmp_path / "offsets" / "0").touch()
    assert kept_tasks(LocalDirectory(tmp_path), 8) == 2  # on another machine
    (tmp_path / "commits" / "0").touch()
    assert kept_tasks(LocalDirectory(tmp_path), 8) == 8
    (tmp_path / "offsets" / "1").touch()
    (tmp_path / "commits" / ".1.crc").touch()
    assert kept_tasks(LocalDirectory(tmp_path), 2) == 8
