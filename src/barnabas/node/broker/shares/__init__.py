"""Share groups on a broker: partitions as groups see them, sessions of members, and the share coordinator's shell."""
