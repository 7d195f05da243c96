"""Quotas and SCRAM credentials as they are written for kafka-configs, and as it tells of them."""

from __future__ import annotations

import re

from barnabas.cli.errors import UsageError
from barnabas.client.admin.quotas import ITERATIONS_MIN, Quota

TITLES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}


def quota_line(quota: Quota) -> str:
    entities = [
        f"the default {TITLES[kind]}" if name is None else f"{TITLES[kind]} '{name}'" for kind, name in quota.entity
    ]
    values = ", ".join(f"{key}={java_double(value)}" for key, value in sorted(quota.values.items()))
    return f"Quota configs for {', '.join(entities)} are {values}"


def java_double(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    digits, _, exponent = f"{value:e}".partition("e")
    shortest = repr(value).lower().partition("e")[0].replace(".", "").strip("0") or "0"
    digits = f"{'-' if value < 0 else ''}{shortest[0]}.{shortest[1:] or '0'}"
    return f"{digits}E{int(exponent)}"


def quota_rate(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"Cannot parse quota configuration value for {key}: {value}") from None


def scram_parts(mechanism: str, text: str) -> tuple[int, str]:
    found = re.fullmatch(r"(?:iterations=(-?[0-9]*),)?password=(.*)", text)
    if found is None:
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = int(found[1]) if found[1] and found[1] != "-1" else ITERATIONS_MIN
    if iterations < ITERATIONS_MIN:
        raise UsageError(f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {mechanism}")
    return iterations, found[2]
