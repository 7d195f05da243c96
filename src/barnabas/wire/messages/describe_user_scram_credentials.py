"""DescribeUserScramCredentials, key 50."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None = field(default_factory=list)


class UserName(Struct):
    name: str = ""


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


class DescribeUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0
