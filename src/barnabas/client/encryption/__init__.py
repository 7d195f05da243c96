"""Encryption at rest: values of chosen topics are encrypted by our producer and decrypted by our consumers.

    barnabas.encryption.topics=customers,payments.*    names, or beginnings of names
    barnabas.encryption.keys=file:/etc/barnabas/keys   or command:/usr/local/bin/kms
    barnabas.encryption.shred.topic=_record_keys       if each record key is to have a key that can be forgotten

Brokers, files and foreign clients see ordinary records whose values are ciphertext (decision 34).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.errors import InvalidSetting

if TYPE_CHECKING:
    from barnabas.client.encryption.envelope import Encryption
    from barnabas.client.settings import ClientSettings

TOPICS = "barnabas.encryption.topics"
KEYS = "barnabas.encryption.keys"
SHRED_TOPIC = "barnabas.encryption.shred.topic"


def encryption_of(settings: ClientSettings) -> Encryption | None:
    """None where nothing is encrypted, which costs nothing."""
    if KEYS not in settings.properties and TOPICS not in settings.properties:
        return None
    from barnabas.client.encryption.envelope import open_encryption

    return open_encryption(settings)


def refuse_encryption(settings: ClientSettings, what: str) -> None:
    """For writers of whole batches: nothing is written in the clear that was to be encrypted."""
    if settings.properties.get(TOPICS, "").strip():
        raise InvalidSetting(TOPICS, f"is set, and {what} does not encrypt.")
