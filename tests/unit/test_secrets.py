"""No secret is in the text of an object that could stand in a log line or a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.settings import ClientSettings
from barnabas.client.tls import OwnCertificate
from barnabas.core.controller.delegation_tokens import TokenRules
from barnabas.core.security.sasl import ScramCredential
from barnabas.node.dispatch import SECRET_APIS
from barnabas.node.security.login import Logins
from barnabas.services.rest.settings import RestSettings
from barnabas.web.security import Caller, HttpSecurity, User
from barnabas.wire.apis import message_classes
from barnabas.wire.messages.envelope import EnvelopeRequest

SECRET = "hunter2"
LOGIN = {
    "bootstrap.servers": "localhost:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'org.x.PlainLoginModule required username="anna" password="{SECRET}";',
    "ssl.key.password": SECRET,
}


@pytest.mark.parametrize(
    "holder",
    [
        ClientSettings.from_properties(LOGIN),
        RestSettings.from_properties(
            {"bootstrap.servers": "localhost:1", "schema.registry.basic.auth.user.info": f"anna:{SECRET}"}
            | {f"client.{name}": text for name, text in LOGIN.items()}
            | {"producer.sasl.jaas.config": SECRET, "consumer.sasl.jaas.config": SECRET}
        ),
        HttpSecurity(tls={"ssl.keystore.password": SECRET}, users={"anna": User(SECRET, frozenset())}),
        Logins(("PLAIN",), {"anna": SECRET}, lambda mechanism, user: None),
        Caller("anna", frozenset(), password=SECRET, token=SECRET),
        TokenRules(SECRET.encode(), 1, 1),
        OwnCertificate(SECRET, SECRET),
        ScramCredential(b"", SECRET.encode(), SECRET.encode(), 4096),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_a_text_has_no_secret(holder: object) -> None:
    assert SECRET not in repr(holder)
    assert SECRET not in str(holder)


def test_every_request_that_may_hold_a_password_is_not_shown_in_a_log() -> None:
    """Also within the envelope of a broker that passes it on."""
    named = {17: "Sasl", 33: "AlterConfigs", 36: "Sasl", 38: "DelegationToken", 44: "AlterConfigs", 51: "Scram"}
    for api_key, name in named.items():
        assert name in message_classes(api_key)[0].__name__
    assert {*named, EnvelopeRequest.api_key} <= SECRET_APIS


def test_nobody_reads_a_password_out_of_the_sources_of_a_key_file(tmp_path: Path) -> None:
    from barnabas.client.encryption.keys import KeyFile
    from barnabas.client.errors import InvalidSetting

    (tmp_path / "keys").write_text(f"k1: {SECRET}\n")
    with pytest.raises(InvalidSetting) as refused:
        KeyFile(tmp_path / "keys")
    assert SECRET not in str(refused.value)
