"""`barnabas quorum watch`: the controllers live: who leads which epoch, how far each replica is, what has changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.connect import BOOTSTRAP_CONTROLLER, BOOTSTRAP_SERVER_ONLY, COMMAND_CONFIG, bootstrap, connect
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.terminal import Screen, cut, is_colourful, paint, wait_for_quit
from barnabas.client.errors import ClientError, TimedOut

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.describe_quorum import Node, ResponsePartitionData

MISSING = "one of the arguments --bootstrap-server --bootstrap-controller is required"
EVENTS_SHOWN = 12
# A voter that has not asked for so long is about to stand for election, or is gone.
SILENT_MS = 2_000
LOOK_WITHIN_MS = 2_000
VOTES_WITHIN_MS = 1_000

PARSER = Parser(
    name="quorum",
    summary="Watches the quorum of controllers live; q ends.",
    beyond_kafka=True,
    help_exit=0,
    options=(BOOTSTRAP_SERVER_ONLY, BOOTSTRAP_CONTROLLER, COMMAND_CONFIG),
    commands=(
        Parser(
            name="watch",
            summary="Terms, votes, leader, offsets and lag of every voter, and what happens to them.",
            options=(
                option("--interval", "-d", takes="seconds", kind=float, default=0.5, help="Between two looks."),
                option("--rounds", "-n", takes="count", kind=int, help="End after so many looks."),
            ),
        ),
    ),
)


class Replica(NamedTuple):
    id: int
    end_offset: int
    fetched_ms: int


class Look(NamedTuple):
    """The quorum as its leader describes it; leader -1 if nobody does, and why nobody could be asked."""

    leader: int = -1
    epoch: int = -1
    high_watermark: int = -1
    voters: tuple[Replica, ...] = ()
    observers: tuple[Replica, ...] = ()
    problem: str = ""
    leader_address: tuple[str, int] | None = None  # of its listener for controllers, if it says so
    at_ms: int = 0  # when it was said, by the leader's clock, as are all times of the replicas


def run(parsed: Parsed) -> int:
    bootstrap(parsed, missing=MISSING)
    with connect(parsed) as cluster:
        cluster.settings = replace(
            cluster.settings, default_api_timeout_ms=LOOK_WITHIN_MS, request_timeout_ms=LOOK_WITHIN_MS
        )
        try:
            _watch(cluster, parsed)
        except KeyboardInterrupt:
            pass
    return 0


def _watch(cluster: Cluster, parsed: Parsed) -> None:
    interval_s, rounds = float(parsed.text("interval") or 0.5), parsed.number("rounds")
    events: list[str] = []
    before: Look | None = None
    known: Look | None = None  # the last one with a leader
    heard_s = time.monotonic()  # of it
    with Screen() as screen:
        while True:
            now = look(cluster)
            votes: tuple[int, ...] = ()
            if now.leader >= 0:
                votes = votes_for(cluster, now, known) if known is not None and known.epoch < now.epoch else ()
                known, heard_s = now, time.monotonic()
            at = time.strftime("%H:%M:%S")
            events += [f"{at}  {sentence}" for sentence in explain(before, now, votes)]
            del events[:-EVENTS_SHOWN]
            colourful = is_colourful(sys.stdout)
            shown = now if now.voters or known is None else known._replace(leader=-1)
            now_ms = shown.at_ms + int((time.monotonic() - heard_s) * 1000)
            screen.draw(page(shown, events, screen.size[0], now_ms, colourful=colourful))
            before = now if known is None or now.voters else now._replace(voters=known.voters)
            rounds = None if rounds is None else rounds - 1
            if rounds == 0 or wait_for_quit(interval_s):
                return


def look(cluster: Cluster) -> Look:
    from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    try:
        answer = cluster.ask_controller(DescribeQuorumRequest(topics=[topic]))
    except TimedOut:
        return Look()  # a broker is there, and finds no controller to ask
    except ClientError as error:
        return Look(problem=str(error))
    if answer.error_code or not answer.topics or answer.topics[0].partitions[0].error_code:
        return Look()
    return read(answer.topics[0].partitions[0], answer.nodes)


def votes_for(cluster: Cluster, now: Look, known: Look) -> tuple[int, ...]:
    """Who voted for the leader: it says so in the first record of its epoch. Nobody if we may not read the log."""
    from barnabas.client.cluster import Cluster
    from barnabas.core.raft.records import InvalidBatch, read_control_records
    from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
    from barnabas.wire.records.raft import LeaderChangeMessage
    from barnabas.wire.uuids import ONE_UUID

    if now.leader_address is None:
        return ()
    asked = FetchPartition(
        partition=0,
        current_leader_epoch=now.epoch,
        fetch_offset=known.high_watermark,
        last_fetched_epoch=known.epoch,
        partition_max_bytes=1 << 20,
    )
    topic = FetchTopic(topic="__cluster_metadata", topic_id=ONE_UUID, partitions=[asked])
    settings = replace(
        cluster.settings,
        bootstrap_servers=(now.leader_address,),
        default_api_timeout_ms=VOTES_WITHIN_MS,
        request_timeout_ms=VOTES_WITHIN_MS,
    )
    try:
        with Cluster(settings, controllers=True) as leader:
            answer = leader.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]))
        data = answer.responses[0].partitions[0].records if answer.responses else None
        elections = [
            record
            for _, record in read_control_records(data or b"")
            if isinstance(record, LeaderChangeMessage) and record.leader_id == now.leader
        ]
    except (ClientError, InvalidBatch):
        return ()
    return tuple(each.voter_id for each in elections[-1].granting_voters) if elections else ()


def read(quorum: ResponsePartitionData, nodes: Sequence[Node] = ()) -> Look:
    voters, observers = (
        tuple(sorted(Replica(each.replica_id, each.log_end_offset, each.last_fetch_timestamp) for each in replicas))
        for replicas in (quorum.current_voters, quorum.observers)
    )
    at = next((each.listeners[0] for each in nodes if each.node_id == quorum.leader_id and each.listeners), None)
    address = None if at is None else (at.host, at.port)
    said_ms = next((each.fetched_ms for each in voters if each.id == quorum.leader_id), -1)
    return Look(
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        voters,
        observers,
        leader_address=address,
        at_ms=said_ms if said_ms >= 0 else int(time.time() * 1000),
    )


def explain(before: Look | None, now: Look, votes: Sequence[int] = ()) -> list[str]:
    """What has happened between two looks, in sentences; `votes` are those that the leader was elected with."""
    if now.problem:
        return [] if before is not None and before.problem else [f"Nobody answers: {now.problem}"]
    if before is None:
        if now.leader < 0:
            return ["No controller leads: the voters are holding an election, or a majority of them is missing."]
        return [f"Node {now.leader} leads epoch {now.epoch}; {majority(now)} of {len(now.voters)} voters decide."]
    told = []
    if now.leader < 0 and before.leader >= 0:
        told.append(
            f"Node {before.leader} is no longer heard of as the leader: the voters wait for their time-out, ask each "
            "other who would vote for them (pre-vote), and then vote."
        )
    elif now.leader >= 0 and before.epoch >= 0 and (now.leader, now.epoch) != (before.leader, before.epoch):
        why = "was elected again" if now.leader == before.leader else "was elected"
        told.append(f"Node {now.leader} {why} and leads epoch {now.epoch}: {voted(votes)}.")
    elif now.leader >= 0 and before.leader < 0:
        told.append(f"Node {now.leader} leads epoch {now.epoch}{f': {voted(votes)}' if votes else ''}.")
    ids, former = {each.id for each in now.voters}, {each.id for each in before.voters}
    if now.leader >= 0 and former:
        told += [f"Node {each} has become a voter: {majority(now)} decide now." for each in sorted(ids - former)]
        told += [f"Node {each} is no voter any more: {majority(now)} decide now." for each in sorted(former - ids)]
    return [*told, *explain_followers(before, now)]


def explain_followers(before: Look, now: Look) -> list[str]:
    """Voters that fall silent, and come back, while one leader leads."""
    if now.leader < 0 or (now.leader, now.epoch) != (before.leader, before.epoch):
        return []
    told = []
    former = {each.id: each for each in before.voters}
    present = [each for each in now.voters if each.id == now.leader or not is_silent(each, now.at_ms)]
    for each in now.voters:
        if each.id == now.leader or each.id not in former:
            continue
        was_silent = is_silent(former[each.id], before.at_ms)
        if is_silent(each, now.at_ms) and not was_silent:
            seconds = SILENT_MS / 1000
            told.append(
                f"Node {each.id} has not asked for records for {seconds:g} s: it has died, hangs or is cut off. "
                f"{len(present)} of {len(now.voters)} voters are there, {majority(now)} must be."
            )
        elif was_silent and not is_silent(each, now.at_ms):
            is_new = former[each.id].fetched_ms < 0
            told.append(f"Node {each.id} follows node {now.leader}{'' if is_new else ' again'}.")
    return told


def is_silent(replica: Replica, now_ms: int) -> bool:
    return replica.fetched_ms < 0 or now_ms - replica.fetched_ms > SILENT_MS


def voted(votes: Sequence[int]) -> str:
    if not votes:
        return "a majority voted for it"
    *others, last = (str(each) for each in votes)
    return f"{', '.join(others)} and {last} voted for it" if others else f"{last} alone voted for it"


def majority(look: Look) -> int:
    return len(look.voters) // 2 + 1


def page(now: Look, events: list[str], width: int, now_ms: int, *, colourful: bool) -> list[str]:
    since = f" after epoch {now.epoch}" if now.epoch >= 0 else ""
    leader = f"node {now.leader} leads epoch {now.epoch}" if now.leader >= 0 else f"nobody leads{since}"
    committed = f"   committed up to {now.high_watermark}" if now.high_watermark >= 0 else ""
    title = f"barnabas quorum watch   {leader}{committed}"
    lines = [paint(cut(title, width), "bold", colourful), ""]
    header = f"{'NODE':>6}  {'ROLE':<9}  {'LOG END':>9}  {'LAG':>6}  {'LAST FETCH':>11}"
    lines.append(paint(cut(header, width), "reverse", colourful))
    end_offset = max((each.end_offset for each in now.voters), default=0)
    for role, replicas in (("voter", now.voters), ("observer", now.observers)):
        for each in replicas:
            is_leader = each.id == now.leader
            age_ms = max(now_ms - each.fetched_ms, 0) if each.fetched_ms >= 0 else -1
            fetched = "" if is_leader else "never" if age_ms < 0 else f"{age_ms} ms ago"
            end, lag = (each.end_offset, end_offset - each.end_offset) if each.end_offset >= 0 else ("?", "?")
            row = f"{each.id:>6}  {'leader' if is_leader else role:<9}  {end:>9}  {lag:>6}  {fetched:>11}"
            missing = not is_leader and is_silent(each, now_ms)
            row += "  silent" if missing else ""
            lines.append(paint(cut(row, width), "red" if missing else "green" if is_leader else "dim", colourful))
    return [*lines, "", *(line for event in events for line in wrap(event, max(width, 40), subsequent_indent=" " * 10))]
