"""The shell around the transaction coordinator: markers, verification, time."""
