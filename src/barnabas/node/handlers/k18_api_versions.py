"""ApiVersions, versions 0 to 4: what this listener understands, and the features of node and cluster.

1 brought the throttle time, 3 the client's software name and version and the features, 4 supported features whose
lowest level is 0 (older clients cannot read those). A version not known here is answered as version 0 with
UNSUPPORTED_VERSION and the range of ApiVersions alone. Of what a broker forwards to the active controller it offers the
versions that both know.

Deviations from Kafka: only APIs and features that exist here are named; metadata.version begins at 25.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from barnabas.core.metadata.records import SUPPORTED_FEATURES
from barnabas.node.dispatch import offered_apis, offered_versions
from barnabas.node.handlers import HANDLERS, Served
from barnabas.node.requests import ListenerKind, RequestContext
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from barnabas.core.metadata.state import MetadataImage
    from barnabas.node.ports import Forwarding, Metadata

FEATURES_SINCE = 3
LEVEL_ZERO_SINCE = 4

_software = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(context: RequestContext, request: ApiVersionsRequest, node: Forwarding) -> ApiVersionsResponse:
    login = context.session.login
    if login is not None and login.is_interrupted:
        login.refuse()
        return ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    if context.api_version >= FEATURES_SINCE:
        name, version = request.client_software_name, request.client_software_version
        if not _software.fullmatch(name) or not _software.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.client_software_name = name
        context.session.client_software_version = version
    offered = _offered(context.listener_kind, tuple(HANDLERS))
    if context.listener_kind is ListenerKind.BROKER and (versions := node.controller.versions):
        offered = _intersect_forwarded(offered, versions)
    response = ApiVersionsResponse(api_keys=offered)
    if context.api_version >= FEATURES_SINCE:
        _add_features(response, node.image, with_level_zero=context.api_version >= LEVEL_ZERO_SINCE)
    return response


async def handle_unknown_version(context: RequestContext, request: None, node: Metadata) -> ApiVersionsResponse:
    lowest, highest = offered_versions(18, context.listener_kind) or (0, 0)
    known = ApiVersion(api_key=18, min_version=lowest, max_version=highest)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])


@lru_cache(maxsize=8)
def _offered(kind: ListenerKind, existing: tuple[int, ...]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api_key, min_version=lowest, max_version=highest)
        for api_key, lowest, highest in offered_apis(kind)
    ]


def _intersect_forwarded(offered: list[ApiVersion], versions: Mapping[int, tuple[int, int]]) -> list[ApiVersion]:
    both = []
    for api in offered:
        if not HANDLERS[api.api_key].served & Served.FORWARDED:
            both.append(api)
        elif api.api_key in versions:
            lowest, highest = versions[api.api_key]
            lowest, highest = max(api.min_version, lowest), min(api.max_version, highest)
            if lowest <= highest:
                both.append(ApiVersion(api_key=api.api_key, min_version=lowest, max_version=highest))
    return both


def _add_features(response: ApiVersionsResponse, image: MetadataImage, *, with_level_zero: bool) -> None:
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(SUPPORTED_FEATURES.items())
        if lowest > 0 or with_level_zero
    ]
    response.finalized_features_epoch = image.offset
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(image.features.items())
        if level > 0
    ]
