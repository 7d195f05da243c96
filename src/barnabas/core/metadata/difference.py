"""What has changed between two images: a snapshot that replaces an image says where it ends, not how it got there."""

from __future__ import annotations

from barnabas.core.metadata.state import MetadataDelta, MetadataImage


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """The delta that records leading from the one to the other would have left.

    A topic that is there under another id is another topic: the old one is deleted, the new one created.
    """
    delta = MetadataDelta(
        features_changed=before.features != after.features,
        brokers_changed=before.brokers != after.brokers,
        controllers_changed=before.controllers != after.controllers,
        quotas_changed=before.client_quotas != after.client_quotas,
        acls_changed=before.acls != after.acls,
        scram_changed=before.scram_credentials != after.scram_credentials,
        delegation_tokens_changed=before.delegation_tokens != after.delegation_tokens,
        producer_ids_changed=before.next_producer_id != after.next_producer_id,
    )
    delta.deleted_topics = [topic for topic in before.topics.values() if topic.topic_id not in after.topic_names]
    for topic in after.topics.values():
        known = before.topic_by_id(topic.topic_id)
        if known is None:
            delta.created_topics[topic.topic_id] = topic
        for index, state in topic.partitions.items():
            if known is None or known.partitions.get(index) != state:
                delta.changed_partitions[topic.topic_id, index] = state
    delta.configs = {
        resource
        for resource in before.configs.keys() | after.configs.keys()
        if before.configs.get(resource) != after.configs.get(resource)
    }
    return delta
