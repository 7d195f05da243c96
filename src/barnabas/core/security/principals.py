"""The name of a client that shows a certificate: `ssl.principal.mapping.rules`.

Rules are tried in order, the first that matches the whole distinguished name decides. `DEFAULT` is the name itself;
`RULE:pattern/replacement/` with `L` or `U` behind it replaces and then changes the case. `$1` stands for a group; a
number that the pattern has no group for stays as it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class InvalidRule(ValueError):
    """One sentence about a rule that cannot be read."""


class NoRuleApplies(Exception):
    """No rule gives this distinguished name a principal."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None  # None: DEFAULT
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        found = self.pattern.fullmatch(name)
        if found is None:
            return None
        # Java replaces every place where the pattern matches, an empty match at the end included.
        replaced = self.pattern.sub(lambda match: expand(self.replacement, match), name)
        return replaced.lower() if self.case == "L" else replaced.upper() if self.case == "U" else replaced


def expand(replacement: str, match: re.Match[str]) -> str:
    groups = match.re.groups

    def reference(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        digits = found[2]
        for length in range(len(digits), 0, -1):
            if int(digits[:length]) <= groups:
                return (match[int(digits[:length])] or "") + digits[length:]
        return found[0]

    return _REFERENCE.sub(reference, replacement)


class PrincipalRules:
    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[_Rule] = []
        for split in _SPLITTER.finditer(text.strip()):
            if split[2] is not None:
                self._rules.append(_Rule(None))
            elif split[3] is not None:
                self._rules.append(_Rule(_compiled(split[3], split[1]), split[4], split[5]))
            elif split[1]:
                raise InvalidRule(
                    f"ssl.principal.mapping.rules: '{split[1]}' is neither DEFAULT nor RULE:pattern/name/."
                )

    def name_of(self, distinguished_name: str) -> str:
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}")


def _compiled(pattern: str, rule: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRule(f"ssl.principal.mapping.rules: the pattern of '{rule}' cannot be read: {error}.") from error
