"""Consumer groups: who belongs to them, who consumes what, and how far they have come."""
