from __future__ import annotations

from pathlib import Path

from barnabas.node.storage.directory.files import FileHandles, PooledFile
from barnabas.node.storage.segment.txn_index import AbortedTransaction, TransactionIndex


def index_at(path: Path, *, exists: bool) -> TransactionIndex:
    return TransactionIndex(PooledFile(FileHandles(), str(path), "0.txnindex"), exists=exists)


def test_aborted_transactions_are_kept_in_kafka_s_format_and_found_by_range(tmp_path: Path) -> None:
    index = index_at(tmp_path, exists=False)
    aborted = [AbortedTransaction(1, 0, 10, 11), AbortedTransaction(2, 5, 20, 16), AbortedTransaction(3, 30, 40, 41)]
    assert not index.exists
    assert index.collect(0, 100) == ([], False)
    for each in aborted:
        index.append(each)
    again = index_at(tmp_path, exists=True)
    assert again.entries() == aborted
    content = (tmp_path / "0.txnindex").read_bytes()
    assert content[:34] == bytes(2) + bytes.fromhex("00000000000000010000000000000000000000000000000a000000000000000b")
    assert again.collect(11, 30) == ([aborted[1]], True)
    assert again.collect(0, 12) == (aborted[:2], True)
    assert again.collect(25, 100) == ([aborted[2]], False)
    again.truncate_to(20)
    assert index_at(tmp_path, exists=True).entries() == aborted[:1]
