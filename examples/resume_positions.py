"""Where was I? The player tells every few seconds how far a show has been watched, and goes on there on any device.

    show_position     user -> {"show": "s1", "seconds": 754, "length": 3120}
    resume_positions  user -> {"s1": 754, "s7": 60}, the shows that the user has begun and not finished

The player reads the second topic, or asks the store: `open_store(checkpoint, "resume-positions").get("anna")`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from topics import COMPACTED, Topic, create_topics, kept

import barnabas.spark
from barnabas.streams import JSON, Topology

TOPICS = [
    # Many players write all the time: many partitions. By user, so that one user's positions stay in order: the phone's
    # of a minute ago does not win over the television's of now. A week is enough to begin anew after a mistake.
    Topic("show_position", partitions=32, configs=kept(timedelta(days=7))),
    # The last record of each user is all there is to know, however long ago. Who has nothing to resume is a tombstone.
    Topic("resume_positions", partitions=32, configs=COMPACTED),
]
CREDITS_S = 60  # whoever comes so far has seen the show

Position = dict[str, Any]
Shows = dict[str, float]


def watched(user: str, position: Position, shows: Shows) -> Shows | None:
    rest = {show: seconds for show, seconds in shows.items() if show != position["show"]}
    if position["seconds"] < position["length"] - CREDITS_S:
        rest[position["show"]] = position["seconds"]
    return rest or None  # nothing to resume: the row goes


def build() -> Topology:
    topology = Topology("resume-positions", processing_guarantee="exactly_once_v2")
    positions = topology.stream("show_position").filter(lambda user, position: position["seconds"] > 0)
    # The key is the one that the topic has: what belongs together lies together already, and nothing has to move.
    shows = positions.group_by_key().aggregate(dict, watched, store="resume-positions")
    shows.to("resume_positions", value=JSON)
    return topology


if __name__ == "__main__":
    create_topics(TOPICS)
    build().start(barnabas.spark.session("resume-positions")).await_termination()
