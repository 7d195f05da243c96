"""Names for what belongs to users: any objects, of which nothing is known here but what they are for.

Keys are hashable where they are grouped or joined by. None is no key, and as a value a tombstone or a row that is not
there.
"""

from __future__ import annotations

from typing import Any

Key = Any
Value = Any
Folded = Any  # what an aggregate has made of the values of a key so far
