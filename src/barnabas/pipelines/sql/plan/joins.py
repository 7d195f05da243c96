"""Joins: of streams within a time, of a stream with a table, of tables by key or by foreign key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.pipelines.sql.errors import SqlError, SqlSyntaxError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.operators import NewKey, SideBySide, WithKey
from barnabas.pipelines.sql.plan.flows import Flow, columns_of, internal_key
from barnabas.pipelines.sql.relations import Relation, RelationColumn, check_key, columns_in, joined
from barnabas.pipelines.sql.types import SqlType
from barnabas.pipelines.streams.operators.streams_join import JoinStreams
from barnabas.pipelines.streams.serdes import AUTO
from barnabas.pipelines.streams.streams import Stream
from barnabas.pipelines.streams.windows import JoinWindows

DAY_MS = 86_400_000
JOIN_KEY = "\0joinkey"  # a name that no statement can write
OUTER = {"INNER": (False, False), "LEFT": (True, False), "RIGHT": (True, False), "OUTER": (True, True)}
METHODS = {"INNER": "join", "LEFT": "left_join", "RIGHT": "left_join", "OUTER": "outer_join"}


def join(left: Flow, right: Flow, clause: tree.Join) -> Flow:
    left_on, right_on = sides(left.relation, right.relation, clause)
    kinds = left.relation.compiled(left_on)[1], right.relation.compiled(right_on)[1]
    if kinds[0] != kinds[1]:
        raise SqlError(
            f"Invalid join condition: types don't match. Got {shown(left_on)}{{{kinds[0]}}} = "
            f"{shown(right_on)}{{{kinds[1]}}}."
        )
    for one in kinds:
        check_key(one, shown(left_on))
    check_windows(left, right)
    within = clause.before_ms is not None
    note = f"> [ JOIN ] | {clause.kind} | {shown(left_on)} = {shown(right_on)}"
    if left.table and not right.table:
        raise SqlError("Invalid join order: table-stream joins are not supported; only stream-table joins.")
    if within and (left.table or right.table):
        kind = "Table-Table" if left.table else "Stream-Table"
        raise SqlError(f"{kind} joins cannot have a WITHIN clause.")
    if left.table:
        return _tables(left, right, clause, left_on, right_on, note)
    if right.table:
        return _stream_table(left, right, clause, left_on, right_on, kinds[0], note)
    if not within:
        raise SqlError(
            "Stream-Stream joins must have a WITHIN clause specified. None was provided. To learn about how to specify "
            "a WITHIN clause with a stream-stream join, please visit: docs/sql.md"
        )
    return _streams(left, right, clause, left_on, right_on, kinds[0], note)


def check_windows(left: Flow, right: Flow) -> None:
    kinds = [None if one.window is None else one.window.kind for one in (left, right)]
    if None in kinds and kinds != [None, None]:
        told = [
            f"{', '.join(one.sources)} is {'not' if kind is None else kind} windowed"
            for one, kind in zip((left, right), kinds, strict=True)
        ]
        raise SqlError(f"Can not join windowed source to non-windowed source: {told[0]}, and {told[1]}.")
    if "SESSION" in kinds and kinds[0] != kinds[1]:
        raise SqlError(
            f"Incompatible windowed sources: {kinds[0]} and {kinds[1]}. Sources with SESSION windows can only be "
            "joined to others with SESSION windows."
        )
    if left.window is not None and right.window is not None and left.window.size_ms != right.window.size_ms:
        raise SqlError(
            f"Implicit repartitioning of windowed sources is not supported: windows of {', '.join(left.sources)} have "
            f"{left.window.size_ms} ms, those of {', '.join(right.sources)} {right.window.size_ms} ms, and equal keys "
            "never meet."
        )


def sides(left: Relation, right: Relation, clause: tree.Join) -> tuple[tree.Expression, tree.Expression]:
    """The expression of each side, whichever way round they are written."""
    on = clause.on
    if not isinstance(on, tree.Binary) or on.operator != "=":
        raise SqlSyntaxError("Unsupported join expression: only a comparison with = is supported.", *on.at)
    both = joined(left, right, ())
    width = len(left.columns)
    places = []
    for side in (on.left, on.right):
        found = {both.index(one) >= width for one in columns_in(side)}
        if len(found) != 1:
            raise SqlSyntaxError(
                f"Invalid comparison expression '{shown(side)}' in join: Each side of the join must reference exactly "
                "one source.",
                *on.at,
            )
        places.append(found.pop())
    if places[0] == places[1]:
        raise SqlSyntaxError(
            "Invalid join condition: both sides of the join reference the same source. Each side must reference one.",
            *on.at,
        )
    first, second = (on.left, on.right) if not places[0] else (on.right, on.left)
    return left.normal(first), right.normal(second)


def shown(expression: tree.Expression) -> str:
    if isinstance(expression, tree.Column):
        return expression.name if expression.source is None else f"{expression.source}.{expression.name}"
    if isinstance(expression, tree.Call):
        return f"{expression.name}({', '.join(map(shown, expression.arguments))})"
    return type(expression).__name__.lower()


def is_key(flow: Flow, on: tree.Expression) -> bool:
    relation = flow.relation
    if len(relation.keys) != 1 or on in relation.only_shown:
        return False
    return on in relation.keys[0] or on in relation.same_as_key


def equals(flow: Flow, on: tree.Expression) -> tuple[tree.Expression, ...]:
    """What is equal to one side of a join, that side first."""
    if not is_key(flow, on):
        return (on,)
    relation = flow.relation
    found = dict.fromkeys((on, *relation.keys[0], *relation.same_as_key))
    gone = {tree.Column(one.name, None) for one in relation.columns if one.source is None}
    return tuple(one for one in found if one not in gone)


def new_key(flow: Flow, on: tree.Expression) -> NewKey:
    columns, _ = columns_of(flow.relation, [on])
    return NewKey(columns)


def rekeyed(flow: Flow, on: tree.Expression, serde: Any) -> Any:
    if flow.window is not None and not is_key(flow, on):
        raise SqlError(
            f"Implicit repartitioning of windowed sources is not supported: {shown(on)} is not the key of "
            f"{', '.join(flow.sources)}."
        )
    return flow.handle if is_key(flow, on) else flow.handle.select_key(new_key(flow, on)).repartition(key=serde)


def result(
    left: Flow, right: Flow, clause: tree.Join, on: tuple[tree.Expression, tree.Expression], kind: SqlType
) -> tuple[Relation, bool]:
    """The relation behind a join, and whether the key has to be put into its rows: it is in no column of either side
    where both may be missing, or where it was computed. Of a side that may be missing a column can show the key, but
    a later join by it is not one by the key."""
    mine, theirs = equals(left, on[0]), equals(right, on[1])
    lasting = {"INNER": (*mine, *theirs), "LEFT": mine, "RIGHT": theirs, "OUTER": ()}[clause.kind]
    viable = () if clause.kind == "OUTER" else (*mine, *theirs)
    keys = tuple(dict.fromkeys(one for one in viable if isinstance(one, tree.Column)))
    relation = joined(without_join_key(left.relation), without_join_key(right.relation), (keys,))
    if keys:
        missing = (*left.relation.only_shown, *right.relation.only_shown)
        shown_only = tuple(one for one in keys if one not in lasting or one in missing)
        others = tuple(one for one in lasting if one not in keys)
        return replace(relation, same_as_key=others, only_shown=shown_only), False
    column = RelationColumn(None, join_key_name(relation), kind, key=True)
    first = tree.Column(column.name, None)
    columns = (*relation.columns, column)
    return replace(relation, columns=columns, keys=((first,),), same_as_key=lasting), True


def join_key_name(relation: Relation) -> str:
    """ROWKEY, or with a number if a column has that name."""
    taken = {one.name for one in relation.columns}
    name, number = "ROWKEY", 0
    while name in taken:
        number += 1
        name = f"ROWKEY_{number}"
    return name


def without_join_key(relation: Relation) -> Relation:
    """The key that an earlier join put behind its rows is no column of the next one's result."""
    columns = tuple(
        replace(one, name=JOIN_KEY, pseudo=True) if one.source is None and one.key else one for one in relation.columns
    )
    return replace(relation, columns=columns)


def finished(
    handle: Any, left: Flow, right: Flow, relation: Relation, adds_key: bool, kind: SqlType, table: bool, note: str
) -> Flow:
    if adds_key:
        handle = handle.map_values(WithKey((kind,), behind=True))
    names = (*left.sources, *right.sources)
    return Flow(handle, relation, table, (kind,), left.window, names, notes=(note, *right.notes, *left.notes))


def _streams(
    left: Flow,
    right: Flow,
    clause: tree.Join,
    left_on: tree.Expression,
    right_on: tree.Expression,
    kind: SqlType,
    note: str,
) -> Flow:
    serde = internal_key((kind,))
    if is_key(left, left_on):
        serde = left.handle._node.key_serde
    elif is_key(right, right_on):
        serde = right.handle._node.key_serde
    mine, theirs = rekeyed(left, left_on, serde), rekeyed(right, right_on, serde)
    grace_ms = DAY_MS if clause.grace_ms is None else clause.grace_ms
    at_once = clause.grace_ms is None
    windows = JoinWindows(clause.before_ms or 0, clause.after_ms or 0, grace_ms, at_once)
    joiner = SideBySide(len(left.relation.columns), len(right.relation.columns), clause.kind == "RIGHT")
    if clause.kind == "RIGHT":
        mine, theirs = theirs, mine
        windows = JoinWindows(windows.after_ms, windows.before_ms, grace_ms, at_once)
    graph = mine._graph
    nodes = graph.keyed(mine._node), graph.keyed(theirs._node)
    operator = JoinStreams(f"join-{len(graph.nodes)}", joiner, windows, OUTER[clause.kind])
    handle: Any = Stream(graph, graph.add(operator, *nodes, value_serde=AUTO))
    relation, adds_key = result(left, right, clause, (left_on, right_on), kind)
    return finished(handle, left, right, relation, adds_key, kind, False, note)


def _stream_table(
    left: Flow,
    right: Flow,
    clause: tree.Join,
    left_on: tree.Expression,
    right_on: tree.Expression,
    kind: SqlType,
    note: str,
) -> Flow:
    if clause.kind not in ("INNER", "LEFT"):
        raise SqlError(f"Invalid join type: {clause.kind} joins of a stream with a table are not supported.")
    if not is_key(right, right_on):
        raise SqlError(
            "Invalid join condition: stream-table joins require to join on the table's primary key. Got "
            f"{shown(left_on)} = {shown(right_on)}."
        )
    mine = rekeyed(left, left_on, right.handle._node.key_serde)
    joiner = SideBySide(len(left.relation.columns), len(right.relation.columns))
    handle = getattr(mine, METHODS[clause.kind])(right.handle, joiner)
    relation, adds_key = result(left, right, clause, (left_on, right_on), kind)
    return finished(handle, left, right, relation, adds_key, kind, False, note)


def _tables(
    left: Flow, right: Flow, clause: tree.Join, left_on: tree.Expression, right_on: tree.Expression, note: str
) -> Flow:
    if not is_key(right, right_on):
        raise SqlError(
            "Invalid join condition: table-table joins require to join on the primary key of the right input table. "
            f"Got {shown(left_on)} = {shown(right_on)}."
        )
    joiner = SideBySide(len(left.relation.columns), len(right.relation.columns), clause.kind == "RIGHT")
    if is_key(left, left_on):
        mine, theirs = left.handle, right.handle
        if clause.kind == "RIGHT":
            mine, theirs = theirs, mine
        handle = getattr(mine, METHODS[clause.kind])(theirs, joiner)
        kind = left.key_kinds[0]
        relation, adds_key = result(left, right, clause, (left_on, right_on), kind)
        return finished(handle, left, right, relation, adds_key, kind, True, note)
    if clause.kind not in ("INNER", "LEFT"):
        raise SqlError(f"Invalid join type: {clause.kind} foreign-key joins of tables are not supported.")
    if left.relation.sources > 1:
        raise SqlError(
            "Invalid join condition: foreign-key table-table joins are not supported as part of n-way joins. Got "
            f"{shown(left_on)} = {shown(right_on)}."
        )
    method = left.handle.join_by if clause.kind == "INNER" else left.handle.left_join_by
    handle = method(right.handle, new_key(left, left_on), joiner)
    relation = joined(left.relation, right.relation, left.relation.keys)
    names = (*left.sources, *right.sources)
    return Flow(handle, relation, True, left.key_kinds, left.window, names, notes=(note, *right.notes, *left.notes))
