"""Who a client is and what it may: logins and TLS of listeners, and the authorizer that follows the metadata."""
