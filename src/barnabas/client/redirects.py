"""Questions to identity providers: redirects do not take them to a plain connection, nor secrets to another host."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import urlsplit


class CarefulRedirects(urllib.request.HTTPRedirectHandler):
    """`urllib` would follow from https to http, and would show the Authorization header to whomever it is sent to."""

    max_redirections = 3

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        is_downgrade = old.scheme == "https" and new.scheme != "https"
        has_secret = req.data is not None or req.has_header("Authorization")
        if is_downgrade or (has_secret and (old.scheme, old.netloc) != (new.scheme, new.netloc)):
            raise urllib.error.HTTPError(req.full_url, code, f"a redirect to {new.netloc} is not followed", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_carefully(request: urllib.request.Request | str, timeout_s: float) -> Any:
    """As `urllib.request.urlopen`."""
    return urllib.request.build_opener(CarefulRedirects()).open(request, timeout=timeout_s)
