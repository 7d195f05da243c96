"""The SQL command line: a session with a server, its tables, and the generator of data."""
