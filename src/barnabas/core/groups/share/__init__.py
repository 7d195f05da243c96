"""Share groups (KIP-932): members that work through topics together, record by record."""
