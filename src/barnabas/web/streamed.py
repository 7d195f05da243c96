"""An answer that is written while the request is still being read.

Starlette's own waits for the client's going by reading the request, and takes away parts of a body that is still
coming.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class StreamedResponse(Response):
    def __init__(self, parts: AsyncIterator[bytes], content_type: str, status: int = 200) -> None:
        super().__init__(status_code=status, headers={"content-type": content_type})
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
