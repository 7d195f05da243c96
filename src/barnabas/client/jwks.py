"""The keys of an identity provider: a JWKS document, by which the signatures of tokens are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from barnabas.client.redirects import open_carefully

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
DOCUMENT_BYTES_MAX = 1 << 20
READ_TIMEOUT_S = 10.0


def read_keys(url: str) -> dict[str | None, Any]:
    """The keys of a JWKS document by their ids. Blocks."""
    import jwt

    parts = urlsplit(url)
    if parts.scheme == "file":
        text = Path(unquote(parts.path)).read_bytes()
    else:
        with open_carefully(url, READ_TIMEOUT_S) as response:
            text = response.read(DOCUMENT_BYTES_MAX + 1)
    if len(text) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
    keys: dict[str | None, Any] = {}
    for each in json.loads(text)["keys"]:
        if each.get("use", "sig") != "sig" or each.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        keys[each.get("kid")] = jwt.PyJWK(each, algorithm=each.get("alg"))
    if not keys:
        raise ValueError("it has no public key for signatures")
    return keys
