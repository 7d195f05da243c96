"""Values in envelopes: each is encrypted by a data key (AES-256-GCM), and the data key by a key of `keys.py`.

The header `barnabas-encryption` says how: version 1, and then

    W  length of the id, id, wrapped data key     the data key goes with the record
    S  the 8 bytes of the data key's number       the data key is the record key's own, in the shred topic

The value is a nonce and the ciphertext. Header and record key are authenticated with it, so a value cannot be put under
another key; the topic is not, so that topics may be mirrored under other names. A record whose key was forgotten is
read as one without a value. A new data key is taken after an hour or a million records, so a rotated key is soon used.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.encryption import KEYS, SHRED_TOPIC, TOPICS
from barnabas.client.encryption.keys import KEY_BYTES, NONCE_BYTES, Keys, KeyUnavailable, open_keys
from barnabas.client.errors import InvalidSetting, UnreadableAnswer
from barnabas.client.properties import listed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from barnabas.client.encryption.shredding import RecordKeys
    from barnabas.client.records import ConsumerRecord
    from barnabas.client.settings import ClientSettings

HEADER = "barnabas-encryption"
WRAPPED, SHREDDABLE = b"\x01W", b"\x01S"
DATA_KEY_S = 3600.0
DATA_KEY_RECORDS = 1_000_000
REMEMBERED_MAX = 10_000


class Sealing(NamedTuple):
    cipher: AESGCM
    header: bytes


class Encryption:
    def __init__(self, topics: Iterable[str], keys: Keys, record_keys: RecordKeys | None = None) -> None:
        self._names = frozenset(name for name in topics if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in topics if name.endswith("*"))
        self._keys = keys
        self._record_keys = record_keys
        self._lock = threading.Lock()
        self._sealing: Sealing | None = None
        self._left = 0
        self._sealed_until = 0.0
        self._opening: OrderedDict[bytes, AESGCM] = OrderedDict()  # by header

    def covers(self, topic: str) -> bool:
        return topic in self._names or topic.startswith(self._prefixes)

    def seal(self, key: bytes | None, value: bytes) -> tuple[bytes, tuple[str, bytes]]:
        """The value to be sent instead, and the header that goes with it. May block where a key is fetched."""
        sealing = self._current() if self._record_keys is None or key is None else self._own(self._record_keys, key)
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + sealing.cipher.encrypt(nonce, value, sealing.header + (key or b""))
        return sealed, (HEADER, sealing.header)

    def open_record(self, record: ConsumerRecord) -> ConsumerRecord:
        """The record with its value in the clear; one that was never encrypted as it is."""
        header = next((value for name, value in record.headers if name == HEADER), None)
        if header is None or record.value is None:
            return record
        try:
            value = self.open(record.key, bytes(record.value), bytes(header))
        except KeyUnavailable as error:
            place = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise UnreadableAnswer(f"A value of {place} cannot be decrypted: {error}") from None
        return record._replace(value=value)

    def open(self, key: bytes | None, sealed: bytes, header: bytes) -> bytes | None:
        """None if the record's key was forgotten."""
        from cryptography.exceptions import InvalidTag

        cipher = self._cipher_of(key, header)
        if cipher is None:
            return None
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], header + (key or b""))
        except (InvalidTag, ValueError):
            raise KeyUnavailable("it is not what was written under this key.") from None

    def _current(self) -> Sealing:
        with self._lock:
            now = time.monotonic()
            if self._sealing is None or self._left == 0 or now > self._sealed_until:
                data_key = os.urandom(KEY_BYTES)
                key_id, wrapped = self._keys.wrap(data_key)
                named = key_id.encode()
                self._sealing = Sealing(_cipher(data_key), WRAPPED + bytes((len(named),)) + named + wrapped)
                self._left, self._sealed_until = DATA_KEY_RECORDS, now + DATA_KEY_S
            self._left -= 1
            return self._sealing

    def _own(self, record_keys: RecordKeys, key: bytes) -> Sealing:
        number, data_key = record_keys.for_writing(key)
        return Sealing(_cipher(data_key), SHREDDABLE + number)

    def _cipher_of(self, key: bytes | None, header: bytes) -> AESGCM | None:
        if header.startswith(SHREDDABLE):
            if self._record_keys is None:
                raise KeyUnavailable(f"{SHRED_TOPIC} is not set, and its key is there.")
            data_key = self._record_keys.find(key or b"", header[len(SHREDDABLE) :])
            return None if data_key is None else _cipher(data_key)
        if not header.startswith(WRAPPED) or len(header) < 4:
            raise KeyUnavailable("its envelope is of a kind that is not known.")
        with self._lock:
            known = self._opening.get(header)
            if known is None:
                length = header[2]
                named = header[3 : 3 + length].decode(errors="replace")
                known = self._opening[header] = _cipher(self._keys.unwrap(named, header[3 + length :]))
                if len(self._opening) > REMEMBERED_MAX:
                    self._opening.popitem(last=False)
            return known

    def close(self) -> None:
        if self._record_keys is not None:
            self._record_keys.close()


def _cipher(data_key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(data_key)


def open_encryption(settings: ClientSettings) -> Encryption:
    properties = settings.properties
    if not properties.get(KEYS, "").strip():
        raise InvalidSetting(KEYS, f"is missing, and {TOPICS} is set: file:PATH or command:PROGRAM.")
    keys = open_keys(properties[KEYS].strip())
    record_keys = None
    if topic := properties.get(SHRED_TOPIC, "").strip():
        from barnabas.client.encryption.shredding import RecordKeys

        record_keys = RecordKeys(settings, topic, keys)
    return Encryption(list(listed(properties, TOPICS)), keys, record_keys)
