"""The active controller: commands in, records out; it exists only while this node leads the quorum."""
