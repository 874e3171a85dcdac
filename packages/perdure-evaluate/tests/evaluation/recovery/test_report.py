"""The report: what is counted stands where it belongs, hostile words stay words, and nothing breaks on what was not measured."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec
import pytest

from perdure_evaluate.recovery import plots, report
from perdure_evaluate.recovery.faults import FAULTS
from perdure_evaluate.recovery.run import Header
from perdure_evaluate.recovery.scorecard import SUMS, Caught, Failure, Scorecard, Subjected, Tally

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=y> & '|`"
FIFTHS = [25_000.0, 33_000.0, 34_000.0, 35_000.0, 34_500.0]


def tallied(ran: int = 4, failed: int = 0, fifths: list[float] | None = None, **sums: int) -> Tally:
    return Tally(ran, ran, ran, failed, {**dict.fromkeys(SUMS, 0), **sums}, 0.02, 0.4, fifths or [])


def carded(name: str = "mine", said: str = "killed mail:sent") -> Scorecard:
    cells = {
        "support": {"kill": tallied(40, 3), "outages": tallied(2, 1, states=1_200, acknowledged_lost=7)},
        "relay-500": {"none": tallied(1, fifths=FIFTHS, operations=1_006)},
    }
    failure = Failure(
        f"{name}/support/kill/mail:sent", ["duplicates"], [said], [said], said, f"perdure evaluate --case {name}"
    )
    return Scorecard(
        Header("1.0", "0.1.0", 1), "perdure evaluate", {"cores": 2}, True, True,
        {fault: Caught(name, f"{name}/support/{fault}/x", 1) for fault in ("kill", "outages")},
        {name: Subjected(said, tallied(43, 4, duplicates=3, kills=44), cells)}, [failure], [said],
        {f"subject {name}": said, f"{name}/support/full": said},
    )  # fmt: skip


class Page(HTMLParser):
    """The tags of a page, and the text of its cells by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def row(page: Page, name: str) -> list[str]:
    return next(each for each in page.rows if each and each[0].startswith(name))


def test_the_matrix_has_a_row_for_each_fault_that_was_tried() -> None:
    page = Page(report.page(carded()))
    assert row(page, "kill")[1] == "3/40"
    assert row(page, "outages")[1].startswith("7/1,200states")
    assert row(page, "Tool call duplicated")[1] == "3"
    assert [each for each in page.rows if each and each[0].startswith("race")] == []


def test_every_failure_has_its_schedule_and_the_line_that_shows_it_again() -> None:
    text = report.page(carded())
    assert "support/kill/mail:sent" in text
    assert "perdure evaluate --case mine" in text


def test_hostile_words_stay_words() -> None:
    page, plain = Page(report.page(carded(HOSTILE, HOSTILE))), Page(report.page(carded()))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert not any(tag in ("script", "img", "link", "iframe") for tag, _ in page.tags)
    assert not any(name.startswith("on") or name in ("src", "href") for _, attrs in page.tags for name in attrs)


def test_control_words_that_are_not_escaped_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "escape", lambda text, **_: text)
    assert any(tag == "script" for tag, _ in Page(report.page(carded(HOSTILE, HOSTILE))).tags)


def test_the_same_reason_stands_once() -> None:
    skipped = {f"{name}/{task}/power": "git is the other side" for name in ("a", "b") for task in ("coding", "support")}
    text = report.page(msgspec.structs.replace(carded(), skipped=skipped))
    assert text.count("git is the other side") == 1
    assert "(a, b; coding, support)" in text


def test_an_evaluation_that_proves_nothing_says_so_on_top() -> None:
    text = report.page(msgspec.structs.replace(carded(), valid=False, controls={"kill": Caught("c", "", 40)}))
    assert "NOT VALID" in text
    assert "NOT CAUGHT in 40 cases" in text


def test_nothing_measured_is_no_error() -> None:
    empty = msgspec.structs.replace(carded(), subjects={}, failures=[], controls={}, broken=[], skipped={})
    text = report.page(empty)
    assert "Nothing was measured" in text
    assert "None." in text


def test_every_fault_has_words_that_fit_a_phone() -> None:
    assert all(fault.name.isascii() and len(fault.about) < 100 for fault in FAULTS.values())


@pytest.mark.parametrize("values", [FIFTHS, [0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0], [5e12, 1, 1, 1, 1]])
def test_lines_stay_inside_their_plot(values: list[float]) -> None:
    drawn = plots.lines([plots.PlotLine("a", values, "x")])
    points = next(attrs["points"] or "" for tag, attrs in Page(drawn).tags if tag == "polyline")
    places = [tuple(map(float, each.split(","))) for each in points.split()]
    assert len(places) == 5
    assert all(0 <= x <= plots.WIDTH and 0 <= y <= plots.HEIGHT for x, y in places)
