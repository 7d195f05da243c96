"""Many rows into PostgreSQL by COPY, in the transaction that is open.

Rows that may be there already are copied into a temporary table, and one statement takes them over from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table

from barnabas.pipelines.connect.errors import ConnectError, RetriableError

COPY_ROWS = 50  # fewer are sent as they are
STAGE = "barnabas_connect_copy"


def copy_rows(connection: Connection, target: Table, rows: Sequence[dict[str, Any]], upsert: Any = None) -> None:
    """All rows have the same columns. `upsert` is a statement that tells what happens to rows that are there."""
    quoted: Any = connection.dialect.identifier_preparer
    columns = ", ".join(quoted.quote(each) for each in rows[0])
    place = quoted.format_table(target)
    if upsert is None:
        _copy(connection, f"COPY {place} ({columns}) FROM STDIN", rows)
        return
    staged = f"CREATE TEMP TABLE {STAGE} ON COMMIT DROP AS SELECT {columns} FROM {place} WITH NO DATA"
    connection.exec_driver_sql(staged)
    _copy(connection, f"COPY {STAGE} ({columns}) FROM STDIN", rows)
    conflict = str(upsert.compile(dialect=connection.dialect)).partition(" ON CONFLICT ")[2]
    taken = f"INSERT INTO {place} ({columns}) SELECT {columns} FROM {STAGE} ON CONFLICT {conflict}"
    connection.exec_driver_sql(taken)
    connection.exec_driver_sql(f"DROP TABLE {STAGE}")


def _copy(connection: Connection, statement: str, rows: Sequence[dict[str, Any]]) -> None:
    import psycopg

    connection.exec_driver_sql("SELECT 1")  # so that SQLAlchemy knows of the transaction
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(list(row.values()))
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise RetriableError(f"the database answers: {str(error).strip()}") from error
    except psycopg.Error as error:
        raise ConnectError(f"the database refuses: {str(error).strip()}") from error
