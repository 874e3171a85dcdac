"""A newcomer's wrong words: each refusal says what to do next. A server that does not answer is named, in every command."""

from __future__ import annotations

import socket

import pytest

from installed import for_command

WRONG = [
    (("answer", "nope", "yes"), 2, "`perdure asks` lists them"),
    (("settle", "nope", "happened"), 2, "`perdure effects` lists them"),
    (("query", "select * from nope"), 2, "read the views (docs/sql.md)"),
    (("query", "delete from v_runs"), 2, "read the views (docs/sql.md)"),
    (("start", "os:nothing"), 3, "it declares no agent: @perdure.agent makes a function one"),
    (("show", "nope"), 3, "`perdure sessions` and `perdure runs` list them"),
    (("cancel", "nope"), 3, "`perdure runs` lists them"),
    (("runs", "--since", "yesterday"), 2, "or an age such as '7d'"),
    (("adopt", "a-file"), 2, "name the folder that `perdure handover` wrote, not a file"),
    (("adopt", "a-file/envelope.json"), 2, "name the folder that `perdure handover` wrote, not a file"),
    (("settle", "session:issue-42/999", "happened"), 3, "`perdure effects` lists them"),
    (("settle", "session:nope/9", "happened"), 3, "`perdure effects` lists them"),
    (("settle", "run:abcd/9", "happened"), 3, "`perdure runs` lists them"),
    (("answer", "session:issue-42/999", "yes"), 3, "`perdure asks` lists them"),
    (("query", " "), 2, "such as `SELECT * FROM v_sessions`; docs/sql.md lists the views"),
    (("apply", "missing.md"), 3, "check the path; `perdure views SESSION --to FOLDER` writes a page"),
    (("views", "nope"), 3, "`perdure sessions` lists them"),
    (("merge", "nope"), 7, "`perdure export` and `perdure import` move sessions"),
    (("artifacts", "--save", "ab", "-"), 2, "`perdure artifacts` lists them"),
    (("artifacts", "--save", "abcdef0123", "-"), 3, "`perdure artifacts` lists them"),
    (("fork", "issue-42", "--name", "done"), 4, "choose another name; `perdure sessions` lists those that are taken"),
    (("restore", "missing.bak"), 3, "check the path; `perdure backup FILE` writes one"),
    (("import", "missing"), 3, "check the path; `perdure help import` lists what can be imported"),
    (("import", "missing.perdure"), 3, "check the path; `perdure export NAME -o FILE` writes one"),
    (("diff", "issue-42@999"), 2, "`perdure events` lists them"),
    (("diff", "issue-42@1", "issue-42@999"), 2, "`perdure events` lists them"),
]


@pytest.mark.parametrize(
    ("words", "code", "way_out"),
    [pytest.param(*case, marks=for_command(case[0][0])) for case in WRONG],
    ids=lambda each: " ".join(each) if type(each) is tuple else "",
)
def test_a_refusal_says_what_to_do_next(run, url, tmp_path, words, code, way_out) -> None:
    (tmp_path / "a-file").touch()
    said = run(*words, "--store", url)
    assert said.exit_code == code
    assert way_out in said.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=for_command(words[0]))
        for words in (
            ("sessions",),
            ("say", "s", "hello"),
            ("token", "create"),
            ("tenant", "show"),
            ("verify",),
            ("doctor",),
        )
    ],
)
def test_a_server_that_does_not_answer_is_named_with_the_next_step(run, words) -> None:
    with socket.socket() as taken:  # a port that nobody else gets meanwhile, and at which nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        said = run(*words, "--store", f"postgresql://ada:sesame@127.0.0.1:{port}/agents", "--json")
    text = said.output
    assert said.exit_code != 0
    assert "Connection refused" in text
    assert f"start the server, or correct host and port (tried 127.0.0.1, port {port})" in text
    assert "sesame" not in text
