"""A refusal as HTTP clients of Confluent's services know it: a status, and a body with a code and a sentence."""

from __future__ import annotations

REASONS = {
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
}


class HttpError(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    @property
    def tree(self) -> dict[str, object]:
        return {"error_code": self.code, "message": self.message}


def plain_error(status: int) -> HttpError:
    return HttpError(status, status, f"HTTP {status} {REASONS[status]}")
