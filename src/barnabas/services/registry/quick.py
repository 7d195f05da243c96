"""The answer to `GET /schemas/ids/N` straight from the connection: it never changes, so it is kept as it goes out.

uvicorn's protocol makes a task, a scope and two messages for every request. The one question that clients ask all day
needs none of that; everything else takes the usual way.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from barnabas.services.registry.records import StoredSchema
from barnabas.web.metrics import HttpMetrics

V1 = b"application/vnd.schemaregistry.v1+json"
ID_PATH = re.compile(rb"/schemas/ids/(\d{1,10})\Z")
Ids = dict[int, list[StoredSchema]]


def quick_answer(ids: Ids, url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """None if the usual way has to be taken."""
    found = ID_PATH.match(url)
    owners = ids.get(int(found[1])) if found is not None else None
    if not owners or owners[0].answer is None:
        return None
    for name, value in headers:
        if name == b"accept" and not (value == b"*/*" or value.startswith(V1)):
            return None
    return owners[0].answer


def whole_answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (V1, len(body), body)


def quick_protocol(ids: Ids, metrics: HttpMetrics) -> type[HttpToolsProtocol]:
    class QuickProtocol(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            nothing_under_way = self.cycle is None or self.cycle.response_complete
            if nothing_under_way and not self.flow.write_paused and self.parser.get_method() == b"GET":
                answer = quick_answer(ids, self.url, self.headers)
                if answer is not None and self.parser.should_keep_alive():
                    self.transport.write(answer)
                    self.server_state.total_requests += 1
                    metrics.count("GET", "/schemas", 200, 0.0)
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
