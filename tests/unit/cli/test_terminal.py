from barnabas.cli.terminal import ProgressBar, cut, printable


def test_what_moves_the_cursor_is_shown_and_not_done() -> None:
    assert printable(b"a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert printable("äß€".encode()) == "äß€"
    assert printable(b"\xff\x00ok") == "\\xff\\x00ok"


def test_a_line_is_cut_to_the_width_of_the_terminal() -> None:
    assert (cut("abcdef", 6), cut("abcdef", 4)) == ("abcdef", "abc…")


def test_a_bar_tells_how_much_how_fast_and_how_long_yet() -> None:
    bar = ProgressBar(2000, "records")
    assert bar.line(500, 0.5) == f"{'█' * 6}{'░' * 18}  25%  500 of 2,000 records, 1,000/s, 2 s left"
    assert bar.line(2000, 2.0).startswith(f"{'█' * 24} 100%  2,000 of 2,000")
