from __future__ import annotations

import pytest

from barnabas.core.security.principals import InvalidRule, NoRuleApplies, PrincipalRules

NAME = "CN=Anna.Example,OU=Plant,O=Works,C=DE"


def test_without_rules_the_principal_is_the_distinguished_name() -> None:
    assert PrincipalRules().name_of(NAME) == NAME


def test_the_rule_of_the_courses_takes_the_common_name_in_small_letters() -> None:
    rules = PrincipalRules("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT")
    assert rules.name_of(NAME) == "anna.example"
    assert rules.name_of("OU=Plant") == "OU=Plant"


def test_the_first_rule_that_matches_decides() -> None:
    rules = PrincipalRules("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U")
    assert rules.name_of(NAME) == "ANNA.EXAMPLE@PLANT"
    assert rules.name_of("CN=pump,OU=ServiceUsers,O=Works") == "pump"
    with pytest.raises(NoRuleApplies):
        rules.name_of("C=DE")


def test_a_number_without_a_group_stays_as_it_is_written() -> None:
    assert PrincipalRules("RULE:^CN=(.*?),.*$/$1-$4/").name_of(NAME) == "Anna.Example-$4"
    assert PrincipalRules("RULE:^CN=(.*?),.*$/$12/").name_of(NAME) == "Anna.Example2"


@pytest.mark.parametrize("text", ["RULE:^CN=(.*?)", "RULE:((/x/", "something"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidRule):
        PrincipalRules(text)
