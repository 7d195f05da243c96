"""Share groups (KIP-932): the state of a partition in a group, in the leader's memory and in the share coordinator."""
