"""Registered types: old, new and unknown records live side by side, and nothing in them is lost or run."""

from __future__ import annotations

import copy
import dataclasses
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid
from perdure.model import registered_types, values
from perdure.model.registered_types import KeptFields, Unregistered, carry, kept, registered
from perdure.model.values import decode, digest, encode


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_types, "_BY_NAME", {})
    monkeypatch.setattr(registered_types, "_BY_CLASS", {})


def stored(name: str, version: int, **fields: Any) -> bytes:
    return encode(Unregistered(name, version, fields))


@dataclasses.dataclass
class Loose:
    total: Any
    note: Any = "none"


@dataclasses.dataclass(frozen=True)
class Frozen:
    total: Any
    note: Any = "none"


class Record(msgspec.Struct, frozen=True, dict=True):
    total: Any
    note: Any = "none"


class Plain:
    def __init__(self, total: Any, note: Any) -> None:
        self.total, self.note = total, note

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain and (self.total, self.note) == (other.total, other.note)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def to_state(self) -> dict[str, Any]:
        return self.__dict__

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Plain:
        return cls(state["total"], state.get("note", "none"))


every_form = pytest.mark.parametrize("cls", [Loose, Frozen, Record, Plain])


# --- reading and writing --------------------------------------------------------------------------


@every_form
def test_an_object_comes_back(cls: Any) -> None:
    registered("t", version=3)(cls)
    value = cls([cls(1, (b"x",))], None)
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(back.total[0]) is cls
    assert encode(cls(1, 2)) == b'{"$":["type",["t",3,{"total":1,"note":2}]]}'


@every_form
def test_a_missing_field_takes_its_default(cls: Any) -> None:
    registered("t")(cls)
    assert decode(stored("t", 1, total=1)) == cls(1, "none")


@pytest.mark.parametrize("cls", [Loose, Frozen, Record])
def test_a_missing_field_without_a_default_is_named(cls: Any) -> None:
    registered("t")(cls)
    with pytest.raises(Invalid, match="no default") as caught:
        decode(encode({"a": [Unregistered("t", 1, {"note": 1})]}))
    assert caught.value.path == "value.a[0].total"


@every_form
def test_unknown_fields_ride_along_and_are_written_back(cls: Any) -> None:
    registered("t", version=2)(cls)
    data = stored("t", 2, total=1, note=2, extra=(1,), more={"$": 1})
    value = decode(data)
    assert value == cls(1, 2)
    assert kept(value) == KeptFields(2, {"extra": (1,), "more": {"$": 1}})
    assert encode(value) == data
    assert decode(encode(value)) == value


@every_form
def test_control_without_what_is_kept_the_unknown_fields_are_lost(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registered("t")(cls)
    value = decode(stored("t", 1, total=1, note=2, extra=3))
    assert b"extra" in encode(value)
    monkeypatch.setattr(registered_types, "kept", lambda _: None)
    assert b"extra" not in encode(value)


@every_form
def test_a_newer_version_is_read_and_never_written_as_an_older_one(cls: Any) -> None:
    registered("t", version=2)(cls)
    data = stored("t", 5, total=1, note=2, extra=3)
    value = decode(data)
    assert value == cls(1, 2)
    assert encode(value) == data
    assert encode(decode(stored("t", 5, total=1, note=2))) == stored("t", 5, total=1, note=2)


def test_a_newer_version_whose_fields_do_not_fit_is_refused() -> None:
    registered("t", version=2)(Frozen)
    with pytest.raises(Invalid) as caught:
        decode(stored("t", 3, sum=1))
    assert caught.value.path == "value.total"


def test_a_change_of_a_known_field_is_written_with_the_unknown_ones() -> None:
    registered("t")(Loose)
    value = decode(stored("t", 1, total=1, note=2, extra=3))
    value.total = 9
    assert encode(value) == stored("t", 1, total=9, note=2, extra=3)


def test_what_rides_along_is_not_seen_by_the_user_s_own_code() -> None:
    registered("t")(Frozen)
    value = decode(stored("t", 1, total=1, extra=3))
    assert value == Frozen(1)
    assert hash(value) == hash(Frozen(1))
    assert repr(value) == repr(Frozen(1))
    assert dataclasses.asdict(value) == {"total": 1, "note": "none"}
    assert kept(Frozen(1)) is None
    assert kept(copy.copy(value)) == kept(value)


def test_equal_objects_do_not_share_what_rides_along() -> None:
    registered("t")(Frozen)
    one, other = decode(stored("t", 1, total=1, extra=3)), decode(stored("t", 1, total=1, extra=4))
    assert one == other
    assert encode(one) != encode(other)


@pytest.mark.parametrize(("cls", "replace"), [(Frozen, dataclasses.replace), (Record, msgspec.structs.replace)])
def test_carry_hands_it_on_to_a_replaced_object(cls: Any, replace: Any) -> None:
    registered("t")(cls)
    old = decode(stored("t", 4, total=1, note=2, extra=3))
    new = replace(old, total=5)
    assert kept(new) is None
    assert encode(carry(old, new)) == stored("t", 4, total=5, note=2, extra=3)
    assert kept(carry(cls(1), cls(2))) is None


def test_fields_that_the_constructor_does_not_take_come_back() -> None:
    @registered("late")
    @dataclasses.dataclass(frozen=True)
    class Late:
        a: int
        count: int = dataclasses.field(default=0, init=False)

    value = Late(1)
    object.__setattr__(value, "count", 7)
    assert decode(encode(value)).count == 7
    assert decode(stored("late", 1, a=1)).count == 0


def test_required_fields_of_a_keyword_struct_are_known() -> None:
    class Keyword(msgspec.Struct, kw_only=True, dict=True):
        a: int = 1
        b: Nowhere  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  annotations are never looked at
        c: list[int] = []

    registered("keyword")(Keyword)
    assert decode(stored("keyword", 1, b=2)) == Keyword(b=2)
    with pytest.raises(Invalid, match=r"value\.b: missing"):
        decode(stored("keyword", 1, a=2))


# --- upgrades -------------------------------------------------------------------------------------


def rename(fields: dict[str, Any]) -> dict[str, Any]:
    return {("total" if name == "sum" else name): item for name, item in fields.items()}


def double(fields: dict[str, Any]) -> dict[str, Any]:
    fields["total"] *= 2
    return fields


@every_form
def test_upgrades_run_in_order_from_where_the_data_is(cls: Any) -> None:
    registered("t", version=3, upgrades={2: double, 1: rename})(cls)
    old, middle, new = stored("t", 1, sum=5), stored("t", 2, total=5), stored("t", 3, total=5)
    assert [decode(data).total for data in (old, middle, new)] == [10, 10, 5]
    assert encode(decode(old)) == stored("t", 3, total=10, note="none")
    assert encode(decode(stored("t", 1, sum=5, extra=1))) == stored("t", 3, total=10, note="none", extra=1)


def test_control_the_order_of_the_upgrades_matters() -> None:
    registered("t", version=3, upgrades={1: double, 2: rename})(Frozen)
    with pytest.raises(Invalid, match="upgrade 1 → 2 of type 't' failed: KeyError"):
        decode(stored("t", 1, sum=5))


def test_a_missing_upgrade_names_type_and_versions() -> None:
    registered("t", version=3, upgrades={1: rename})(Frozen)
    with pytest.raises(Invalid, match=r"type 't' was stored as version 1, .* version 3, .* from 2 to 3") as caught:
        decode(encode([Unregistered("t", 1, {"sum": 5})]))
    assert caught.value.path == "value[0]"


@pytest.mark.parametrize("upgrade", [lambda _: None, lambda _: [], lambda fields: 1 / 0, lambda a, b: a])
def test_a_bad_upgrade_gives_our_error(upgrade: Any) -> None:
    registered("t", version=2, upgrades={1: upgrade})(Frozen)
    with pytest.raises(Invalid, match="upgrade 1 → 2"):
        decode(stored("t", 1, total=1))


def test_an_upgrade_sees_values_and_not_their_encoding() -> None:
    seen: list[Any] = []
    registered("t", version=2, upgrades={1: lambda fields: seen.append(fields["total"]) or fields})(Frozen)
    decode(stored("t", 1, total=(b"x",)))
    assert seen == [(b"x",)]


# --- types that nobody registered -----------------------------------------------------------------


def test_an_unregistered_type_is_passed_on_identically() -> None:
    data = stored("gone", 7, b=1, a=Unregistered("t", 1, {"sum": (1,)}))
    registered("t", version=2, upgrades={1: rename})(Frozen)
    value = decode(data)
    assert value == Unregistered("gone", 7, {"b": 1, "a": Unregistered("t", 1, {"sum": (1,)})})
    assert encode(value) == data
    assert decode(encode([value, Unregistered("t", 1, {"sum": 2})]))[1] == Frozen(2)  # only what is inside it


@given(st.dictionaries(st.text("$ab", max_size=2), st.integers() | st.tuples(st.binary()), max_size=3))
def test_an_unregistered_type_with_any_fields_is_passed_on_identically(fields: dict[str, Any]) -> None:
    data = encode(Unregistered("gone", 1, fields))
    assert encode(decode(data)) == data


def test_it_becomes_an_object_when_its_class_is_registered_later() -> None:
    value = decode(stored("t", 1, total=1))
    assert type(value) is Unregistered
    registered("t")(Frozen)
    assert decode(encode(value)) == Frozen(1)
    assert digest(value) != digest(Frozen(1))  # the default is now written out


def test_nothing_that_data_names_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    for name in (
        "this",
        "this.s",
        "os.system",
        "perdure.model.registered_types.Registration",
        "builtins.eval",
        "__import__",
    ):
        assert type(decode(stored(name, 1, command="ls"))) is Unregistered
    assert "this" not in sys.modules


# --- the user's own code fails --------------------------------------------------------------------


class Broken:
    def to_state(self) -> Any:
        raise KeyError("inside")

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Any:
        return state["what"]


def test_broken_state_methods_give_our_error() -> None:
    registered("broken")(Broken)
    with pytest.raises(Invalid, match="to_state failed: KeyError") as caught:
        encode({"a": Broken()})
    assert caught.value.path == "value.a"
    with pytest.raises(Invalid, match="from_state failed: KeyError"):
        decode(stored("broken", 1))
    with pytest.raises(Invalid, match="from_state returned int"):
        decode(stored("broken", 1, what=1))


def test_a_class_that_refuses_its_fields_gives_our_error() -> None:
    @registered("picky")
    @dataclasses.dataclass
    class Picky:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    assert decode(stored("picky", 1, a=1)) == Picky(1)
    with pytest.raises(Invalid, match="ValueError: negative"):
        decode(encode([Unregistered("picky", 1, {"a": -1})]))


def test_a_field_that_was_never_set_is_refused() -> None:
    registered("t")(Loose)
    value = Loose(1)
    del value.total
    with pytest.raises(Invalid, match="no value"):
        encode(value)


# --- what registration refuses --------------------------------------------------------------------


def test_a_name_belongs_to_one_class() -> None:
    registered("t")(Frozen)
    with pytest.raises(Invalid, match="already taken"):
        registered("t")(Loose)
    with pytest.raises(Invalid, match="already registered as 't'"):
        registered("u")(Frozen)
    assert decode(encode(Frozen(1))) == Frozen(1)


def test_the_same_class_again_replaces_it_as_a_reloaded_module_does() -> None:
    def define() -> Any:
        @dataclasses.dataclass
        class Again:
            a: int

        return Again

    first, second = define(), define()
    registered("again")(first)
    registered("again")(first)
    registered("again", version=2)(second)
    assert type(decode(encode(second(1)))) is second
    assert encode(first(1)) == stored("again", 1, a=1)  # objects from before the reload can still be written


@dataclasses.dataclass(slots=True)
class Slots:
    a: int


class Bare(msgspec.Struct):
    a: int


class Nothing:
    pass


@dataclasses.dataclass
class Needs:
    a: int
    b: dataclasses.InitVar[int]


@pytest.mark.parametrize(
    ("cls", "says"),
    [(Slots, "slots=True"), (Bare, "dict=True"), (Nothing, "above @dataclass"), (Needs, "requires b")],
)
def test_a_class_that_could_not_keep_its_data_is_refused(cls: type, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        registered("t")(cls)
    assert not registered_types.is_registered("t")


@pytest.mark.parametrize(
    ("name", "version", "upgrades", "path"),
    [
        ("", 1, {}, "name"),
        ("a\0", 1, {}, "name"),
        (5, 1, {}, "name"),
        ("t", 0, {}, "version"),
        ("t", True, {}, "version"),
        ("t", "1", {}, "version"),
        ("t", 2, {2: rename}, "upgrades"),
        ("t", 2, {0: rename}, "upgrades"),
        ("t", 2, {1: "rename"}, "upgrades[1]"),
    ],
)
def test_a_bad_registration_is_refused(name: Any, version: Any, upgrades: Any, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        registered(name, version=version, upgrades=upgrades)
    assert caught.value.path == path


def test_a_subclass_of_a_registered_class_is_not_registered() -> None:
    registered("t")(Loose)

    class Child(Loose):
        pass

    with pytest.raises(Invalid, match="not registered"):
        values.to_plain(Child(1))
