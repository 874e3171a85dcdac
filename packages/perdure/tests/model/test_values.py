"""Values: every one comes back as it was, bad ones are refused with their path, the format never changes."""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import decimal
import enum
import hashlib
import inspect
import json
import math
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Error, Invalid, TooLarge
from perdure.model import registered_types, values
from perdure.model.limits import INLINE_MAX_BYTES, VALUE_MAX_BYTES, VALUE_MAX_DEPTH
from perdure.model.registered_types import INT_MAX, INT_MIN, Unregistered, registered
from perdure.model.values import decode, digest, encode, from_plain, step, to_plain


@registered("test-values-point", version=2)
@dataclasses.dataclass(frozen=True)
class Point:
    x: object
    y: object = None


OFFSETS = st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(timezone)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
KEYS = TEXT | st.sampled_from(["$", "$ref", "a", "type", "bytes"])
NAMES = st.sampled_from(["nobody-knows", "test values/odd", "os.system"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63, 2**63 - 1, -(2**63), -(2**63) - 1, 2**64]),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.binary(max_size=20),
    st.datetimes(timezones=OFFSETS | st.just(UTC)),
    st.dates(),
    st.times() | st.times(timezones=OFFSETS),
    st.timedeltas(),
    st.decimals(allow_nan=False, allow_infinity=False)
    | st.sampled_from([Decimal("-0"), Decimal("1E+3"), Decimal("0E-9")]),
    st.uuids(),
)


def containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    fields = st.dictionaries(KEYS, inner, max_size=4)
    return st.one_of(
        st.lists(inner, max_size=12),
        st.lists(inner, max_size=4).map(tuple),
        fields,
        inner.map(lambda value: {"$": value}),
        st.tuples(st.sampled_from(["$", "bytes", "int", "tuple", "type", "??"]), inner).map(lambda p: {"$": list(p)}),
        st.builds(Point, inner, inner),
        st.builds(Unregistered, NAMES, st.integers(1, 9), fields),
    )


VALUES = st.recursive(SCALARS, containers, max_leaves=20)


def exact(value: object, *, verbatim: bool = False) -> object:
    """A form that tells apart what Python calls equal: 1, True and 1.0; 0.0 and -0.0; two offsets.

    Inside a type that nobody registered, registered ones stay as they were stored, too.
    """
    if type(value) is Point and verbatim:
        value = Unregistered("test-values-point", 2, {"x": value.x, "y": value.y})
    if type(value) is dict:
        return ("dict", [(key, exact(item, verbatim=verbatim)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return (type(value), [exact(item, verbatim=verbatim) for item in value])
    if type(value) is Point:
        return ("point", exact(value.x), exact(value.y))
    if type(value) is Unregistered:
        return ("unregistered", value.name, value.version, exact(value.fields, verbatim=True))
    if isinstance(value, datetime | time):
        return (type(value), value.replace(tzinfo=None, fold=0), value.utcoffset())
    if type(value) is float or type(value) is Decimal:
        return (type(value), str(value))
    return (type(value), value)


# --- round trip -----------------------------------------------------------------------------------


@given(VALUES)
def test_every_value_comes_back_exactly(value: object) -> None:
    assert exact(decode(encode(value))) == exact(value)
    assert exact(from_plain(to_plain(value))) == exact(value)


@given(VALUES)
def test_written_again_it_gives_the_same_bytes(value: object) -> None:
    data = encode(value)
    assert encode(decode(data)) == data
    assert digest(decode(data)) == digest(value)


@given(VALUES)
def test_a_plain_tree_holds_only_json(value: object) -> None:
    def check(tree: object) -> None:
        assert type(tree) in {dict, list, str, int, float, bool, type(None)}
        for item in tree.values() if type(tree) is dict else tree if type(tree) is list else ():
            check(item)

    check(to_plain(value))


def test_control_without_the_escape_a_dict_that_looks_like_a_tag_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = {"$": ["bytes", "aGk="]}
    assert decode(encode(looks)) == looks
    monkeypatch.setattr(values._Writer, "visit", lambda self, value, depth: value)
    assert decode(encode(looks)) == b"hi"


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1024,
        "é" * 100,
        {"a": 1, "b": [1.5, None, True, {"c": "d"}]},
        list(range(1000)),
        [],
        {},
        {"$": 1, "b": 2},
    ],
    ids=lambda v: str(v)[:12],
)
def test_what_needs_no_tag_is_not_copied(value: object) -> None:
    assert to_plain(value) is value
    assert from_plain(value) is value  # pyright: ignore[reportArgumentType]


def test_what_needs_a_tag_leaves_the_callers_object_alone() -> None:
    value = {"a": [1, (2,)], "b": {"$": 1}}
    tree = to_plain(value)
    assert value == {"a": [1, (2,)], "b": {"$": 1}}
    kept = json.dumps(tree)
    from_plain(tree)
    assert json.dumps(tree) == kept


def test_a_whole_number_of_any_length_comes_back() -> None:
    for value in (10**5000, -(10**5000)):  # Python itself refuses to show so many decimal digits
        assert decode(encode(value)) - value == 0


@given(st.timedeltas(timedelta(seconds=-2), timedelta(seconds=2)))
def test_offsets_of_less_than_a_second_come_back(offset: timedelta) -> None:
    for value in (datetime(2024, 1, 1, tzinfo=timezone(offset)), time(1, tzinfo=timezone(offset))):
        assert exact(decode(encode(value))) == exact(value)


def test_the_thread_s_decimal_context_changes_nothing() -> None:
    with decimal.localcontext() as context:
        context.prec, context.capitals = 2, 0
        assert encode(Decimal("1.23456E+20")) == b'{"$":["decimal","1.23456E+20"]}'
        assert str(decode(b'{"$":["decimal","1.23456E+20"]}')).upper() == "1.23456E+20"


# --- the format: this list can grow, but no line of it can ever change ----------------------------

BERLIN = timezone(timedelta(hours=2))
GOLDEN: list[tuple[object, bytes]] = [
    (None, b"null"),
    (True, b"true"),
    (-(2**63), b"-9223372036854775808"),
    (2**63 - 1, b"9223372036854775807"),
    (0.1, b"0.1"),
    (-0.0, b"-0.0"),
    (1.0, b"1.0"),
    (1e16, b"1e16"),
    (1e-7, b"1e-7"),
    (1.7976931348623157e308, b"1.7976931348623157e308"),
    ('é"\\\n\x7f', b'"\xc3\xa9\\"\\\\\\n\x7f"'),
    ({"b": 1, "a": [2]}, b'{"b":1,"a":[2]}'),
    ({"$": 1}, b'{"$":["$",1]}'),
    ({"$": ["bytes", ""]}, b'{"$":["$",["bytes",""]]}'),
    ({"$": {"$": None}}, b'{"$":["$",{"$":["$",null]}]}'),
    ({"$": 1, "a": 2}, b'{"$":1,"a":2}'),
    (b"\x00hi\xff", b'{"$":["bytes","AGhp/w=="]}'),
    (date(2024, 2, 29), b'{"$":["date","2024-02-29"]}'),
    (datetime(2024, 2, 29, 12, 30, tzinfo=UTC), b'{"$":["datetime","2024-02-29T12:30:00.000000+00:00"]}'),
    (datetime(1, 1, 1, 0, 0, 0, 7, BERLIN), b'{"$":["datetime","0001-01-01T00:00:00.000007+02:00"]}'),
    (
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=-1, microseconds=5))),
        b'{"$":["datetime","2024-01-01T00:00:00.000000-00:00:00.999995"]}',
    ),
    (Decimal("1.50"), b'{"$":["decimal","1.50"]}'),
    (Decimal("-0E+3"), b'{"$":["decimal","-0E+3"]}'),
    (2**63, b'{"$":["int","8000000000000000"]}'),
    (-(2**63) - 1, b'{"$":["int","-8000000000000001"]}'),
    (time(12, 30), b'{"$":["time","12:30:00.000000"]}'),
    (time(12, 30, 0, 1, BERLIN), b'{"$":["time","12:30:00.000001+02:00"]}'),
    (timedelta(days=1, microseconds=1), b'{"$":["timedelta","86400.000001"]}'),
    (timedelta(microseconds=-1), b'{"$":["timedelta","-0.000001"]}'),
    ((), b'{"$":["tuple",[]]}'),
    ((1, (b"",)), b'{"$":["tuple",[1,{"$":["tuple",[{"$":["bytes",""]}]]}]]}'),
    (Point(1, "b"), b'{"$":["type",["test-values-point",2,{"x":1,"y":"b"}]]}'),
    (Unregistered("gone", 7, {"$": (1,)}), b'{"$":["type",["gone",7,{"$":{"$":["tuple",[1]]}}]]}'),
    (
        uuid.UUID("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"),
        b'{"$":["uuid","6ba7b810-9dad-11d1-80b4-00c04fd430c8"]}',
    ),
]


@pytest.mark.parametrize(("value", "data"), GOLDEN, ids=[str(i) for i in range(len(GOLDEN))])
def test_the_format_never_changes(value: object, data: bytes) -> None:
    assert encode(value) == data
    assert exact(decode(data)) == exact(value)


def test_the_format_guard_knows_every_tag() -> None:
    seen = {json.loads(data)["$"][0] for _, data in GOLDEN if data.startswith(b'{"$":["')}
    assert seen == {*registered_types.SCALAR_BY_TAG, "$", "tuple", "type"}


def test_digests_never_change() -> None:
    assert digest("hi").hex() == "f13ac8976e68ad12a62ccea7c81b6cafe85e319d297d3697728c38e50245880f"
    assert (
        digest([value for value, _ in GOLDEN]).hex()
        == "0a9dfa542fcac10aec0fddfcf3871a21363ac32301412907fd2392ff71d80024"
    )


# --- digest ---------------------------------------------------------------------------------------


def test_the_order_of_keys_does_not_change_the_digest() -> None:
    one = {"a": 1, "b": {"c": (1, {"x": 1, "y": b""}), "d": 2}}
    other = {"b": {"d": 2, "c": (1, {"y": b"", "x": 1})}, "a": 1}
    assert digest(one) == digest(other)
    assert encode(one) != encode(other)  # the control: plain encoding would tell them apart
    assert digest([1, 2]) != digest([2, 1])


CORPUS: list[object] = [
    *(
        {"a": 1},
        {"a": "1"},
        {"a": 1.0},
        {"a": True},
        {"a": None},
        {"a": [1]},
        {"a": (1,)},
        {"a": {}},
        {},
        {"b": 1},
    ),
    *([1], (1,), ["1"], [[1]], [], (), "", "1", 1, 1.0, True, False, None, 0, 0.0, -0.0, b"", b"1", "MQ=="),
    *(Decimal(1), Decimal("1.0"), Decimal("1E0"), 2**63, "8000000000000000", float(2**63)),
    *(
        date(2024, 1, 1),
        "2024-01-01",
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 2, tzinfo=BERLIN),
    ),
    *(time(0), timedelta(0), "0.000000", uuid.UUID(int=1), str(uuid.UUID(int=1))),
    *({"$": 1}, {"$": ["$", 1]}, {"$": ["bytes", ""]}, {"$": ["tuple", [1]]}, ["bytes", ""]),
    *(Point(1, 2), Point(2, 1), {"x": 1, "y": 2}, Unregistered("test-values-point", 3, {"x": 1, "y": 2})),
    *(Unregistered("a", 1, {}), Unregistered("a", 2, {}), Unregistered("b", 1, {})),
]


def test_different_values_have_different_digests() -> None:
    corpus = {repr(exact(value)): value for value in CORPUS}  # Decimal("1E0") is Decimal("1")
    assert len({digest(value) for value in corpus.values()}) == len(corpus) == len(CORPUS) - 1


@given(VALUES, VALUES)
def test_digests_agree_exactly_when_the_sorted_plain_forms_do(one: object, other: object) -> None:
    same = json.dumps(to_plain(one), sort_keys=True) == json.dumps(to_plain(other), sort_keys=True)
    assert (digest(one) == digest(other)) == same


BARE = [0, -1, INT_MAX, INT_MIN, True, None, "", "text", "\x7f", 'a "quoted" \\ text', "x" * INLINE_MAX_BYTES]
NOT_BARE = [INT_MAX + 1, 1.5, "ü", "x" * (INLINE_MAX_BYTES + 1), b"x", (1,), [[]], {"$": 1}, Decimal(1), [0] * 100]


@pytest.mark.parametrize("value", [*BARE, *NOT_BARE], ids=lambda value: repr(value)[:20])
def test_the_quick_look_through_arguments_gives_the_digest_of_the_walk(value: object) -> None:
    """Calls of plain scalars are not walked through: their digests are stored, and must not change by that."""
    for parts in (
        [value],
        [[value], {}],
        [[], {"name": value}],
        ["tool", {"$": value}],
        ["tool", {"ü": value, "a b": 1}],
    ):
        walked = json.dumps(to_plain(parts, from_store=True), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert digest(parts) == hashlib.sha256(b"perdure value 1\0" + walked.encode()).digest()


def test_the_quick_look_lets_nothing_pass_that_the_walk_refuses() -> None:
    class Name(str):
        __slots__ = ()

    for wrong in (
        "\0",
        "\ud800",
        float("nan"),
        Name("x"),
        Bare.ONE,
        Colour.RED,
        object(),
        {1: 2},
        {Name("a"): 1},
        {"\0": 1},
    ):
        for parts in ([wrong], [[wrong], {}], [[], {"name": wrong}]):
            with pytest.raises(Invalid):
                digest(parts)


def test_a_digest_is_not_the_hash_of_the_bytes_alone() -> None:
    assert digest("hi") != hashlib.sha256(encode("hi")).digest()


# --- refusals -------------------------------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


class Zone(tzinfo):
    """A zone whose offset depends on the date, as those of zoneinfo do."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return dt and timedelta(hours=1)


class Bare(enum.Enum):
    ONE = 1


class Dumped:
    """As pydantic's are."""

    def model_dump(self) -> dict[str, int]:
        return {}


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024

BAD: list[tuple[object, str, str]] = [
    ({"items": [1, 2, 3, {"price": math.nan}]}, "value.items[3].price", "nan"),
    ([math.inf], "value[0]", "inf"),
    ([1.0] * 20 + [-math.inf], "value[20]", "inf"),
    ({"a": "x\ud800"}, "value.a", "lone surrogate at character 1"),
    ({"a": {"\udfff": 1}}, 'value.a["\\udfff"]', "lone surrogate"),
    ({"a": ["b\0"]}, "value.a[0]", "NUL at character 1"),
    ({"a\0b": 1}, 'value["a\\u0000b"]', "NUL"),
    ({"a": {1: 2}}, "value.a", "keys must be text, got int"),
    ({"a": {Colour.RED: 2}}, "value.a", "keys must be text, got Colour"),
    ({None: 1}, "value", "keys must be text, got NoneType"),
    ({"odd key": {"é": {1}}}, 'value["odd key"]["é"]', "sorted list"),
    (("x", frozenset()), "value[1]", "sorted list"),
    ([bytearray(b"x")], "value[0]", "bytes("),
    ({"$": {"b": object()}}, 'value["$"].b', "@perdure.registered"),
    (Point(1, [object()]), "value.y[0]", "builtins.object"),
    (Unregistered("a", 1, {"f": object()}), "value.f", "registered"),
    (Unregistered("", 1, {}), "value", "empty"),
    (Unregistered("a", 0, {}), "value", "version"),
    (Unregistered("a", 1, []), "value", "fields"),  # pyright: ignore[reportArgumentType]
    ([Colour.RED], "value[0]", "subclass of str"),
    ([collections.OrderedDict()], "value[0]", "subclass of dict"),
    ([Pair(1, 2)], "value[0]", "subclass of tuple"),
    ([lambda: 1], "value[0]", "function"),
    ([Path("a")], "value[0]", "use str("),
    ([Bare.ONE], "value[0]", "its value or its name"),
    ([range(3)], "value[0]", "use list("),
    ([ValueError("no")], "value[0]", "use its text"),
    ([array.array("d", [1.0])], "value[0]", "give its tolist()"),
    ([Dumped()], "value[0]", "give its model_dump()"),
    ([int], "value[0]", "builtins.type"),
    ([1j], "value[0]", "complex"),
    ([datetime(2024, 1, 1)], "value[0]", "without an offset"),  # noqa: DTZ001
    ([time(1, tzinfo=Zone())], "value[0]", "depends on the date"),
    ([Decimal("NaN")], "value[0]", "NaN"),
    ([Decimal("sNaN")], "value[0]", "sNaN"),
    ([Decimal("-Infinity")], "value[0]", "Infinity"),
]


def test_who_forgot_to_await_is_told_so() -> None:
    async def later() -> int:
        return 1

    forgotten = later()
    with contextlib.closing(forgotten), pytest.raises(Invalid, match="an await is missing"):
        to_plain({"a": forgotten})


@pytest.mark.parametrize(("value", "path", "says"), BAD, ids=[str(i) for i in range(len(BAD))])
@pytest.mark.parametrize("function", [to_plain, encode, digest])
def test_a_bad_value_is_refused_with_its_path(
    function: Callable[[object], object], value: object, path: str, says: str
) -> None:
    with pytest.raises(Invalid) as caught:
        function(value)
    assert caught.value.path == path
    assert says in str(caught.value)


def test_the_path_starts_where_the_caller_says() -> None:
    with pytest.raises(Invalid) as caught:
        encode([{1}], "session.checkpoint.state")
    assert caught.value.path == "session.checkpoint.state[0]"


def test_control_a_good_value_beside_a_bad_one_is_accepted() -> None:
    assert to_plain({"items": [1, 2, 3, {"price": 1.5}]}) == {"items": [1, 2, 3, {"price": 1.5}]}


def nested(depth: int, wrap: Any = list) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"$": value} if wrap is dict else Point(value) if wrap is Point else wrap([value])
    return value


@pytest.mark.parametrize("wrap", [list, tuple, dict, Point])
def test_depth_has_a_limit_and_what_is_within_it_comes_back(wrap: type) -> None:
    deep = nested(VALUE_MAX_DEPTH, wrap)
    data = encode(deep)
    assert exact(decode(data)) == exact(deep)
    with pytest.raises(TooLarge, match="100 deep"):
        encode(nested(VALUE_MAX_DEPTH + 1, wrap))


def test_a_cycle_is_found_and_its_path_is_shown() -> None:
    cycle: dict[str, object] = {}
    cycle["me"] = [cycle]
    with pytest.raises(TooLarge) as caught:
        to_plain(cycle)
    assert caught.value.path.startswith("value.me[0].me[0].me[0]")
    assert caught.value.path.endswith(".me[0].me[0].me[0]")
    assert "…" in caught.value.path
    assert len(caught.value.path) <= len("value") + values.PATH_MAX_CHARS + 1
    assert "contains itself" in str(caught.value)


def test_a_value_that_is_shared_a_million_million_times_is_refused_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values, "VALUE_MAX_BYTES", 10_000)
    value: object = "x"
    for _ in range(40):
        value = [value, value]
    with pytest.raises(TooLarge):
        to_plain(value)


@pytest.mark.parametrize("path", ["value", "value.a[1]"])
def test_a_huge_text_is_refused_without_being_encoded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "VALUE_MAX_BYTES", 1000)
    monkeypatch.setattr(values, "_check_text", lambda _: pytest.fail("it was looked at"))
    huge = "é" * 1001
    with pytest.raises(TooLarge) as caught:
        to_plain(huge if path == "value" else {"a": [1, huge]})
    assert caught.value.path == path
    assert "artifact" in str(caught.value)


def test_the_real_limit_holds_for_text_bytes_and_many_small_things() -> None:
    too_much = VALUE_MAX_BYTES + 1
    for value, path in (
        (["x" * too_much], "value[0]"),
        ([bytes(too_much)], "value[0]"),
        ([[0] * 1000] * (too_much // 1000), "value"),
        ({"a": ["x" * (too_much // 2), "x" * (too_much // 2), "yy"]}, "value.a[1]"),
    ):
        with pytest.raises(TooLarge) as caught:
            to_plain(value)
        assert caught.value.path.startswith(path)


def test_the_exact_size_is_checked_after_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "VALUE_MAX_BYTES", 100)
    assert len(encode("x" * 98)) == 100
    for value in ("x" * 99, "\n" * 60, "é" * 60):
        with pytest.raises(TooLarge):
            encode(value)
    with pytest.raises(TooLarge):
        decode(b'"' + b"x" * 99 + b'"')


@given(VALUES)
def test_the_early_count_is_never_more_than_the_encoded_size(value: object) -> None:
    for walk, tree in ((values._Writer(), value), (values._Reader(), to_plain(value))):
        walk.walk(tree, "value")
        assert walk.size <= len(encode(value))


def test_steps_of_a_path() -> None:
    assert [step(key) for key in ("a", "_b1", "1a", "", 'q"', "é", "a\nb")] == [
        *(".a", "._b1", '["1a"]', '[""]', '["q\\""]', '["é"]', '["a\\nb"]')
    ]
    assert len(step("x" * 10_000)) < 100
    assert step(5) == ""


# --- reading what is not ours ---------------------------------------------------------------------

MALFORMED: list[tuple[bytes, str, str]] = [
    (b"", "value", "not JSON"),
    (b"nul", "value", "not JSON"),
    (b"NaN", "value", "not JSON"),
    (b"1e999", "value", "not JSON"),
    (b"1 2", "value", "trailing"),
    (b'"\xff"', "value", "not JSON"),
    (b'"\\ud800"', "value", "not JSON"),
    (b'["\\u0000"]', "value[0]", "NUL"),
    (b'{"a\\u0000":1}', 'value["a\\u0000"]', "NUL"),
    (b'{"a":1,"a":2}', "value", "the key .a occurs twice"),
    (b'[{"b":{"a":1,"\\u0061":1}}]', "value", "occurs twice"),
    (b'{"$":["bytes",""],"$":["bytes","aGk="]}', "value", "occurs twice"),
    (b"9223372036854775808", "value", "past 64 bits"),
    (b"[" * 1_000_000, "value", "deep"),
    (b"[" * 200 + b"]" * 200, "value" + "[0]" * 20 + "…" + "[0]" * 20, "deep"),
    (b'{"$":1}', "value", "malformed tag"),
    (b'[{"$":[]}]', "value[0]", "malformed tag"),
    (b'{"$":["bytes"]}', "value", "malformed tag"),
    (b'{"$":["bytes","",1]}', "value", "malformed tag"),
    (b'{"$":[1,2]}', "value", "malformed tag"),
    (b'{"a":{"$":["os.system","ls"]}}', "value.a", "unknown tag 'os.system'"),
    (b'{"$":["bytes",1]}', "value", "'bytes'"),
    (b'{"$":["bytes","aGk"]}', "value", "'bytes'"),
    (b'{"$":["bytes","aG k="]}', "value", "'bytes'"),
    (b'{"$":["bytes","aGl="]}', "value", "'bytes'"),
    (b'{"$":["bytes","\xc3\xa9"]}', "value", "'bytes'"),
    (b'{"$":["date","2024-02-30"]}', "value", "'date'"),
    (b'{"$":["date","20240229"]}', "value", "'date'"),
    (b'{"$":["datetime","2024-02-29T12:30:00.000000"]}', "value", "'datetime'"),
    (b'{"$":["datetime","2024-02-29T12:30:00+00:00"]}', "value", "'datetime'"),
    (b'{"$":["datetime","2024-02-29T12:30:00.000000Z"]}', "value", "'datetime'"),
    (b'{"$":["time","25:00:00.000000"]}', "value", "'time'"),
    (b'{"$":["timedelta","1"]}', "value", "'timedelta'"),
    (b'{"$":["timedelta","-0.000000"]}', "value", "'timedelta'"),
    (b'{"$":["timedelta","99999999999999999999.000000"]}', "value", "'timedelta'"),
    (b'{"$":["decimal","NaN"]}', "value", "'decimal'"),
    (b'{"$":["decimal","1_0"]}', "value", "'decimal'"),
    (b'{"$":["decimal","1e3"]}', "value", "'decimal'"),
    (b'{"$":["decimal","1E+9999999999999999999"]}', "value", "'decimal'"),
    (b'{"$":["int","7f"]}', "value", "'int'"),
    (b'{"$":["int","0x8000000000000000"]}', "value", "'int'"),
    (b'{"$":["int","FFFFFFFFFFFFFFFF"]}', "value", "'int'"),
    (b'{"$":["uuid","6BA7B810-9DAD-11D1-80B4-00C04FD430C8"]}', "value", "'uuid'"),
    (b'{"$":["tuple",{}]}', "value", "'tuple'"),
    (b'{"$":["tuple",[1,{"$":2}]]}', "value[1]", "malformed tag"),
    (b'{"$":["$",{"$":2}]}', 'value["$"]', "malformed tag"),
    (b'{"$":["type",{}]}', "value", "'type'"),
    (b'{"$":["type",["a",1]]}', "value", "malformed type"),
    (b'{"$":["type",["a",1,[]]]}', "value", "malformed type"),
    (b'{"$":["type",["a",true,{}]]}', "value", "version"),
    (b'{"$":["type",["a",0,{}]]}', "value", "version"),
    (b'{"$":["type",["",1,{}]]}', "value", "empty"),
    (b'{"$":["type",[[],1,{}]]}', "value", "expected text"),
    (b'{"$":["type",["a",1,{"f":{"$":0}}]]}', "value.f", "malformed tag"),
    (b'{"$":["type",["test-values-point",2,{"y":1}]]}', "value.x", "missing"),
]


@pytest.mark.parametrize(("data", "path", "says"), MALFORMED, ids=[str(i) for i in range(len(MALFORMED))])
def test_a_malformed_document_is_refused_with_its_path(data: bytes, path: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        decode(data)
    assert caught.value.path == path
    assert says in str(caught.value)


def test_control_the_parser_alone_would_take_the_last_of_two_keys() -> None:
    assert msgspec.json.decode(b'{"a":1,"a":2}') == {"a": 2}


def test_white_space_and_other_escapes_are_read() -> None:
    assert decode(b' { "a" : [ 1.50e0 , "\\u0061" ] }\n') == {"a": [1.5, "a"]}
    assert decode(b'{"a": ' + b"1" * 19 + b"}") == {"a": int("1" * 19)}


@pytest.mark.parametrize("tree", [b"x", (1,), {1: 2}, [object()], math.nan, {"a": {"$": b""}}, [1] * 20 + [2**80]])
def test_a_tree_that_is_not_plain_is_refused(tree: object) -> None:
    with pytest.raises(Invalid):
        from_plain(tree)  # pyright: ignore[reportArgumentType]


def only_our_errors(data: bytes) -> None:
    try:
        value = decode(data)
    except Error:
        return
    assert exact(decode(encode(value))) == exact(value)  # whatever is accepted is a value


@given(st.binary(max_size=200) | st.text('[]{}"$:,\\0123456789.eE+-ntfa ', max_size=60).map(str.encode))
def test_random_bytes_give_only_our_errors(data: bytes) -> None:
    only_our_errors(data)


@given(VALUES, st.data())
def test_mutated_documents_give_only_our_errors(value: object, data: st.DataObject) -> None:
    document = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(document)))
        end = data.draw(st.integers(start, min(len(document), start + 3)))
        document[start:end] = data.draw(st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"0", b"-", b"$"]))
    only_our_errors(bytes(document))


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.tuples(st.sampled_from([*registered_types.SCALAR_BY_TAG, "$", "tuple"]), inner).map(
            lambda p: {"$": list(p)}
        ),
        st.tuples(
            st.sampled_from(["test-values-point", "x"]), inner, st.dictionaries(st.sampled_from("xyz"), inner)
        ).map(lambda p: {"$": ["type", list(p)]}),
    ),
    max_leaves=10,
)


@given(TREES)
def test_hostile_trees_give_only_our_errors(tree: values.Plain) -> None:
    try:
        value = from_plain(tree)
    except Error:
        return
    encode(value)


@pytest.mark.parametrize("function", [encode, decode, digest])
def test_a_deep_call_stack_gives_our_error(function: Callable[[object], object]) -> None:
    deep = nested(90)
    argument = encode(deep) if function is decode else deep

    def dive(levels: int) -> object:
        return dive(levels - 1) if levels else function(argument)

    left = sys.getrecursionlimit() - len(inspect.stack())
    assert dive(left - 300)  # the control: with room it works
    with pytest.raises(TooLarge, match="call stack"):
        dive(left - 60)
