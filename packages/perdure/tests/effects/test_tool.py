"""Tools: what a declaration may say, and what it is refused for, at once."""

from __future__ import annotations

import pytest

from perdure.effects.tool import as_tool, digest_of, digest_of_parts, tool
from perdure.errors import Invalid
from perdure.model.records.effects import Absent, ToolKind


def keyed(a, *, key): ...


def plain(a): ...


def keyed_by_position(key, /, a): ...


def keyed_by_rest(a, *key): ...


def keyed_by_names(a, **key): ...


def generator():
    yield 1


@pytest.mark.parametrize(
    ("fn", "declared", "path"),
    [
        (plain, {"kind": "keyed"}, "key"),
        (keyed_by_position, {"kind": "keyed"}, "key"),
        (keyed_by_rest, {"kind": "keyed"}, "key"),
        (keyed_by_names, {"kind": "keyed"}, "key"),
        (plain, {"kind": "probed"}, "probe"),
        (plain, {"kind": "safe"}, "kind"),
        (plain, {"kind": "unsafe", "probe": plain}, "kind"),
        (plain, {"probe": 7}, "probe"),
        (plain, {"retries": -1}, "retries"),
        (plain, {"retries": True}, "retries"),
        (plain, {"retries": 1_001}, "retries"),
        (plain, {"limit": 0}, "limit"),
        (plain, {"fails": [7]}, "fails"),
        (plain, {"fails": [KeyboardInterrupt]}, "fails"),
        (plain, {"timeout": "soon"}, "timeout"),
        (plain, {"timeout": -1}, "timeout"),
        (plain, {"lands_within": "x"}, "lands_within"),
        (plain, {"keeps_keys": "x"}, "keeps_keys"),
        (plain, {"backoff": "x"}, "backoff"),
        (plain, {"name": "a\0b"}, "name"),
        (generator, {}, "tool"),
        (7, {}, "tool"),
        (max, {}, "tool"),
        (plain, {"probe": max}, "probe"),
        (plain, {"undo": max}, "tool"),
        (plain, {"guards": 5}, "guards"),
        (plain, {"guards": [5]}, "guards"),
        (plain, {"guards": "ab"}, "guards"),
        (plain, {"nope": 1}, "nope"),
    ],
)
def test_what_contradicts_itself_is_refused_at_import(fn, declared, path):
    with pytest.raises(Invalid) as refused:
        tool(**declared)(fn)
    assert refused.value.path == path


def probe_with_key(a, b=1, *, key): ...


@pytest.mark.parametrize(
    ("fn", "probe", "says"),
    [
        (lambda a: ..., lambda: ..., "unexpected keyword argument 'a'"),
        (lambda a: ..., lambda a, repo: ..., "missing a required argument: 'repo'"),
        (lambda a, b=1: ..., lambda a: ..., "unexpected keyword argument 'b'"),
        (lambda a, b=1: ..., lambda a, b: ..., "missing a required argument: 'b'"),
        (lambda a, *, token: ..., lambda a, *, token: ..., "missing a required argument: 'token'"),
        (lambda *paths: ..., lambda: ..., "unexpected keyword argument 'paths'"),
    ],
)
def test_a_probe_that_could_not_be_asked_after_a_crash_is_refused_at_import(fn, probe, says):
    with pytest.raises(Invalid, match=says) as refused:
        tool(name="send", probe=probe)(fn)
    assert refused.value.path == "probe"


@pytest.mark.parametrize(
    ("fn", "probe"),
    [
        (keyed, plain),
        (plain, keyed),
        (lambda a, b=1: ..., probe_with_key),
        (lambda a, b=1: ..., lambda **given: ...),
        (lambda a, *paths, **rest: ..., lambda a, *paths, **rest: ...),
        (lambda a, /: ..., lambda a, /: ...),
    ],
)
def test_a_probe_takes_what_its_tool_takes_and_the_key_if_it_wants(fn, probe):
    assert tool(name="send", probe=probe)(fn).kind is ToolKind.PROBED


def test_what_a_tool_is_follows_from_what_it_says():
    assert as_tool(plain).kind is ToolKind.UNSAFE
    assert not as_tool(plain).declared
    assert tool(plain).kind is ToolKind.UNSAFE
    assert tool(probe=lambda a: Absent())(plain).kind is ToolKind.PROBED
    made = tool(kind="keyed", timeout=30, retries=3, undo=plain, lands_within=0)(keyed)
    assert (made.rule.timeout, made.rule.retries, made.rule.lands_within) == (30_000_000, 3, 0)
    assert (made.rule.undo, made.rule.undo_idempotent, made.takes) == ("keyed.undo", True, {"key"})
    assert as_tool(made) is made


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "bound"),
    [
        (lambda a, b=2: (a, b), (1,), {}, {"a": 1}),
        (lambda a, *rest: (a, rest), (1, 2, 3), {}, {"a": 1, "rest": [2, 3]}),
        (lambda a, /, **more: (a, more), (1,), {"x": 2}, {"a": 1, "more": {"x": 2}}),
        (lambda a, *rest, b=0: (a, rest, b), (1,), {"b": 4}, {"a": 1, "b": 4}),
    ],
)
def test_arguments_go_by_name_and_come_back_as_they_were_passed(fn, args, kwargs, bound):
    made = tool(name="t")(fn)
    assert made.bind(args, kwargs) == bound
    assert made.call(made.fn, bound) == fn(*args, **kwargs)


def test_what_the_ledger_hands_in_is_not_passed_by_hand():
    made = tool(kind="keyed")(keyed)
    assert made.bind((1,), {}) == {"a": 1}
    with pytest.raises(Invalid) as refused:
        made.bind((1,), {"key": "mine"})
    assert refused.value.path == "args.key"
    for wrong in ((), (1, 2)):
        with pytest.raises(Invalid):
            made.bind(wrong, {})


class Service:
    def send(self, text): ...


def test_a_method_is_declared_of_an_object_and_not_in_its_class():
    with pytest.raises(Invalid, match="its object would be missing"):
        tool(Service.send)
    assert tool(Service().send).bind(("hello",), {}) == {"text": "hello"}


def test_a_digest_says_which_argument_cannot_be_kept():
    assert digest_of("t", {"a": 1}) == digest_of_parts(tool="t", args={"a": 1})
    assert digest_of("t", {"a": 1}) != digest_of("t", {"a": 1.0})
    assert digest_of("t", {"a": 1}) != digest_of("u", {"a": 1})
    with pytest.raises(Invalid) as refused:
        digest_of("t", {"a": [1, object()]})
    assert refused.value.path == "args.a[1]"


def shown(*given, **named):
    return given, named


def two(a, b=2):
    return shown(a, b)


def handed_last(a, key):
    return shown(a, key)


def handed_first(key, a):
    return shown(a, key)


def handed_by_name(a, b=2, *, key, token):
    return shown(a, b, key, token)


def by_name_alone(a, *, b=2):
    return shown(a, b)


def by_place_alone(a, /, b):
    return shown(a, b)


def any_number(a, *rest, **more):
    return shown(a, *rest, **more)


@pytest.mark.parametrize(
    ("fn", "args", "bound", "gives"),
    [
        (two, (1,), {"a": 1}, shown(1, 2)),
        (two, (1, 5), {"a": 1, "b": 5}, shown(1, 5)),
        (handed_last, (1,), {"a": 1}, shown(1, "k")),
        (handed_by_name, (1, 5), {"a": 1, "b": 5}, shown(1, 5, "k", 7)),
        (by_name_alone, (1,), {"a": 1}, shown(1, 2)),
        (by_place_alone, (1, 5), {"a": 1, "b": 5}, shown(1, 5)),
        (any_number, (1, 5, 6), {"a": 1, "rest": [5, 6]}, shown(1, 5, 6)),
    ],
)
def test_a_function_gets_its_arguments_whatever_way_it_takes_them(fn, args, bound, gives):
    made = tool(kind="keyed" if fn is handed_last else "idempotent")(fn)
    assert made.bind(args, {}) == bound
    assert made.call(made.fn, bound, key="k", token=7) == gives


@pytest.mark.parametrize(("fn", "args"), [(two, ()), (two, (1, 2, 3)), (handed_first, (1,)), (by_name_alone, (1, 2))])
def test_arguments_that_do_not_fit_are_refused_by_their_number(fn, args):
    made = tool(kind="keyed" if fn is handed_first else "idempotent")(fn)
    with pytest.raises(Invalid):
        made.bind(args, {})
