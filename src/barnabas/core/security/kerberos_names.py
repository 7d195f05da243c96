"""The user that a Kerberos principal stands for: `sasl.kerberos.principal.to.local.rules`.

A principal is `service/host@REALM` or `user@REALM`. Rules are tried in order, and the first that gives a name decides.
`DEFAULT` takes the first component of principals of the node's own realm. `RULE:[n:format](pattern)s/from/to/g` is for
principals of n components: `$0` in the format is the realm, `$1` and `$2` are the components; the text has to match
the pattern as a whole if there is one, and `s/from/to/` replaces (once, or everywhere with `g`); `/L` and `/U` change
the case. A name that still has `/` or `@` in it is refused: it could stand for somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.core.security.principals import InvalidRule, NoRuleApplies, expand

_PRINCIPAL = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<components>\d*):(?P<format>[^\]]*)](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d*)")
KEY = "sasl.kerberos.principal.to.local.rules"


@dataclass(frozen=True, slots=True)
class _Rule:
    components: int  # 0: DEFAULT
    format: str = ""
    match: re.Pattern[str] | None = None
    replaced: re.Pattern[str] | None = None
    replacement: str = ""
    everywhere: bool = False
    case: str = ""

    def apply(self, default_realm: str, parts: tuple[str, ...]) -> str | None:
        """`parts` are the realm and the components."""
        if self.components == 0:
            return parts[1] if parts[0] == default_realm else None
        if len(parts) - 1 != self.components:
            return None
        name = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.replaced is not None:
            count = 0 if self.everywhere else 1
            name = self.replaced.sub(lambda found: expand(self.replacement, found), name, count=count)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class KerberosRules:
    def __init__(self, rules: Iterable[str] = ("DEFAULT",), default_realm: str = "") -> None:
        self._rules = [_parsed(rule.strip()) for rule in rules]
        self._default_realm = default_realm

    def name_of(self, principal: str) -> str:
        parts = _parts(principal)
        if parts is None:
            return principal  # it has no realm: it is a name already
        for rule in self._rules:
            name = rule.apply(self._default_realm, parts)
            if name is None:
                continue
            if re.search("[/@]", name) or not name:
                raise NoRuleApplies(f"the rules of {KEY} make '{name}' of {principal}, which is no simple name")
            return name
        raise NoRuleApplies(f"no rule of {KEY} applies to {principal}")


def _parts(principal: str) -> tuple[str, ...] | None:
    found = _PRINCIPAL.fullmatch(principal)
    if found is None:
        if "@" in principal or "/" in principal or not principal:
            raise NoRuleApplies(f"'{principal}' is no principal of Kerberos")
        return None
    service, host, realm = found.groups()
    return (realm, service) if host is None else (realm, service, host)


def _parsed(rule: str) -> _Rule:
    found = _RULE.fullmatch(rule)
    if found is None:
        raise InvalidRule(f"{KEY}: '{rule}' is neither DEFAULT nor RULE:[n:format](pattern)s/from/to/.")
    if found["default"] is not None:
        return _Rule(0)
    components = int(found["components"] or 0)
    numbers = _PARAMETER.findall(found["format"])
    if components < 1 or any(not number or int(number) > components for number in numbers):
        raise InvalidRule(f"{KEY}: '{rule}' names a component that principals of its length do not have.")
    return _Rule(
        components,
        found["format"],
        _compiled(found["match"], rule),
        _compiled(found["from"], rule),
        found["to"] or "",
        found["all"] is not None,
        found["case"] or "",
    )


def _compiled(pattern: str | None, rule: str) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRule(f"{KEY}: a pattern of '{rule}' cannot be read: {error}.") from error
