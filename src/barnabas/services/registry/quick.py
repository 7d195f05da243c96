"""Answers straight from the connection, kept as they go out.

uvicorn's protocol makes a task, a scope and two messages for every request. The questions that clients ask all day need
none of that:

- `GET /schemas/ids/N` never changes, so its answer is kept with the schema.
- `GET /subjects/...` changes only with the state. Answers are kept until the next record is replayed, and used where
  this instance is the primary: any other has to look at the log first.

Everything else takes the usual way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from barnabas.services.registry.records import StoredSchema
from barnabas.services.registry.state import State
from barnabas.web.metrics import HttpMetrics

V1 = b"application/vnd.schemaregistry.v1+json"
ID_PATH = re.compile(rb"/schemas/ids/(\d{1,10})\Z")
SUBJECTS = b"/subjects/"
BYTES_MAX = 16 * 1024 * 1024  # of kept answers about subjects
Ids = dict[int, list[StoredSchema]]


class Replica(Protocol):
    """What the quick way asks of the service."""

    state: State

    @property
    def is_primary(self) -> bool: ...


class KeptAnswers:
    """Answers about subjects, by what was asked, as long as nothing is replayed."""

    def __init__(self, service: Replica) -> None:
        self._service = service
        self._kept: dict[bytes, bytes] = {}
        self._size = 0
        self._epoch = -1

    def get(self, url: bytes) -> bytes | None:
        if self._epoch != self._service.state.epoch or not self._service.is_primary:
            return None
        return self._kept.get(url)

    def keep(self, url: bytes, body: bytes, epoch: int) -> None:
        """`epoch` is the state's from before the answer was worked out."""
        if epoch != self._service.state.epoch or not self._service.is_primary:
            return
        if epoch != self._epoch or self._size > BYTES_MAX:
            self._kept, self._size, self._epoch = {}, 0, epoch
        answer = whole_answer(body)
        self._size += len(url) + len(answer)
        self._kept[url] = answer


def quick_answer(ids: Ids, kept: KeptAnswers, url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """None if the usual way has to be taken."""
    answer = None
    if (found := ID_PATH.match(url)) is not None:
        owners = ids.get(int(found[1]))
        answer = owners[0].answer if owners else None
    elif url.startswith(SUBJECTS):
        answer = kept.get(url)
    if answer is None:
        return None
    for name, value in headers:
        if name == b"accept" and not (value == b"*/*" or value.startswith(V1)):
            return None
    return answer


def whole_answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (V1, len(body), body)


def quick_protocol(ids: Ids, kept: KeptAnswers, metrics: HttpMetrics) -> type[HttpToolsProtocol]:
    class QuickProtocol(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            nothing_under_way = self.cycle is None or self.cycle.response_complete
            if nothing_under_way and not self.flow.write_paused and self.parser.get_method() == b"GET":
                answer = quick_answer(ids, kept, self.url, self.headers)
                if answer is not None and self.parser.should_keep_alive():
                    self.transport.write(answer)
                    self.server_state.total_requests += 1
                    metrics.count("GET", "/subjects" if self.url.startswith(SUBJECTS) else "/schemas", 200, 0.0)
                    keep_alive: Callable[[], None] = self.timeout_keep_alive_handler
                    self._unset_keepalive_if_required()
                    self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, keep_alive)
                    return
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if self.cycle is not None:
                super().on_body(body)

        def on_message_complete(self) -> None:
            if self.cycle is not None:
                super().on_message_complete()

    return QuickProtocol
