"""What can go wrong between a record and its schema.

ClientError
├── SerdeError               bytes that are not of the schema, or an object that does not fit it
├── RegistryRefused          the registry's answer is an error; its code is in `code`
└── RegistryUnreachable      no registry answers
"""

from __future__ import annotations

from barnabas.client.errors import ClientError


class SerdeError(ClientError, ValueError):
    pass


class RegistryRefused(ClientError):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (error code {code})")
        self.status = status
        self.code = code
        self.message = message


class RegistryUnreachable(ClientError):
    pass
