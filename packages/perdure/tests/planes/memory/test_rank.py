"""Ranking is pure: rare words weigh more, short turns borrow from those around them, a person's words go first."""

from __future__ import annotations

from perdure.planes.memory.rank import (
    NEAR_EVENTS,
    VECTOR_SHARE,
    Near,
    RankedText,
    Scored,
    Sizes,
    rank,
    rankable_places,
    weight_of,
)

SIZES = Sizes(texts=100, words=1000, shorts=100)
WEIGHTS = {"rare": weight_of(SIZES, 1), "common": weight_of(SIZES, 90)}


def text(
    seq: int, counts: dict[str, int], *, user: bool = False, short: bool = True, shelf: str = "turn", stream: int = 1
) -> RankedText:
    return RankedText((stream, seq, 0, shelf), seq, "me", seq, user, short, 10, counts)


def order(*texts: RankedText, found: list[int] | None = None) -> list[Scored]:
    places = [each.place for each in texts if found is None or each.place[1] in found]
    return rank(texts, rankable_places(texts, places), WEIGHTS, SIZES)


def test_rare_words_weigh_more_and_none_weighs_nothing() -> None:
    assert WEIGHTS["rare"] > WEIGHTS["common"] > 0
    assert weight_of(Sizes(1, 1, 0), 1) > 0
    best, other = order(text(1, {"common": 3}, shelf="task"), text(2, {"rare": 1}, shelf="task"))
    assert (best.text.of_seq, other.text.of_seq) == (2, 1)


def test_a_short_turn_is_lent_words_and_a_long_one_is_not() -> None:
    scored = {
        each.text.of_seq: each for each in order(text(1, {"rare": 1}), text(2, {}), text(3, {}, short=False), found=[1])
    }
    assert (scored[2].words, scored[2].lent) == ((), ("rare",))
    assert 0 < scored[2].score < scored[1].score
    assert 3 not in scored


def test_only_the_two_turns_before_and_after_are_neighbours() -> None:
    turns = [text(seq, {"rare": 1} if seq == 5 else {}) for seq in range(1, 10)]
    assert {each.text.of_seq for each in order(*turns, found=[5])} == {3, 4, 5, 6, 7}
    far = text(5 + NEAR_EVENTS + 1, {})
    assert [each.text.of_seq for each in order(text(5, {"rare": 1}), far, found=[5])] == [5]
    elsewhere = text(6, {}, stream=2)
    assert [each.text.place[0] for each in order(text(5, {"rare": 1}), elsewhere, found=[5])] == [1]


def test_a_users_words_get_a_fifth_of_the_best_score() -> None:
    best, other = order(text(1, {"rare": 1}, user=True, stream=1), text(2, {"rare": 1}, stream=2))
    assert best.text.user_said
    assert round(best.score / other.score, 6) == 1.2


def test_the_order_does_not_depend_on_the_order_of_the_input() -> None:
    texts = [text(seq, {"rare": 1}, shelf="task") for seq in range(1, 6)]
    assert order(*texts) == order(*reversed(texts))


def test_nothing_is_found_among_nothing() -> None:
    assert rank([], [], {}, Sizes(0, 0, 0)) == []


def near(cosines: dict[int, float], floor: float = 0.0, cut: float = 0.3) -> Near:
    return Near({(1, seq, 0, "task"): cosine for seq, cosine in cosines.items()}, floor, cut)


def test_words_and_vectors_are_joined_as_shares_of_the_best() -> None:
    texts = [text(seq, {"rare": 1} if seq < 3 else {}, shelf="task") for seq in range(1, 5)]
    found = rank(texts, [each.place for each in texts], WEIGHTS, SIZES, near({1: 0.1, 2: 0.8, 3: 0.8, 4: 0.2}))
    assert [each.text.of_seq for each in found] == [2, 1, 3] or [each.text.of_seq for each in found] == [2, 3, 1]
    scores = {each.text.of_seq: round(each.score, 6) for each in found}
    assert scores == {2: 1.0, 3: VECTOR_SHARE, 1: round(VECTOR_SHARE / 8 + 1 - VECTOR_SHARE, 6)}
    assert 4 not in scores  # no word in common, and no nearer than what is unrelated


def test_a_text_without_a_vector_is_judged_by_its_words_alone() -> None:
    texts = [text(seq, {"rare": 1}, shelf="task") for seq in (1, 2)]
    found = rank(texts, [each.place for each in texts], WEIGHTS, SIZES, near({1: 0.8}))
    assert {each.text.of_seq: (each.score, each.cosine) for each in found} == {1: (1.0, 0.8), 2: (1.0, None)}


def test_where_nothing_is_near_the_words_decide() -> None:
    texts = [text(1, {"rare": 1}, shelf="task"), text(2, {}, shelf="task")]
    places = [each.place for each in texts]
    assert rank(texts, places, WEIGHTS, SIZES, near({1: -0.2, 2: -0.1})) == rank(texts, places, WEIGHTS, SIZES)
