"""PerdureStore: items, namespaces, filters, time to live, vectors, and what Perdure knows of them. P1, P5, P8, P15."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from installed import stores_here

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

import perdure
from perdure.errors import Invalid, TooLarge
from perdure.model.records.retention import Retention
from perdure.planes.memory import across
from perdure_adapters.langgraph import PerdureStore, items
from perdure_testing.clock import FakeClock


@pytest.fixture(params=stores_here("sqlite", "files", "postgres"))
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else f"files:///{tmp_path}/store"


@pytest.fixture
def memory(url):
    with PerdureStore.from_conn_string(url) as made:
        made.setup()
        yield made


@pytest.fixture
def light(tmp_path):
    with PerdureStore.from_conn_string(f"sqlite:///{tmp_path}/light.db") as made:
        yield made


def keys(found):
    return [each.key for each in found]


# -- items ---------------------------------------------------------------------------------------------------


def test_an_item_is_put_read_replaced_and_deleted(memory):
    memory.put(("users", "42"), "prefs", {"theme": "dark", "sizes": [1, 2.5, None]})
    first = memory.get(("users", "42"), "prefs")
    assert (first.namespace, first.key) == (("users", "42"), "prefs")
    assert first.value == {"theme": "dark", "sizes": [1, 2.5, None]}
    assert first.created_at == first.updated_at
    assert first.created_at.tzinfo is not None
    memory.put(("users", "42"), "prefs", {"theme": "light"})
    second = memory.get(("users", "42"), "prefs")
    assert second.value == {"theme": "light"}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    memory.delete(("users", "42"), "prefs")
    memory.delete(("users", "42"), "never there")
    memory.delete(("nobody",), "never there")
    assert memory.get(("users", "42"), "prefs") is None
    assert memory.search(("users",)) == []
    assert memory.list_namespaces() == []
    memory.put(("users", "42"), "prefs", {})
    assert memory.get(("users", "42"), "prefs").created_at > first.created_at
    assert memory.store.verify().ok


def test_sync_and_async_on_one_object(memory):
    async def run():
        await memory.aput(("a",), "k", {"n": 1})
        assert (await memory.aget(("a",), "k")).value == {"n": 1}
        assert keys(await memory.asearch(("a",))) == ["k"]
        assert await memory.alist_namespaces() == [("a",)]
        await asyncio.gather(*(memory.aput(("a",), f"k{n}", {"n": n}) for n in range(20)))
        assert len(await memory.asearch((), limit=100)) == 21
        await memory.adelete(("a",), "k")

    asyncio.run(run())
    assert memory.get(("a",), "k") is None


def test_a_batch_reads_before_it_writes_and_writes_at_once(memory):
    memory.put(("a",), "k", {"n": 1})
    found = memory.batch(
        [
            PutOp(("a",), "k", {"n": 2}),
            GetOp(("a",), "k"),
            PutOp(("b", "c"), "x", {"n": 3}),
            SearchOp(()),
            PutOp(("a",), "k", {"n": 4}),
            ListNamespacesOp(),
            PutOp(("a",), "gone", None),
        ]
    )
    assert [found[i] for i in (0, 2, 4, 6)] == [None] * 4
    assert found[1].value == {"n": 1}
    assert keys(found[3]) == ["k"]
    assert found[5] == [("a",)]
    assert memory.get(("a",), "k").value == {"n": 4}
    assert memory.get(("b", "c"), "x").value == {"n": 3}


def test_a_batch_with_one_bad_operation_does_nothing(memory):
    for bad in (
        PutOp(("a.b",), "k", {}),
        PutOp(("a",), "k", {"x": object()}),
        GetOp((), "k"),
        SearchOp(("a",), limit=-1),
    ):
        with pytest.raises(Invalid):
            memory.batch([PutOp(("fine",), "k", {}), bad])
    assert memory.search(()) == []


def test_two_threads_at_once_lose_nothing(url):
    start = threading.Barrier(2)

    def put(mark):
        with perdure.open(url) as own, PerdureStore(own) as mine:
            start.wait(60)
            for n in range(25):
                mine.batch([PutOp(("shared",), f"{mark}{n}", {"n": n}), PutOp(("own", mark), str(n), {"n": n})])
                mine.put(("shared",), "both", {"by": mark, "n": n})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(put, "ab"))
    with PerdureStore(url) as memory:
        assert len(memory.search(("shared",), limit=100)) == 51
        assert memory.get(("shared",), "both").value["n"] == 24
        assert memory.list_namespaces() == [("own", "a"), ("own", "b"), ("shared",)]
        assert memory.store.verify().ok


def test_any_text_is_a_key_and_most_are_labels(memory):
    odd = ["", "%", "%25", "a b", "a/b", "a.b", "a\nb", "ü", "\u200b", "x" * 200, "langgraph/"]
    for n, key in enumerate(odd):
        memory.put(("odd",), key, {"n": n})
    assert sorted(keys(memory.search(("odd",), limit=100))) == sorted(odd)
    assert [memory.get(("odd",), key).value["n"] for key in odd] == [*range(len(odd))]
    for label in ["100%", "a b", "line\nbreak", "ü", "*", "a/b"]:
        memory.put(("labels", label), "k", {})
        assert keys(memory.search(("labels", label))) == ["k"]
        assert memory.get(("labels", label), "k").namespace == ("labels", label)


@pytest.mark.parametrize(
    "op",
    [
        GetOp("text", "k"),
        GetOp((), "k"),
        GetOp(("a.b",), "k"),
        GetOp(("a", ""), "k"),
        GetOp(("a", 1), "k"),
        PutOp(("a\0",), "k", {}),
        SearchOp(("a.b",)),
        ListNamespacesOp((MatchCondition("prefix", ("a.b",)),)),
        ListNamespacesOp((MatchCondition("suffix", ("",)),)),
    ],
)
def test_a_bad_namespace_is_refused_in_both_trees_of_errors(light, op):
    with pytest.raises(InvalidNamespaceError) as caught:
        light.batch([op])
    assert isinstance(caught.value, Invalid)
    assert caught.value.path


@pytest.mark.parametrize(
    ("op", "path"),
    [
        (GetOp(("a",), 1), "key"),
        (GetOp(("a",), "\ud800"), "key"),
        (PutOp(("a",), "k", ["no dict"]), "value"),
        (PutOp(("a",), "k", {"x": {"y": object()}}), "value.x.y"),
        (PutOp(("a",), "k", {}, ttl=0), "ttl"),
        (PutOp(("a",), "k", {}, ttl=float("nan")), "ttl"),
        (PutOp(("a",), "k", {}, ttl="5"), "ttl"),
        (PutOp(("a",), "k", {}, index="text"), "index"),
        (SearchOp((), limit=-1), "limit"),
        (SearchOp((), offset=1.5), "offset"),
        (SearchOp((), filter="x"), "filter"),
        (SearchOp((), filter={"x": {"$near": 1}}), "filter['x']"),
        (SearchOp((), filter={1: 1}), "filter"),
        (ListNamespacesOp(max_depth=0), "max_depth"),
        (ListNamespacesOp((MatchCondition("middle", ("a",)),)), "match_conditions[0].match_type"),
        ("no operation", "ops[0]"),
    ],
)
def test_bad_input_is_refused_with_its_path(light, op, path):
    with pytest.raises(Invalid) as caught:
        light.batch([op])
    assert caught.value.path == path


@pytest.mark.parametrize("op", [PutOp(("x" * 200,), "k", {}), PutOp(("a",), "x" * 201, {})])
def test_what_is_too_long_is_refused(light, op):
    with pytest.raises(TooLarge):
        light.batch([op])


# -- searching -----------------------------------------------------------------------------------------------


def test_a_search_stays_below_its_namespace_newest_first(memory):
    for namespace in [
        ("foo",),
        ("foo", "child"),
        ("foo-bar",),
        ("foo", "child", "deep"),
        ("foobar",),
        ("Foo",),
        ("fo",),
    ]:
        memory.put(namespace, "-".join(namespace), {})
    assert keys(memory.search(("foo",))) == ["foo-child-deep", "foo-child", "foo"]
    assert keys(memory.search(("foo", "child"), limit=1)) == ["foo-child-deep"]
    assert keys(memory.search(("foo",), limit=2, offset=1)) == ["foo-child", "foo"]
    assert keys(memory.search(("foo",), offset=3)) == []
    assert memory.search(("foo",), limit=0) == []
    assert len(memory.search(())) == 7


FILTERS = [
    ({"n": 2}, ["c"]),
    ({"n": {"$eq": 2}}, ["c"]),
    ({"n": {"$ne": 2}}, ["a", "b", "d"]),
    ({"n": {"$gt": 1}}, ["c"]),
    ({"n": {"$gte": 1}}, ["b", "c"]),
    ({"n": {"$lt": 1}}, ["a"]),
    ({"n": {"$lte": 1, "$gt": 0}}, ["b"]),
    ({"n": {"$lt": float("inf")}}, ["a", "b", "c"]),
    ({"n": {"$eq": float("nan")}}, []),
    ({"n": None}, ["d"]),
    ({"who": {"name": "Ann"}}, ["a"]),
    ({"who.name": "Ann"}, ["a"]),
    ({"who": {"age": {"$gt": 40}}}, ["b"]),
    ({"tags": ["x", "y"]}, ["c"]),
    ({"tags": ["x"]}, []),
    ({"odd.key": 1}, ["d"]),
    ({"x') OR 1=1 --": 1}, []),
    ({"n": {"$gt": "text"}}, []),
    ({}, ["a", "b", "c", "d"]),
]


def filtered(memory):
    memory.put(("f",), "a", {"n": 0, "who": {"name": "Ann", "age": 30}})
    memory.put(("f",), "b", {"n": 1, "who": {"name": "Bob", "age": 50}})
    memory.put(("f",), "c", {"n": 2, "tags": ["x", "y"]})
    memory.put(("f",), "d", {"odd.key": 1})


def test_filters(memory):
    filtered(memory)
    for wanted, found in FILTERS:
        assert sorted(keys(memory.search(("f",), filter=wanted))) == found, wanted


def test_a_filter_goes_through_many_pages(light, monkeypatch):
    monkeypatch.setattr(items, "FIRST_PAGE_ROWS", 3)
    light.batch([PutOp(("many", str(n % 7)), f"k{n}", {"n": n}) for n in range(60)])
    found = light.search(("many",), filter={"n": {"$lt": 10}}, limit=100)
    assert sorted(each.value["n"] for each in found) == [*range(10)]
    pages = [light.search(("many",), filter={"n": {"$gte": 20}}, limit=7, offset=at) for at in range(0, 42, 7)]
    assert sorted(each.value["n"] for page in pages for each in page) == [*range(20, 60)]


def test_a_search_reads_its_page_and_a_listing_no_item(light, monkeypatch):
    light.batch([PutOp(("big", str(n)), "k", {"n": n}) for n in range(300)])
    light.batch([PutOp(("small",), str(n), {"n": n}) for n in range(30)])
    read = []
    real = across._held
    monkeypatch.setattr(across, "_held", lambda reads, row: read.append(row[0]) or real(reads, row))
    assert len(light.search(("small",), limit=4)) == 4
    assert read == ["langgraph/small"] * 4
    del read[:]
    assert len(light.search(("small",), filter={"n": 3})) == 1
    assert len(read) == 30
    del read[:]
    assert light.list_namespaces(max_depth=1) == [("big",), ("small",)]
    assert len(light.list_namespaces(limit=1000)) == 301
    assert read == []


# -- namespaces ----------------------------------------------------------------------------------------------


def test_namespaces_are_listed_by_prefix_suffix_wildcard_and_depth(memory):
    places = [
        ("t", "docs", "public"),
        ("t", "docs", "private"),
        ("t", "images", "public"),
        ("t", "docs", "a", "b", "public"),
        ("prod", "docs", "public"),
        ("t2",),
    ]
    memory.batch([PutOp(place, "k", {}) for place in places])
    assert memory.list_namespaces() == sorted(places, key=".".join)
    assert memory.list_namespaces(prefix=("t",)) == sorted(places[:4])
    assert set(memory.list_namespaces(suffix=("public",))) == {places[0], places[2], places[3], places[4]}
    assert memory.list_namespaces(prefix=("t",), suffix=("b", "*")) == [places[3]]
    assert set(memory.list_namespaces(prefix=("*", "docs", "public"))) == {places[0], places[4]}
    assert memory.list_namespaces(prefix=("*", "*", "*", "*", "*", "*")) == []
    assert memory.list_namespaces(max_depth=1) == [("prod",), ("t",), ("t2",)]
    assert memory.list_namespaces(prefix=("t",), max_depth=2) == [("t", "docs"), ("t", "images")]
    assert memory.list_namespaces(limit=2, offset=1) == sorted(places, key=".".join)[1:3]
    memory.delete(("t2",), "k")
    assert ("t2",) not in memory.list_namespaces()


# -- time to live --------------------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def aging(tmp_path, clock):
    with perdure.open(f"sqlite:///{tmp_path}/aging.db", clock=clock) as store:
        yield store


def test_an_item_ends_and_is_swept(aging, clock):
    memory = PerdureStore(aging, ttl={"default_ttl": 10})
    memory.put(("a",), "default", {})
    memory.put(("a",), "short", {}, ttl=1)
    memory.put(("b",), "for ever", {}, ttl=None)
    assert memory.sweep_ttl() == 0
    clock.advance("2m")
    assert memory.get(("a",), "short") is None
    assert keys(memory.search(("a",))) == ["default"]
    assert memory.sweep_ttl() == 1
    assert memory.sweep_ttl() == 0
    clock.advance("9m")
    assert memory.list_namespaces() == [("b",)]
    assert asyncio.run(memory.asweep_ttl()) == 1
    memory.put(("a",), "short", {"again": 1})
    assert memory.get(("a",), "short").created_at == memory.get(("a",), "short").updated_at
    assert aging.verify().ok


def test_a_read_gives_an_item_its_time_anew(aging, clock):
    memory = PerdureStore(aging, ttl={"default_ttl": 10, "refresh_on_read": True})
    memory.put(("a",), "k", {"x": 1})
    before = memory.get(("a",), "k")
    for read in (
        lambda: memory.get(("a",), "k"),
        lambda: memory.search(("a",))[0],
        lambda: asyncio.run(memory.aget(("a",), "k")),
    ):
        clock.advance("8m")
        assert read() == before
    clock.advance("8m")
    assert memory.get(("a",), "k", refresh_ttl=False) == before
    clock.advance("3m")
    assert memory.get(("a",), "k") is None
    assert aging.verify().ok


def test_reading_a_hot_item_does_not_write_every_time(aging, clock):
    memory = PerdureStore(aging, ttl={"default_ttl": 10, "refresh_on_read": True})
    memory.put(("a",), "k", {"x": 1})
    scope = aging.scope("langgraph/a")
    before = scope.entry("k")
    clock.advance("20s")
    for _ in range(10):
        memory.get(("a",), "k")
    assert scope.entry("k").expires_at == before.expires_at
    clock.advance("20s")
    memory.get(("a",), "k")
    after = scope.entry("k")
    assert (after.expires_at - before.expires_at).total_seconds() == 40
    assert (after.version, after.updated_at, after.value) == (before.version, before.updated_at, before.value)


def test_without_refresh_on_read_an_item_ends_when_it_said(aging, clock):
    memory = PerdureStore(aging, ttl={"default_ttl": 10})
    memory.put(("a",), "k", {})
    clock.advance("8m")
    assert memory.get(("a",), "k") is not None
    clock.advance("3m")
    assert memory.get(("a",), "k") is None


def test_the_sweeper_sweeps_until_it_is_stopped(light):
    swept = threading.Event()
    with PerdureStore(light.store, ttl={"sweep_interval_minutes": 0.0001}) as memory:
        memory._sweeper._sweep = lambda: swept.set() or 0
        ended = memory.start_ttl_sweeper()
        assert memory.start_ttl_sweeper() is ended
        assert swept.wait(60)
        assert memory.stop_ttl_sweeper(60)
        assert ended.result(60) is None
        again = memory.start_ttl_sweeper()
        again.cancel()
        assert memory.stop_ttl_sweeper(60)
    assert PerdureStore(light.store).start_ttl_sweeper().done()


def test_a_sweep_that_fails_does_not_end_the_sweeper(light):
    tried = threading.Semaphore(0)

    def failing():
        tried.release()
        raise OSError("away")

    with PerdureStore(light.store, ttl={"sweep_interval_minutes": 0.0001}) as memory:
        memory._sweeper._sweep = failing
        memory.start_ttl_sweeper()
        assert tried.acquire(timeout=60)
        assert tried.acquire(timeout=60)


# -- vectors -------------------------------------------------------------------------------------------------


def letters(texts):
    """How often each letter occurs: texts with the same letters are near."""
    return [[float(text.count(letter)) for letter in "abcdefgh"] for text in texts]


async def aletters(texts):
    return letters(texts)


INDEX = {"dims": 8, "embed": letters, "fields": ["text"]}


@pytest.mark.parametrize("numpy", [True, False])
def test_a_query_ranks_by_meaning_within_the_namespace(url, monkeypatch, numpy):
    if not numpy:
        monkeypatch.setattr(items, "numpy_or_none", lambda: None)
    with PerdureStore.from_conn_string(url, index=INDEX) as memory:
        for key, text in {"1": "aaa", "2": "aab", "3": "bbb", "4": "ccc"}.items():
            memory.put(("m", "x"), key, {"text": text, "n": int(key)})
        memory.put(("m", "y"), "unseen", {"text": "aaa"}, index=False)
        memory.put(("other",), "5", {"text": "aaa"})
        found = memory.search(("m",), query="aa")
        assert keys(found) == ["1", "2", "4", "3"] or keys(found) == ["1", "2", "3", "4"]
        assert [round(each.score, 4) for each in found] == [1.0, round(2 / 5**0.5, 4), 0.0, 0.0]
        assert keys(memory.search(("m",), query="aa", filter={"n": {"$gt": 1}}, limit=1)) == ["2"]
        assert keys(memory.search(("m",), query="aa", limit=1, offset=1)) == ["2"]
        memory.put(("m", "x"), "1", {"text": "ccc"})
        assert memory.search(("m",), query="aa", limit=1)[0].key == "2"
        memory.put(("m", "x"), "z", {"notes": ["hh", "gg"]}, index=["notes[*]"])
        assert memory.search(("m",), query="g", limit=1)[0].key == "z"
        assert memory.search(("m",), query="")[0].score is None


def test_embeddings_of_async_functions_serve_async_calls(light):
    memory = PerdureStore(light.store, index={**INDEX, "embed": aletters})

    async def run():
        await memory.aput(("m",), "a", {"text": "aaa"})
        await memory.aput(("m",), "b", {"text": "bbb"})
        return await memory.asearch(("m",), query="b")

    assert keys(asyncio.run(run())) == ["b", "a"]


def test_a_query_without_an_index_is_a_plain_search(light):
    light.put(("m",), "a", {"text": "aaa"})
    assert [(each.key, each.score) for each in light.search(("m",), query="zzz")] == [("a", None)]


@pytest.mark.parametrize(
    ("index", "path"),
    [
        ({"dims": 7, "embed": letters}, "index.dims"),
        ({"dims": 8, "embed": lambda texts: []}, "index.embed"),
        ({"dims": 8, "embed": lambda texts: [["x"] * 8 for _ in texts]}, "index.embed"),
    ],
)
def test_a_bad_embedding_is_refused_and_nothing_is_written(light, index, path):
    memory = PerdureStore(light.store, index=index)
    with pytest.raises(Invalid) as caught:
        memory.put(("m",), "a", {"text": "aaa"})
    assert caught.value.path == path
    assert memory.search(()) == []


@pytest.mark.parametrize("index", [{"embed": letters, "distance_type": "l2"}, {"embed": letters, "fields": 3}])
def test_a_bad_index_is_refused(light, index):
    with pytest.raises(Invalid):
        PerdureStore(light.store, index={"dims": 8, **index})


# -- the store of Perdure knows them -------------------------------------------------------------------------


def test_items_are_values_of_scopes_and_the_other_way_round(memory):
    memory.put(("users", "42"), "prefs", {"theme": "dark"})
    scope = memory.store.scope("langgraph/users.42")
    assert scope.get("prefs")["item"] == {"theme": "dark"}
    scope.set("by hand", {"theme": "light"})
    scope.set("number", 7)
    assert memory.get(("users", "42"), "by hand").value == {"theme": "light"}
    assert memory.get(("users", "42"), "number").value == {"value": 7}
    assert keys(memory.search(("users",), filter={"theme": "light"})) == ["by hand"]
    memory.store.scope("langgraph/").set("no namespace", 1)
    assert memory.list_namespaces() == [("users", "42")]


def test_retention_keeps_the_items_that_stand(aging, clock):
    memory = PerdureStore(aging, ttl={"default_ttl": 10, "refresh_on_read": True})
    for n in range(4):
        memory.batch([PutOp(("a",), "k", {"n": n}), PutOp(("a",), "timed", {"n": n}, ttl=10)])
        clock.advance("2m")
        memory.get(("a",), "timed")
    memory.delete(("a",), "k")
    memory.put(("a",), "k", {"n": 9})
    before = memory.search(("a",))
    aging.retain(Retention(values=1), dry_run=False)
    assert memory.search(("a",)) == before
    assert aging.verify().ok
    clock.advance("8m")
    assert [each.value["n"] for each in memory.search(("a",))] == [9, 3]
    clock.advance("11m")
    assert memory.sweep_ttl() == 2
    aging.retain(Retention(values=1), dry_run=False)
    assert aging.verify().ok


def test_items_travel_in_bundles(memory, tmp_path):
    memory.put(("users", "42"), "prefs", {"theme": "dark"})
    memory.put(("users", "43"), "prefs", {"theme": "light"})
    memory.store.export(tmp_path / "b.zip", scopes=["langgraph/users.42"])
    with PerdureStore.from_conn_string(f"sqlite:///{tmp_path}/there.db") as there:
        there.store.import_(tmp_path / "b.zip")
        assert there.list_namespaces() == [("users", "42")]
        assert there.get(("users", "42"), "prefs") == memory.get(("users", "42"), "prefs")


def test_a_graph_remembers_across_threads(light):
    def node(state, *, store: BaseStore):
        seen = store.get(("counts",), "n")
        store.put(("counts",), "n", {"n": (seen.value["n"] if seen else 0) + 1})
        return state

    graph = StateGraph(dict)
    graph.add_node("count", node)
    graph.add_edge(START, "count")
    graph.add_edge("count", END)
    app = graph.compile(store=light)
    for _ in range(3):
        app.invoke({})
    assert light.get(("counts",), "n").value == {"n": 3}


def test_control_a_store_that_forgets_when_items_were_made_is_caught(light, monkeypatch):
    monkeypatch.setattr(items, "_created", lambda tx, stream, name: items.to_datetime(tx.now))
    light.put(("a",), "k", {})
    made = light.get(("a",), "k").created_at
    light.put(("a",), "k", {})
    assert light.get(("a",), "k").created_at != made
