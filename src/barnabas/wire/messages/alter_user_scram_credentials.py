"""AlterUserScramCredentials, key 51."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


class ScramCredentialDeletion(Struct):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)


class AlterUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""
