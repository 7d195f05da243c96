"""What an administrator asks of a cluster and orders from it: topics, configurations, groups, transactions, quotas.

Functions of a `Cluster`. They give values, raise a ClientError, and print nothing.
"""
