"""Config providers as somebody hostile would write their references."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.worker.providers import Providers

PACKAGE = "org.apache.kafka.common.config.provider"


@pytest.fixture
def providers(tmp_path: Path) -> Providers:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "secrets.properties").write_text("password=a:b}c\n")
    (allowed / "token").write_text("t")
    (tmp_path / "outside").write_text("password=stolen\n")
    (allowed / "link").symlink_to(tmp_path / "outside")
    names = {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}
    properties = {"config.providers": ",".join(names)}
    for name, kind in names.items():
        properties[f"config.providers.{name}.class"] = f"{PACKAGE}.{kind}"
        properties[f"config.providers.{name}.param.allowed.paths"] = str(allowed)
    return Providers(properties)


def test_references_are_replaced_and_other_texts_stay(
    providers: Providers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", "there")
    given = {
        "a": f"x ${{file:{tmp_path}/allowed/secrets.properties:password}} y",
        "b": f"${{dir:{tmp_path}/allowed:token}}${{env:HERE}}",
        "c": "${unknown:a:b} ${file} ${} $ {env:HERE} ${${env:HERE}}",
    }
    found = providers.resolve(given)
    assert found == {"a": "x a:b}c y", "b": "tthere", "c": "${unknown:a:b} ${file} ${} $ {env:HERE} ${there}"}


@pytest.mark.parametrize(
    "reference",
    [
        "${file:{root}/outside:password}",
        "${file:{root}/allowed/../outside:password}",
        "${file:{root}/allowed/link:password}",
        "${dir:{root}:outside}",
        "${dir:{root}/allowed:../outside}",
        "${dir:{root}/allowed/..:outside}",
        "${dir:{root}/allowed:link}",
        "${file::password}",
    ],
)
def test_nothing_outside_of_the_allowed_paths_is_read(providers: Providers, tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigError):
        providers.resolve({"a": reference.replace("{root}", str(tmp_path))})


def test_a_text_of_beginnings_without_an_end_takes_no_time(providers: Providers) -> None:
    began = time.perf_counter()
    text = "${file:" * 20_000
    assert providers.resolve({"a": text})["a"] == text
    assert time.perf_counter() - began < 2
