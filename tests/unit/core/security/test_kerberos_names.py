from __future__ import annotations

import pytest

from barnabas.core.security.kerberos_names import KerberosRules
from barnabas.core.security.principals import InvalidRule, NoRuleApplies

REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rule", "principal", "name"),
    [
        ("DEFAULT", "anna@EXAMPLE.COM", "anna"),
        ("DEFAULT", "kafka/broker-1@EXAMPLE.COM", "kafka"),
        ("DEFAULT", "anna", "anna"),
        ("RULE:[1:$1]", "anna@ELSEWHERE", "anna"),
        ("RULE:[1:$1@$0](.*@ELSEWHERE)s/@.*//", "anna@ELSEWHERE", "anna"),
        ("RULE:[2:$1.$2](kafka\\..*)s/kafka/node/", "kafka/broker-1@EXAMPLE.COM", "node.broker-1"),
        ("RULE:[1:$1]s/a/A/", "anna@EXAMPLE.COM", "Anna"),
        ("RULE:[1:$1]s/a/A/g", "anna@EXAMPLE.COM", "AnnA"),
        ("RULE:[1:$1]s/(an)(na)/$2$1/", "anna@EXAMPLE.COM", "naan"),
        ("RULE:[1:$1]/L", "ANNA@EXAMPLE.COM", "anna"),
        ("RULE:[1:$1]s/a/b//U", "anna@EXAMPLE.COM", "BNNA"),
    ],
)
def test_a_rule_makes_a_user_of_a_principal(rule: str, principal: str, name: str) -> None:
    assert KerberosRules([rule], REALM).name_of(principal) == name


@pytest.mark.parametrize(
    ("rule", "principal"),
    [
        ("DEFAULT", "anna@ELSEWHERE"),
        ("RULE:[2:$1]", "anna@EXAMPLE.COM"),
        ("RULE:[1:$1](bob)", "bobby@EXAMPLE.COM"),
        ("RULE:[1:$1@$0]", "anna@EXAMPLE.COM"),  # the name still has its realm
        ("DEFAULT", "a/b/c@EXAMPLE.COM"),
        ("DEFAULT", "@EXAMPLE.COM"),
    ],
)
def test_a_principal_that_no_rule_makes_a_simple_name_is_refused(rule: str, principal: str) -> None:
    with pytest.raises(NoRuleApplies):
        KerberosRules([rule], REALM).name_of(principal)


def test_the_first_rule_that_applies_decides() -> None:
    rules = KerberosRules(["RULE:[1:$1](anna)s/.*/root/", "DEFAULT"], REALM)
    assert [rules.name_of(f"{name}@EXAMPLE.COM") for name in ("anna", "bob")] == ["root", "bob"]


@pytest.mark.parametrize("rule", ["RULE:[1:$2]", "RULE:[0:$0]", "RULE:[1:$1](()", "anna", "RULE:[1:$1]x", "RULE:[1:$]"])
def test_a_rule_that_cannot_be_read_is_told(rule: str) -> None:
    with pytest.raises(InvalidRule, match=r"principal.to.local.rules"):
        KerberosRules([rule])
