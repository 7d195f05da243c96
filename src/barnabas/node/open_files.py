"""How many files and connections the process may have open, and who gets how many of them.

Clients must not be able to take the last handle: a log that cannot open its file would count as a disk that failed.
So connections end where the part kept for the logs begins, whatever `max.connections` allows.
"""

from __future__ import annotations

import resource

FILES_MAX = 512
KEPT_MAX = 1024
UNLIMITED = 1 << 20


def raise_limit() -> None:
    """As far as the system lets us, like a JVM; many systems begin with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            pass  # some systems name a hard limit that they do not grant


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def for_logs() -> int:
    """Segments and indexes that stay open; others are opened when they are used."""
    return min(FILES_MAX, limit() // 4)


def for_connections() -> int:
    """The rest is for logs, files that are written and closed, and the system's own."""
    return limit() - min(KEPT_MAX, limit() // 2)
