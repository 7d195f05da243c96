from barnabas.core.transactions.records import record_of, tombstone_of
from barnabas.core.transactions.state import Transaction, TransactionState, transaction_of
from barnabas.wire.records.transactions import TransactionLogKey, TransactionLogValue

ONGOING = Transaction(
    "tx",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({("b", 1), ("a", 0), ("b", 0)}),
    started_ms=100,
    updated_ms=200,
    previous_producer_id=7,
    client_version=2,
)


def test_a_transaction_is_written_with_its_tagged_fields_in_version_1() -> None:
    key, value = record_of(ONGOING, transaction_version=2).encode()
    assert key == b"\x00\x00" + b"\x00\x02tx"
    assert value is not None
    expected = b"\x00\x01" + (7).to_bytes(8, "big") + b"\x00\x03" + (60_000).to_bytes(4, "big") + b"\x01"
    expected += b"\x03" + b"\x02a\x02\x00\x00\x00\x00\x00" + b"\x02b\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00"
    expected += (200).to_bytes(8, "big") + (100).to_bytes(8, "big")
    expected += b"\x02" + b"\x00\x08" + (7).to_bytes(8, "big") + b"\x02\x02\x00\x02"
    assert value == expected


def test_before_transaction_version_1_values_have_version_0() -> None:
    _, value = record_of(ONGOING, transaction_version=0).encode()
    assert value is not None
    assert value[:2] == b"\x00\x00"


def test_an_empty_transaction_has_null_for_its_partitions() -> None:
    record = record_of(Transaction("tx", 7, 0, 60_000), transaction_version=2)
    assert isinstance(record.value, TransactionLogValue)
    assert record.value.transaction_partitions is None


def test_what_is_written_is_read_again() -> None:
    record = record_of(ONGOING._replace(next_producer_id=9), transaction_version=2)
    assert isinstance(record.key, TransactionLogKey)
    assert isinstance(record.value, TransactionLogValue)
    assert transaction_of(record.key, record.value) == ONGOING._replace(next_producer_id=9)


def test_an_id_that_is_forgotten_leaves_a_tombstone() -> None:
    assert tombstone_of("tx").encode() == (b"\x00\x00\x00\x02tx", None)


def test_states_have_kafkas_names_and_numbers() -> None:
    assert {state.text: state.value for state in TransactionState} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }
