"""Posts with their likes and comments, and what is trending: CQRS.

Commands are events in topics that anybody writes; queries are answered from other topics, which only this file writes.

    posts              user -> {"event": "created", "post": "p1", "text": "..."} or {"event": "deleted", "post": "p1"}
    likes, comments    post -> {"event": "liked", "user": "bert"}, {"event": "commented", "user": "bert", "text": "..."}
    posts_with_counts  post -> {"user": "anna", "text": "...", "likes": 3, "comments": 1}
    trending_posts     hour -> [["p1", 4], ["p7", 2]], the ten posts with most reactions in the hour that began then
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from topics import COMPACTED, FOR_EVER, Topic, create_topics, kept

import barnabas.spark
from barnabas.streams import JSON, LONG, Topology, Windowed, hopping

TOPICS = [
    Topic("posts", partitions=32, configs=FOR_EVER),  # by user: what a user does to a post stays in order
    # By post, for there they are counted; both of the same number, so that they are counted without moving.
    Topic("likes", partitions=36, configs=kept(timedelta(days=30))),
    Topic("comments", partitions=36, configs=kept(timedelta(days=30))),
    Topic("posts_with_counts", partitions=32, configs=COMPACTED),  # a table; a deleted post is a tombstone in it
    Topic("trending_posts", partitions=1, configs=kept(timedelta(days=1))),  # a record an hour and its changes
]
RANKS = 10
Ranking = list[list[Any]]


def ranked(post: str, reactions: int, ranking: Ranking) -> Ranking:
    """A post with its new count. Counts only grow, so one that fell out comes back as soon as it deserves it."""
    others = [[name, count] for name, count in ranking if name != post]
    return sorted([*others, [post, reactions]], key=lambda one: (-one[1], one[0]))[:RANKS]


def build() -> Topology:
    topology = Topology("social-posts", processing_guarantee="exactly_once_v2")
    events, likes, comments = (topology.stream(name) for name in ("posts", "likes", "comments"))

    posts = (
        events.map(lambda user, event: (event["post"], {**event, "user": user}))
        .map_values(lambda event: event if event["event"] == "created" else None)
        .to_table()
    )
    counts = (
        likes.group_by_key()
        .cogroup(lambda post, like, found: {**found, "likes": found["likes"] + 1})
        .cogroup(comments.group_by_key(), lambda post, comment, found: {**found, "comments": found["comments"] + 1})
        .aggregate(lambda: {"likes": 0, "comments": 0})
    )
    seen = posts.left_join(
        counts,
        lambda post, found: {"user": post["user"], "text": post["text"], **(found or {"likes": 0, "comments": 0})},
        store="posts",
    )
    seen.to("posts_with_counts", value=JSON)

    reactions = likes.merge(comments).group_by_key().windowed_by(hopping(timedelta(hours=1), timedelta(minutes=10)))
    trending = (
        reactions.count()
        .map_values(lambda post, count: (post.key, count))
        .group_by(hour, key=LONG)
        .aggregate(list, lambda key, one, ranking: ranked(*one, ranking), lambda key, one, ranking: ranking)
    )
    trending.to("trending_posts", value=JSON)
    return topology


def hour(post: Windowed[str], _: Any) -> int:
    return post.start_ms


if __name__ == "__main__":
    create_topics(TOPICS)
    build().start(barnabas.spark.session("social-posts")).await_termination()
