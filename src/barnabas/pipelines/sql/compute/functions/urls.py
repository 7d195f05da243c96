"""Parts of URLs."""

from __future__ import annotations

from urllib.parse import SplitResult, quote_plus, unquote, unquote_plus, urlsplit

from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.compute.registry import function


def parsed(url: str) -> SplitResult:
    try:
        found = urlsplit(url)
        _ = found.port
    except ValueError as error:
        raise EvaluationError(f"URL input has invalid syntax: {url}: {error}") from None
    if " " in url:
        raise EvaluationError(f"URL input has invalid syntax: {url}")
    return found


@function("URL_DECODE_PARAM", "STRING -> STRING")
def decode_param(text: str) -> str:
    """A parameter of a URL as it was before it was encoded."""
    return unquote_plus(text)


@function("URL_ENCODE_PARAM", "STRING -> STRING")
def encode_param(text: str) -> str:
    """Text as a parameter of a URL."""
    return quote_plus(text, safe="*-_.").replace("~", "%7E")


@function("URL_EXTRACT_FRAGMENT", "STRING -> STRING")
def fragment(url: str) -> str | None:
    """What is behind the # of a URL."""
    return unquote(parsed(url).fragment) if "#" in url else None


@function("URL_EXTRACT_HOST", "STRING -> STRING")
def host(url: str) -> str | None:
    """The host of a URL."""
    netloc = parsed(url).netloc.rpartition("@")[2]
    return netloc.partition(":")[0] if netloc and not netloc.startswith("[") else netloc or None


@function("URL_EXTRACT_PARAMETER", "STRING, STRING -> STRING")
def parameter(url: str, name: str) -> str | None:
    """A parameter of a URL's query."""
    for one in parsed(url).query.split("&"):
        key, found, value = one.partition("=")
        if unquote_plus(key) == name:
            return unquote_plus(value) if found else ""
    return None


@function("URL_EXTRACT_PATH", "STRING -> STRING")
def path(url: str) -> str:
    """The path of a URL."""
    return unquote(parsed(url).path)


@function("URL_EXTRACT_PORT", "STRING -> INTEGER")
def port(url: str) -> int | None:
    """The port of a URL."""
    return parsed(url).port


@function("URL_EXTRACT_PROTOCOL", "STRING -> STRING")
def protocol(url: str) -> str | None:
    """The scheme of a URL."""
    return url.partition(":")[0] if parsed(url).scheme else None


@function("URL_EXTRACT_QUERY", "STRING -> STRING")
def query(url: str) -> str | None:
    """What is behind the ? of a URL."""
    return unquote(parsed(url).query) if "?" in url.partition("#")[0] else None
