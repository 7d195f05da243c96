from __future__ import annotations

from collections.abc import Callable

from barnabas.streams import TopologyTestDriver


def test_a_show_goes_on_where_it_was_left_until_it_is_finished(driver: Callable[[str], TopologyTestDriver]) -> None:
    player = driver("resume_positions")
    at = iter(range(1000))

    def watch(user: str, show: str, seconds: float) -> None:
        position = {"show": show, "seconds": seconds, "length": 3000}
        player.pipe_input("show_position", user, position, timestamp_ms=next(at))

    watch("anna", "s1", 0)  # opened, not watched
    assert player.read_output("resume_positions") == []
    watch("anna", "s1", 10)
    watch("bert", "s1", 20)
    watch("anna", "s1", 754)
    watch("anna", "s7", 60)
    assert dict(player.read_output("resume_positions")) == {"anna": {"s1": 754, "s7": 60}, "bert": {"s1": 20}}

    player.restart()
    watch("anna", "s1", 300)  # wound back
    watch("anna", "s7", 2940)  # the credits
    assert player.read_output("resume_positions") == [("anna", {"s1": 300})]
    assert player.store("resume-positions").get("anna") == {"s1": 300}
    watch("anna", "s1", 3000)
    assert player.read_output("resume_positions") == [("anna", None)]
    assert dict(player.store("resume-positions").all()) == {"bert": {"s1": 20}}
