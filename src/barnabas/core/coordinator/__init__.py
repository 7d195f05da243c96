"""The runtime that groups and transactions share: load, decide, replay, append, commit, revert, timers."""
