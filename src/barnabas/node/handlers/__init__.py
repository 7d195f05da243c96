"""The APIs that exist: key to module, imported when the first request of its kind arrives."""

from __future__ import annotations

HANDLERS: dict[int, str] = {
    18: "k18_api_versions",
}
