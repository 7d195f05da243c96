import pytest

from barnabas.core.controller.topic_names import can_collide, name_error, named_twice, unified


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "x" * 249, "...", "__consumer_offsets", "-"])
def test_letters_digits_dot_underscore_and_dash_up_to_249_are_a_name(name: str) -> None:
    assert name_error(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        *(
            (name, f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
            for name in ("a b", "a/b", "ä", "a\n", "a:b", "\0")
        ),
    ],
)
def test_anything_else_is_none_and_the_reason_is_kafkas(name: str, why: str) -> None:
    assert name_error(name) == f"Topic name is invalid: {why}"


def test_dot_and_underscore_are_alike() -> None:
    assert unified("a.b_c") == unified("a_b.c") == "a_b_c"
    assert can_collide("a.b")
    assert can_collide("a_b")
    assert not can_collide("a-b")


def test_names_given_twice_are_found_in_order() -> None:
    assert list(named_twice(["c", "a", "b", "a", "c", "a", "d"])) == ["a", "c"]
