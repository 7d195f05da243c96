"""DeleteTopics: by name or by id, each topic once, and nobody learns of a topic that is hidden from him."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.topics import everybody
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.steps import Steps, Stepwise
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from barnabas.wire.records.metadata import RemoveTopicRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ZERO_UUID, Uuid


@Stepwise
def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    *,
    may_describe: Callable[[str], bool] = everybody,
    may_delete: Callable[[str], bool] = everybody,
) -> Steps[ControllerDecision[DeleteTopicsResponse]]:
    deletion = _Deletion(image, may_describe, may_delete)
    for topic in [*(DeleteTopicState(name=name) for name in request.topic_names), *request.topics]:
        yield
        deletion.add(topic)
    yield from deletion.decide()
    records: list[Record] = [RemoveTopicRecord(topic_id=topic_id) for topic_id in deletion.deleted]
    return ControllerDecision(records, DeleteTopicsResponse(responses=deletion.results))


class _Deletion:
    """The topics of one request, by name or by id, each meant once."""

    def __init__(
        self, image: MetadataImage, may_describe: Callable[[str], bool], may_delete: Callable[[str], bool]
    ) -> None:
        self.image = image
        self.may_describe = may_describe
        self.may_delete = may_delete
        self.names: dict[str, int] = {}
        self.ids: dict[Uuid, int] = {}
        self.deleted: dict[Uuid, None] = {}
        self.results: list[DeletableTopicResult] = []

    def add(self, topic: DeleteTopicState) -> None:
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            self._refuse(
                topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, "Give the topic's name or its id, not both."
            )
        elif topic.name is not None:
            self.names[topic.name] = self.names.get(topic.name, 0) + 1
        elif topic.topic_id != ZERO_UUID:
            self.ids[topic.topic_id] = self.ids.get(topic.topic_id, 0) + 1
        else:
            self._refuse(None, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Neither a topic's name nor its id was given.")

    def decide(self) -> Steps[None]:
        for topic_id, times in self.ids.items():
            yield
            if times > 1:
                self._refuse(None, topic_id, ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
            else:
                self._delete_by_id(topic_id)
        for name, times in self.names.items():
            yield
            if times > 1:
                self._refuse(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            else:
                self._delete_by_name(name)
        for topic_id in self.deleted:
            self.results.append(DeletableTopicResult(name=self.image.topic_names[topic_id], topic_id=topic_id))

    def _refuse(self, name: str | None, topic_id: Uuid, code: ErrorCode, message: str) -> None:
        self.results.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message))

    def _delete_by_id(self, topic_id: Uuid) -> None:
        name = self.image.topic_names.get(topic_id)
        if name is None:
            self._refuse(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id.")
        elif self.may_delete(name):
            self.deleted[topic_id] = None
        else:
            shown = name if self.may_describe(name) else None
            self._refuse(shown, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "You may not delete this topic.")

    def _delete_by_name(self, name: str) -> None:
        topic = self.image.topics.get(name)
        # Who may not see a topic must not learn from the answer whether it exists.
        if not self.may_describe(name) or (topic is not None and not self.may_delete(name)):
            self._refuse(name, ZERO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "You may not delete this topic.")
        elif topic is None:
            self._refuse(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No topic has this name.")
        elif topic.topic_id in self.ids:
            self.deleted.pop(topic.topic_id, None)
            self._refuse(
                name, topic.topic_id, ErrorCode.INVALID_REQUEST, "The topic is given by its name and by its id."
            )
        else:
            self.deleted[topic.topic_id] = None
