"""What administrators' tools ask of a cluster and order from it, apart from their command lines."""
