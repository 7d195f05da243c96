"""`kafka-reassign-partitions`: moves replicas of partitions between brokers and log directories."""

from __future__ import annotations

import random
import time
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from barnabas.cli.arguments.assignment_files import as_json, check_assignment, read_assignment, read_topics
from barnabas.cli.connect import BOOTSTRAP_CONTROLLER, CONNECTION_WITHOUT_LIST, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.configs import BROKER, alter_configs
from barnabas.client.admin.reassignments import (
    BROKER_THROTTLES,
    Assignment,
    Directories,
    Location,
    Partition,
    Replica,
    clear_broker_throttles,
    clear_topic_throttles,
    locations,
    move_directories,
    named,
    ongoing,
    order,
    set_throttles,
)
from barnabas.client.admin.topics import describe_topics
from barnabas.client.errors import Refused
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.metadata import BrokerNode

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
FILE = "reassignment-json-file"
# Which further options an action takes.
ALLOWED = {
    "generate": {"topics-to-move-json-file", "broker-list", "disable-rack-aware"},
    "execute": {
        FILE,
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
        "preserve-throttles",
    },
    "verify": {FILE, "preserve-throttles"},
    "cancel": {FILE, "preserve-throttles", "timeout"},
    "list": set(),
}
REQUIRED = {
    "generate": ("broker-list", "topics-to-move-json-file"),
    "execute": (FILE,),
    "verify": (FILE,),
    "cancel": (FILE,),
    "list": (),
}
ALWAYS = {"bootstrap-server", "bootstrap-controller", "command-config", "zookeeper", "output"}
MISSING = "Please specify either --bootstrap-server or --bootstrap-controller"
RETRY_S = 0.1

PARSER = Parser(
    name="reassign-partitions",
    summary="Moves replicas of partitions between brokers and log directories.",
    options=(
        *CONNECTION_WITHOUT_LIST,
        BOOTSTRAP_CONTROLLER,
        OUTPUT,
        option("--generate", help="Propose where the replicas of topics could lie, and move nothing."),
        option("--execute", help="Begin the moves of a file."),
        option("--verify", help="Say how far the moves of a file are, and remove throttles when they are done."),
        option("--cancel", help="Cancel the moves of a file."),
        option("--list", help="List what is being moved."),
        option(
            "--topics-to-move-json-file",
            takes="file",
            completes="file",
            help='With --generate, the topics: {"topics": [{"topic": "t"}], "version": 1}.',
        ),
        option("--broker-list", takes="1,2", help="With --generate, the brokers to use.", completes="broker"),
        option("--disable-rack-aware", help="With --generate, regardless of racks."),
        option(
            f"--{FILE}",
            takes="file",
            completes="file",
            help='The moves: {"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]}], '
            '"version": 1}; log_dirs may be left out.',
        ),
        option("--throttle", takes="bytes/s", kind=int, default=-1, help="At most so fast between brokers."),
        option(
            "--replica-alter-log-dirs-throttle",
            takes="bytes/s",
            kind=int,
            default=-1,
            help="At most so fast between directories of a broker.",
        ),
        option("--additional", help="Beside moves that are under way, or to change their throttle."),
        option("--preserve-throttles", help="Leave throttles as they are."),
        option("--disallow-replication-factor-change", help="Refuse moves that change how many replicas there are."),
        option("--timeout", takes="ms", kind=int, default=10000, help="How long to wait for moves to begin."),
    ),
)


def run(parsed: Parsed) -> int:
    action = _check(parsed)
    try:
        with connect(parsed, missing=MISSING) as cluster:
            _DO[action](cluster, parsed)
    except Refused as refusal:
        raise ToolFailed(f"Error: {refusal.message}", on_stdout=True) from None
    except ToolFailed as failure:
        raise ToolFailed(f"Error: {failure}", on_stdout=True) from None
    return 0


def _check(parsed: Parsed) -> str:
    given = [action for action in ACTIONS if action in parsed]
    if len(given) != 1:
        raise UsageError(f"Command must include exactly one action: {', '.join(f'--{action}' for action in ACTIONS)}")
    (action,) = given
    if not {"bootstrap-server", "bootstrap-controller", "zookeeper"} & set(parsed.given()):
        raise UsageError(MISSING)
    parsed.require(*REQUIRED[action])
    for name in parsed.given():
        if name not in ALWAYS | ALLOWED[action] | {action}:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _file(parsed: Parsed) -> str:
    return parsed.text(FILE) or ""


def _generate(cluster: Cluster, parsed: Parsed) -> None:
    brokers = [int(part) for part in (parsed.text("broker-list") or "").split(",") if part.strip().isdecimal()]
    if twice := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
        raise ToolFailed(f"Broker list contains duplicate entries: {twice}")
    topics = read_topics(parsed.text("topics-to-move-json-file") or "")
    present = cluster.metadata([]).brokers
    usable = [present[broker] for broker in brokers if broker in present]
    current = _assignment_of(cluster, topics)
    proposed = _proposed(current, usable, rack_aware="disable-rack-aware" not in parsed)
    where = _directories(cluster, current)
    print(f"Current partition replica assignment\n{as_json(current, where)}\n")
    print(f"Proposed partition reassignment configuration\n{as_json(proposed, {})}")


def _assignment_of(cluster: Cluster, topics: list[str]) -> Assignment:
    described = describe_topics(cluster, topics)
    return {(topic.name, each.number): list(each.replicas) for topic in described for each in topic.partitions}


def _directories(cluster: Cluster, assignment: Assignment) -> dict[Replica, str | None]:
    brokers = {broker for replicas in assignment.values() for broker in replicas}
    return {replica: place.current for replica, place in locations(cluster, list(assignment), brokers).items()}


def _proposed(current: Assignment, brokers: list[BrokerNode], *, rack_aware: bool) -> Assignment:
    """Leaders in turn from a random broker on, followers behind them, on other racks first."""
    proposed: Assignment = {}
    racks = {broker.id: broker.rack for broker in brokers}
    if rack_aware and None in racks.values() and set(racks.values()) != {None}:
        raise ToolFailed("Not all brokers have rack information. Add --disable-rack-aware in command line.")
    order_of_brokers = sorted(racks)
    for topic in sorted({topic for topic, _ in current}):
        partitions = sorted(partition for partition in current if partition[0] == topic)
        factor = len(current[partitions[0]])
        if factor > len(order_of_brokers):
            raise ToolFailed(f"replication factor: {factor} larger than available brokers: {len(order_of_brokers)}")
        start = random.randrange(len(order_of_brokers))
        for number, partition in enumerate(partitions):
            at = (start + number) % len(order_of_brokers)
            turn = order_of_brokers[at:] + order_of_brokers[:at]
            proposed[partition] = _replicas(turn, racks if rack_aware else {}, factor)
    return proposed


def _replicas(turn: list[int], racks: dict[int, str | None], factor: int) -> list[int]:
    chosen = [turn[0]]
    while len(chosen) < factor:
        left = [broker for broker in turn if broker not in chosen]
        used = {racks.get(broker) for broker in chosen}
        other = [broker for broker in left if racks.get(broker) not in used]
        chosen.append((other or left)[0])
    return chosen


def _execute(cluster: Cluster, parsed: Parsed) -> None:
    listed, directories = read_assignment(_file(parsed))
    proposed = check_assignment(listed)
    moving = ongoing(cluster)
    if moving and "additional" not in parsed:
        raise ToolFailed(
            "Cannot execute because there is an existing partition assignment. Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be used "
            "to change the throttle by resubmitting the current reassignment."
        )
    present = cluster.metadata([]).brokers
    if unknown := [broker for replicas in proposed.values() for broker in replicas if broker not in present]:
        raise ToolFailed(f"Unknown broker id {unknown[0]}")
    current = _assignment_of(cluster, sorted({topic for topic, _ in proposed}))
    affected = {partition: replicas for partition, replicas in current.items() if partition in proposed}
    print(f"Current partition replica assignment\n\n{as_json(affected, _directories(cluster, affected))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    _throttle(cluster, parsed, proposed, current, directories)
    errors = order(cluster, proposed, keep_factor="disallow-replication-factor-change" in parsed)
    if errors:
        told = "\n".join(f"{named(partition)}: {why}" for partition, why in sorted(errors.items()))
        raise ToolFailed(f"Error reassigning partition(s):\n{told}")
    plural = "" if len(proposed) == 1 else "s"
    print(f"Successfully started partition reassignment{plural} for {_names(proposed)}")
    if directories:
        _move(cluster, directories, parsed.number("timeout") or 0)


def _throttle(
    cluster: Cluster, parsed: Parsed, proposed: Assignment, current: Assignment, directories: Directories
) -> None:
    rate, directory_rate = parsed.number("throttle") or 0, parsed.number("replica-alter-log-dirs-throttle") or 0
    if rate < 0 and directory_rate < 0:
        return
    print(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed."
    )
    if rate >= 0:
        set_throttles(cluster, proposed, current, ongoing(cluster), rate)
        print(f"The inter-broker throttle limit was set to {rate} B/s")
    if directory_rate >= 0:
        limit = {BROKER_THROTTLES[2]: str(directory_rate)}
        alter_configs(cluster, BROKER, {str(broker): limit for broker in sorted({on for _, _, on in directories})})
        print(f"The replica-alter-dir throttle limit was set to {directory_rate} B/s")


def _names(partitions: Iterable[Partition]) -> str:
    return ",".join(map(named, sorted(partitions)))


def _move(cluster: Cluster, wanted: Directories, timeout_ms: int) -> None:
    """Again and again: a replica must be on its broker before it can lie in a directory there."""
    deadline = time.monotonic() + timeout_ms / 1000
    pending = dict(wanted)
    while True:
        for topic, index, broker in sorted(move_directories(cluster, pending), key=lambda each: (each[2], *each[:2])):
            directory = pending.pop((topic, index, broker))
            print(
                f"Successfully started moving log directory to {directory} for replica {topic}-{index} with broker "
                f"{broker} "
            )
        if not pending:
            return
        if time.monotonic() >= deadline:
            names = ",".join(f"{topic}-{index}-{broker}" for topic, index, broker in sorted(pending))
            plural = "" if len(pending) == 1 else "s"
            raise ToolFailed(f"Timed out before log directory move{plural} could be started for: {names}")
        time.sleep(RETRY_S)


def _verify(cluster: Cluster, parsed: Parsed) -> None:
    listed, directories = read_assignment(_file(parsed))
    moving = ongoing(cluster)
    current = _known_assignment(cluster, {topic for (topic, _), _ in listed})
    states = [_state(partition, replicas, moving, current) for partition, replicas in sorted(listed)]
    if wants_json(parsed):
        print_json(
            [
                {"topic": p[0], "partition": p[1], "state": text}
                for (p, _), text in zip(sorted(listed), states, strict=True)
            ]
        )
        return
    print("Status of partition reassignment:", *states, sep="\n")
    places = locations(cluster, [key[:2] for key in directories], {broker for _, _, broker in directories})
    moves = {replica: _move_state(replica, target, places.get(replica)) for replica, target in directories.items()}
    print("\n".join(text for _, (text, _) in sorted(moves.items(), key=lambda item: (item[0][2], *item[0][:2]))))
    if not moving and all(done for _, done in moves.values()) and "preserve-throttles" not in parsed:
        _clear_throttles(cluster, listed)


def _known_assignment(cluster: Cluster, topics: set[str]) -> Assignment:
    """Without topics that are not there."""
    found: Assignment = {}
    for topic in topics:
        try:
            found |= _assignment_of(cluster, [topic])
        except Refused as refusal:
            if refusal.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
    return found


def _state(partition: Partition, replicas: list[int], moving: Container[Partition], current: Assignment) -> str:
    if partition in moving:
        return f"Reassignment of partition {named(partition)} is still in progress."
    now = current.get(partition, [])
    if now == replicas:
        return f"Reassignment of partition {named(partition)} is completed."
    return (
        f"There is no active reassignment of partition {named(partition)}, but replica set is "
        f"{','.join(map(str, now))} rather than {','.join(map(str, replicas))}."
    )


def _move_state(replica: Replica, target: str, place: Location | None) -> tuple[str, bool]:
    topic, index, broker = replica
    name = f"{topic}-{index}"
    if place is None:
        return f"Partition {name} cannot be found in any live log directory on broker {broker}.", True
    if place.current is None:
        return (
            f"Partition {name} is not found in any live log dir on broker {broker}. There is likely an offline log "
            "directory on the broker."
        ), True
    if place.future is None:
        if place.current == target:
            return f"Reassignment of replica {name}-{broker} completed successfully.", True
        return (
            f"Partition {name} on broker {broker} is not being moved from log dir {place.current} to {target}.",
            True,
        )
    if place.future == target:
        return f"Reassignment of replica {name}-{broker} is still in progress.", False
    return (
        f"Partition {name} on broker {broker} is being moved to log dir {place.future} instead of {target}.",
        False,
    )


def _cancel(cluster: Cluster, parsed: Parsed) -> None:
    listed, directories = read_assignment(_file(parsed))
    moving = ongoing(cluster)
    active = [partition for partition, _ in listed if partition in moving]
    if active:
        errors = order(cluster, dict.fromkeys(active))
        if errors:
            told = "\n".join(f"{named(partition)}: {why}" for partition, why in sorted(errors.items()))
            raise ToolFailed(f"Error cancelling partition reassignment{'' if len(errors) == 1 else 's'} for:\n{told}")
        plural = "" if len(active) == 1 else "s"
        print(f"Successfully cancelled partition reassignment{plural} for: {_names(active)}")
    else:
        print("None of the specified partition reassignments are active.")
    places = locations(cluster, [key[:2] for key in directories], {broker for _, _, broker in directories})
    back = {
        replica: place.current
        for replica, place in places.items()
        if replica in directories and place.future is not None and place.current is not None
    }
    if back:
        _move(cluster, back, parsed.number("timeout") or 0)
    else:
        print("None of the specified partition moves are active.", end="")
    if "preserve-throttles" not in parsed:
        _clear_throttles(cluster, listed)


def _list(cluster: Cluster, parsed: Parsed) -> None:
    moving = ongoing(cluster)
    if wants_json(parsed):
        print_json(
            [
                {
                    "topic": topic,
                    "partition": index,
                    "replicas": each.replicas,
                    "adding": each.adding,
                    "removing": each.removing,
                }
                for (topic, index), each in sorted(moving.items())
            ]
        )
        return
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, each in sorted(moving.items()):
        adding = f" adding: {','.join(map(str, each.adding))}." if each.adding else ""
        removing = f" removing: {','.join(map(str, each.removing))}." if each.removing else ""
        print(f"{named(partition)}: replicas: {','.join(map(str, each.replicas))}.{adding}{removing}")


_DO = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}


def _clear_throttles(cluster: Cluster, listed: list[tuple[Partition, list[int]]]) -> None:
    brokers = sorted({*cluster.metadata([]).brokers, *(broker for _, replicas in listed for broker in replicas)})
    print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {','.join(map(str, brokers))}")
    clear_broker_throttles(cluster, brokers)
    topics = sorted({topic for (topic, _), _ in listed})
    print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
    clear_topic_throttles(cluster, topics)
