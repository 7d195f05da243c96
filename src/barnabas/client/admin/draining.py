"""Where the replicas of a broker go that is to hold none: each to the broker that suits its partition best.

A replica goes to a broker that is there and does not hold the partition yet: one in a rack that the partition's other
replicas are not in, if there is one, then the one with the fewest replicas. It takes the place of the replica that
leaves, so who is preferred as leader stays the same for all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.reassignments import Assignment, named
from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from barnabas.client.admin.topics import TopicDescription
    from barnabas.client.metadata import BrokerNode

SHOWN_MAX = 5


class CannotDrain(ClientError):
    """The replicas have nowhere to go; the message says which."""


def plan(topics: Iterable[TopicDescription], brokers: Mapping[int, BrokerNode], leaving: int) -> Assignment:
    """The replicas that each partition of the broker shall have; raises CannotDrain. Moves that run are finished first.

    `brokers` are those that are there.
    """
    listed = list(topics)
    held = Counter(replica for topic in listed for each in topic.partitions for replica in each.replicas)
    racks = {broker.id: broker.rack for broker in brokers.values()}
    wanted: Assignment = {}
    homeless: list[str] = []
    stuck: list[str] = []
    for topic in listed:
        for each in topic.partitions:
            if leaving not in each.replicas:
                continue
            name = named((topic.name, each.number))
            others = [replica for replica in each.replicas if replica != leaving]
            candidates = [broker for broker in brokers if broker != leaving and broker not in others]
            if not candidates:
                homeless.append(f"{name} with {len(each.replicas)} replicas")
            elif each.leader < 0:
                stuck.append(name)
            else:
                used = {racks.get(replica) for replica in others}
                chosen = min(candidates, key=lambda broker: (racks[broker] in used, held[broker], broker))
                held[chosen] += 1
                wanted[topic.name, each.number] = [chosen if one == leaving else one for one in each.replicas]
    if homeless:
        left = len([broker for broker in brokers if broker != leaving])
        raise CannotDrain(
            f"Without broker {leaving} there are {left} brokers, too few for {_few(homeless)}. Add a broker, or lower "
            "the replication factor first."
        )
    if stuck:
        raise CannotDrain(f"Nobody leads {_few(stuck)}, so there is nobody to copy from.")
    return wanted


def _few(names: list[str]) -> str:
    rest = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")
