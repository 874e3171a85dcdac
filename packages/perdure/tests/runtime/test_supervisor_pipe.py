"""The line between a supervisor and its workers: hints that survive anything, and its end."""

from __future__ import annotations

import socket

import pytest

from perdure.runtime.supervisor_pipe import LINE_MAX_BYTES, SupervisorPipe


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    first = SupervisorPipe(one)
    yield first, other
    first.close()
    other.close()


def test_what_is_said_is_heard_whole(ends):
    line, other = ends
    other.send(b'{"ready": "a"}\n{"susp')
    assert line.hear() == [{"ready": "a"}]
    other.send(b'ects": 2}\n')
    assert line.hear() == [{"suspects": 2}]
    assert line.hear() == []
    assert not line.over


def test_what_is_no_such_line_is_left_out(ends):
    line, other = ends
    other.send(b'[1]\n\xff\n"x"\n{"dead": "b"}\n')
    assert line.hear() == [{"dead": "b"}]


def test_a_line_without_an_end_does_not_grow_for_ever(ends):
    line, other = ends
    other.settimeout(0)
    for _ in range(40):
        other.send(b"x" * 10_000)
        line.hear()
    assert len(line._rest) <= LINE_MAX_BYTES


def test_the_end_of_the_other_is_noticed_and_speaking_to_it_does_nothing(ends):
    line, other = ends
    other.close()
    assert line.hear() == []
    assert line.over
    line.say(dead="a")
