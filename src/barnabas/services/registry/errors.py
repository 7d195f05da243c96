"""What the registry answers when it cannot do what it was asked: the status, the code and the text of Confluent's."""

from __future__ import annotations

from barnabas.web.errors import HttpError


class RegistryError(HttpError):
    pass


def not_found(code: int, message: str) -> RegistryError:
    return RegistryError(404, code, message)


def unprocessable(code: int, message: str) -> RegistryError:
    return RegistryError(422, code, message)


def subject_not_found(subject: str) -> RegistryError:
    return not_found(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return not_found(40402, f"Version {version} not found.")


def schema_not_found(which: object = None) -> RegistryError:
    return not_found(40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return not_found(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return not_found(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    text = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return not_found(40406, text)


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return not_found(40407, text)


def no_subject_config(subject: str) -> RegistryError:
    return not_found(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str) -> RegistryError:
    return not_found(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> RegistryError:
    text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
    return RegistryError(409, 409, f"{text}[{', '.join(details)}]")


def invalid_schema(message: str) -> RegistryError:
    return unprocessable(42201, message)


def invalid_version(version: str) -> RegistryError:
    text = f"The specified version '{version}' is not a valid version id. "
    return unprocessable(42202, text + 'Allowed values are between [1, 2^31-1] and the string "latest"')


def invalid_level() -> RegistryError:
    text = "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
    return unprocessable(42203, text + "forward_transitive, and full_transitive")


def invalid_mode() -> RegistryError:
    return unprocessable(42204, "Invalid mode. Valid values are READWRITE, READONLY, and IMPORT.")


def not_permitted(message: str) -> RegistryError:
    return unprocessable(42205, message)


def reference_exists(subject: str, version: int) -> RegistryError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return unprocessable(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> RegistryError:
    return unprocessable(42208, f"The specified subject '{subject}' is not a valid.")


def schema_too_large() -> RegistryError:
    return unprocessable(42209, "Register operation failed because schema is too large")


def invalid_rule_set(message: str) -> RegistryError:
    return unprocessable(42210, message)


def context_not_empty(context: str) -> RegistryError:
    return unprocessable(42211, f"The specified context '{context}' is not empty.")


def store_failed(message: str) -> RegistryError:
    return RegistryError(500, 50001, message)


def timed_out(message: str) -> RegistryError:
    return RegistryError(500, 50002, message)


def forwarding_failed(message: str) -> RegistryError:
    return RegistryError(500, 50003, message)


def unknown_primary(message: str = "Leader not known.") -> RegistryError:
    return RegistryError(500, 50004, message)
