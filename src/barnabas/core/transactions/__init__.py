"""Transactions: who may write under a transactional id, and which partitions one transaction comprises."""
