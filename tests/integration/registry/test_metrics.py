"""What Prometheus reads from a registry."""

from __future__ import annotations

from urllib.request import urlopen

from barnabas.testing.registry import Registry
from tests.support.waiting import wait_until


def scraped(registry: Registry) -> dict[str, float]:
    with urlopen(f"{registry.url}/metrics", timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def test_requests_are_counted_and_strangers_make_no_labels(shared_registry: Registry, api, subject: str) -> None:
    status, made = api.register(subject, '"string"')
    assert status == 200
    before = scraped(shared_registry)
    for number in range(20):
        api("GET", f"/made-up-{number}")
        api("GET", f"/subjects/made-up-{number}/versions")
        api("GET", f"/schemas/ids/{made['id']}")
    after = scraped(shared_registry)
    labels = 'service="registry",method="GET",route="{}",status="{}"'

    def grown(route: str, status: int) -> float:
        name = f"barnabas_http_requests_total{{{labels.format(route, status)}}}"
        return after.get(name, 0) - before.get(name, 0)

    assert (grown("other", 404), grown("/subjects", 404), grown("/schemas", 200)) == (20, 20, 20)
    assert not [name for name in after if "made-up" in name]
    assert after["barnabas_registry_schemas"] >= 1
    wait_until(lambda: scraped(shared_registry)["barnabas_registry_primary"] == 1)
