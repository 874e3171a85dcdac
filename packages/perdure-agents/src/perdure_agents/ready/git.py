"""Commits and pushes that can be found again: a commit by a trailer in its message, a push by its hash on the remote.

Called through the ledger (`session.act(git_commit, …)`). Keeps P4, P10 and P15: arguments are lists, never a shell's; nothing
asks on a terminal, opens an editor or takes longer than its deadline. The repository is the user's own: its configuration,
filters, hooks and signing are run, as by any `git commit`. So `repo` is never a folder that came from somebody else.
No undo: a commit is undone by another (`git revert`), whose message a person or an agent has to write.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from perdure.artifacts.descriptors import TEMPORARY
from perdure.effects.tool import tool
from perdure.errors import Failed, InDoubt, Invalid, Unavailable
from perdure.model.limits import KEY_MAX_CHARS, check_name, check_text
from perdure.model.programs import ProgramEnd
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.stores import git
from perdure_agents.ready.checks import absolute, argument, nothing_done_yet, shortened
from perdure_agents.ready.files import being_written

TRAILER: Final = "Perdure-Effect"
_COMMIT_SECONDS = 120.0  # hooks take their time
_PUSH_SECONDS = 300.0
_ASK_SECONDS = 60.0
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}", re.ASCII)
_FORGED = re.compile(rf"^[ \t]*{TRAILER}[ \t]*:", re.IGNORECASE | re.MULTILINE)
_AUTHOR = re.compile(r"[^<>]+ <[^<>\s]+>")
_SECRET = re.compile(r"://[^/@]*:[^/@]*@")
_NO = re.compile(r"^!\t.*\[(?:remote )?rejected\].*", re.MULTILINE)
_LOCKED = re.compile(r"'?(/[^'\n]*/(?:index|HEAD|packed-refs|refs/[^'\n]*)\.lock)\b")
_RECENT = 20  # commits that hooks and others may have put on top meanwhile
_EVERYWHERE = ("--all", "--reflog", "--fixed-strings")
_NO_ANSWER = (Failed, Unavailable, InDoubt)
# Objects are not synced by default, and a detached gc would outlive us.
_DURABLE = ("-c", "core.fsync=committed", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
# Trailers are read by git's own rules, whatever the configuration says: no line is a comment, and none ends a message.
_PLAINLY = ("-c", "trailer.separators=:", "-c", "core.commentChar=\x01")


def find_commit(repo: str, *, key: str, **_: object) -> Happened | Absent | Unknown:
    """The probe: Happened with its hash if a commit with the key's trailer is on any ref or in a reflog, else Absent.

    Unknown if the repository is not here or git cannot answer.
    """
    try:
        sha = _commit_of(_repository(repo), key, *_EVERYWHERE, f"--grep={TRAILER}: {_value(key)}")
    except _NO_ANSWER as error:
        return Unknown(str(error))
    return Absent(f"no commit has the trailer of {key!r}") if sha is None else Happened({"sha": sha})


# HEAD moves by compare-and-set: a git that outlived its caller and the next one never both land. It needs no long wait.
@tool(probe=find_commit, timeout=3 * _COMMIT_SECONDS, lands_within=5, retries=3, fails=(Invalid,))
def git_commit(
    repo: str, message: str, *, key: str, paths: Sequence[str] | None = None, author: str | None = None
) -> dict[str, Any]:
    """Commit to the branch that is checked out, with a trailer that names the key; returns {"sha"}.

    repo: the absolute path of the repository itself. paths: these, changed, new or deleted, and nothing else; None: what is
    staged. author: "Name <mail>"; it is the committer too where git has no identity. Hooks and signing are the user's.
    Atomic; durable when it returns. Raises Failed (git said no: nothing to commit, a hook, no identity), Unavailable (a file
    there is being written) and InDoubt (another git is at work in the repository).
    """
    folder = _repository(repo)
    who = _identity(folder, _author(author)) if author is not None else []
    what = [f"--author={author}"] if author is not None else []
    chosen = ["--", *_paths(paths)] if paths is not None else []
    body = _with_trailer(folder, _message(message), key)
    if chosen and (present := _present(folder, chosen[1:])):
        _leave_out_unfinished(folder, present)
        _output(folder, "add", "--all", "--", *present, seconds=_COMMIT_SECONDS)
    options = ["--cleanup=whitespace", "--file=-", *what]
    only = ["--only", *chosen] if chosen else []
    ended = _git(folder, *_DURABLE, *who, "commit", *options, *only, seconds=_COMMIT_SECONDS, stdin=body)
    return {"sha": _commit_made(folder, key) if ended.exit == 0 else _made_after_all(repo, key, ended)}


def _identity(folder: Path, author: str) -> list[str]:
    """The author as the committer, where git knows of none."""
    if _git(folder, "var", "GIT_COMMITTER_IDENT").exit == 0:
        return []
    name, _, mail = author.removesuffix(">").partition(" <")
    return ["-c", f"user.name={name}", "-c", f"user.email={mail}"]


def _leave_out_unfinished(folder: Path, paths: Sequence[str]) -> None:
    """A file that `write_file` had not finished is never committed: it is removed, or waited for while its writer lives."""
    listing = ("ls-files", "--others", "--ignored", f"--exclude=.perdure-{'?' * 32}", "-z", "--", *paths)
    cut = True
    while cut:
        ended = _git(folder, *listing)
        if ended.exit != 0:
            raise _refusal(folder, ended)
        names = [os.fsdecode(name) for name in bytes(ended.out).split(b"\0")]
        with nothing_done_yet():
            alive = being_written(str(folder), [name for name in names if TEMPORARY.fullmatch(name.rpartition("/")[2])])
        if alive:
            raise Unavailable(f"{alive[0]} is just being written", path="paths", hint="commit when it is finished")
        cut = ended.out.count > len(bytes(ended.out))


def _with_trailer(folder: Path, message: str, key: str) -> bytes:
    """The message with the key's trailer as its last line: among its own trailers, or below. Git would put it before `---`."""
    text = message.rstrip()
    own = _output(folder, *_PLAINLY, "interpret-trailers", "--parse", "--no-divider", stdin=f"{text}\n".encode())
    return f"{text}{'' if own.strip() else chr(10)}\n{TRAILER}: {_value(key)}\n".encode()


def _present(folder: Path, paths: Sequence[str]) -> list[str]:
    """Those that `git add` takes: not those whose deletion is staged, as an attempt that died may have left it."""
    return [path for path in paths if os.path.lexists(folder / path) or _output(folder, "ls-files", "--", path)]


def _commit_made(folder: Path, key: str) -> str:
    """The hash of the commit that was just made; of the last one if a hook has taken the trailer out."""
    try:
        recent = _commit_of(folder, key, f"--max-count={_RECENT}", "HEAD")
        return recent or _output(folder, "rev-parse", "--verify", "HEAD").strip()
    except Failed as error:
        raise InDoubt(f"committed, and then {error.message}", path="repo") from error


def _made_after_all(repo: str, key: str, ended: ProgramEnd) -> str:
    """Git said no: nearly always nothing was done, but the branch moves before the index is written. Raises what it said."""
    match find_commit(repo, key=key):
        case Happened(result):
            return result["sha"]
        case Absent():
            raise _refusal(_repository(repo), ended)
        case verdict:
            raise InDoubt(f"git said no, and cannot be asked: {verdict!r}", path="repo")


def find_push(repo: str, remote: str, branch: str, sha: str) -> Happened | Absent | Unknown:
    """The probe: asks the remote. Happened if its branch is that commit or has it among its ancestors, Absent if not.

    Unknown if the remote does not answer. May fetch what the branch has now, without moving any ref.
    """
    try:
        folder = _repository(repo)
        name, ref = _remote_branch(folder, remote, branch)
        missing = [reason for place in _places(folder, name) if (reason := _missing(folder, place, ref, _sha(sha)))]
    except _NO_ANSWER as error:
        return Unknown(str(error))
    return Absent(missing[0]) if missing else Happened({"sha": sha, "branch": branch})


def _missing(folder: Path, place: str, ref: str, sha: str) -> str:
    """Why a branch does not contain a commit; nothing if it does."""
    now = _remote_sha(folder, place, ref)
    if now is None:
        return "the remote has no such branch"
    return "" if now == sha or _has_ancestor(folder, place, ref, now, sha) else f"the remote has {now} there"


# Pushing one commit again changes nothing, and a late push cannot move a branch back: it is no fast-forward.
@tool(probe=find_push, timeout=_PUSH_SECONDS + 4 * _ASK_SECONDS, lands_within=5, retries=3, fails=(Invalid,))
def git_push(repo: str, remote: str, branch: str, sha: str) -> dict[str, Any]:
    """Push that very commit to a branch of a remote, only ever forward; returns {"sha", "branch"}.

    The branch is made if it is not there; if it has work that the commit does not contain, that is Failed. No tags, no other
    refs. Idempotent. Raises Failed (rejected), Unavailable (the remote did not answer; nothing was sent), InDoubt (it did
    not answer after something was sent).
    """
    folder = _repository(repo)
    name, ref = _remote_branch(folder, remote, branch)
    refspec = f"{_commit(folder, sha)}:{ref}"
    if any(_remote_sha(folder, place, ref) != sha for place in _places(folder, name)):
        options = ["--porcelain", "--no-follow-tags", "--no-recurse-submodules", "--no-force"]
        ended = _git(folder, "push", *options, "--", name, refspec, seconds=_PUSH_SECONDS)
        if ended.exit != 0 and not isinstance(find_push(repo, remote, branch, sha), Happened):
            raise _unpushed(ended)
    return {"sha": sha, "branch": branch}


def _unpushed(ended: ProgramEnd) -> Failed | InDoubt:
    """A clear no only where the other side, or git for it, says that this ref was rejected."""
    output = shortened(str(ended.err))
    if refused := _NO.search(str(ended.out)):
        why = refused[0].split(chr(9))[-1]
        behind = "non-fast-forward" in why or "fetch first" in why
        return Failed(
            f"{why}: {output}", code="Rejected", path="branch", hint="fetch and merge first" if behind else ""
        )
    return InDoubt(f"git push ended without an answer: {output}", path="remote", hint="ask the remote, or settle it")


# What comes in -----------------------------------------------------------------------------------------------


def _repository(repo: object) -> Path:
    """The folder of the repository. Failed if there is none: a probe takes that for Unknown."""
    folder = Path(absolute(repo, "repo"))
    if not folder.is_dir():
        raise Failed("no such folder", code="NotFound", path="repo")
    root = folder.resolve()
    if (answer := _git(root, "rev-parse", "--git-dir")).exit != 0:
        raise Failed(f"no git repository: {shortened(str(answer.err))}", code="NotFound", path="repo")
    return root


def _message(message: object) -> str:
    text = check_text(message, "message")
    if not text.strip():
        raise Invalid("a commit needs a message", path="message")
    if _FORGED.search(text):
        raise Invalid(f"the trailer {TRAILER} is written by Perdure alone", path="message")
    return text


def _author(author: object) -> str:
    if not _AUTHOR.fullmatch(argument(author, "author", 400)):
        raise Invalid("expected an author as in 'Ada <ada@example.org>'", path="author")
    return str(author)


def _paths(paths: object) -> list[str]:
    if not isinstance(paths, list | tuple) or not paths:
        raise Invalid("expected a list of paths; leave it out for what is staged", path="paths")
    return [argument(path, f"paths[{at}]") for at, path in enumerate(paths)]


def _value(key: object) -> str:
    """The key as the trailer has it: one word of plain characters, so that git gives it back as it was."""
    return quote(check_name(key, "key", KEY_MAX_CHARS), safe="/:@+=,~")


def _sha(sha: object) -> str:
    if not (isinstance(sha, str) and _SHA.fullmatch(sha)):
        raise Invalid("expected the whole hash of a commit, in hexadecimal", path="sha")
    return sha


def _commit(folder: Path, sha: object) -> str:
    """The hash of a commit that is here. Failed for any other: git takes the hash of all zeros for deleting the branch."""
    own_sha = _sha(sha)
    if _git(folder, "cat-file", "-e", f"{own_sha}^{{commit}}").exit != 0:
        raise Failed(f"there is no commit {own_sha} in this repository", code="NotFound", path="sha")
    return own_sha


def _remote_branch(folder: Path, remote: object, branch: object) -> tuple[str, str]:
    """The remote and the full name of its branch. Invalid for what git would not take as a name."""
    name, ref = argument(remote, "remote"), f"refs/heads/{argument(branch, 'branch')}"
    if _SECRET.search(name):
        raise Invalid("the password in this URL would be recorded", path="remote", hint="use a credential helper")
    if _git(folder, "check-ref-format", ref).exit != 0:
        raise Invalid(f"{ref[11:51]!r} is no name of a branch", path="branch")
    return name, ref


# Asking git --------------------------------------------------------------------------------------------------


def _commit_of(folder: Path, key: str, *which: str) -> str | None:
    """The newest commit among them that has the key's trailer; None if there is none."""
    value = _value(key)
    form = f"--format=%H %(trailers:key={TRAILER},valueonly,separator=%x20)"
    listed = _output(folder, *_PLAINLY, "log", "--encoding=UTF-8", form, *which)
    commits = [line.split() for line in listed.splitlines()]
    return next((words[0] for words in commits if value in words[1:]), None)


def _places(folder: Path, remote: str) -> list[str]:
    """Where a push to this remote goes: a remote may have other addresses for that than for fetching, and several."""
    pushed = _git(folder, "remote", "get-url", "--push", "--all", remote)
    fetched = _git(folder, "remote", "get-url", remote)
    places = str(pushed.out).splitlines()
    return [remote] if pushed.exit != 0 or places == str(fetched.out).splitlines() else places


def _remote_sha(folder: Path, remote: str, ref: str) -> str | None:
    """Where the remote's branch stands; None if it has none. Unavailable if it does not answer."""
    ended = _git(folder, "ls-remote", "--", remote, ref)
    if ended.exit != 0:
        raise Unavailable(f"the remote does not answer: {shortened(str(ended.err))}", path="remote")
    lines = [line.partition("\t") for line in str(ended.out).splitlines()]
    return next((sha for sha, _, name in lines if name == ref), None)


def _has_ancestor(folder: Path, remote: str, ref: str, now: str, sha: str) -> bool:
    """Whether the remote's branch contains the commit; fetches what it has if that is not here. Failed if git cannot tell."""
    if _git(folder, "cat-file", "-e", f"{now}^{{commit}}").exit != 0:
        quiet = ["--quiet", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-recurse-submodules"]
        _output(folder, "fetch", *quiet, "--", remote, ref)
    ended = _git(folder, "merge-base", "--is-ancestor", sha, now)
    if ended.exit not in (0, 1):
        raise Failed(f"git cannot tell: {shortened(str(ended.err))}", code="Git", path="sha")
    return ended.exit == 0


def _output(folder: Path, *command: str, seconds: float = _ASK_SECONDS, stdin: bytes = b"") -> str:
    """The output of git. Failed, or InDoubt beside another git, if it says no."""
    ended = _git(folder, *command, seconds=seconds, stdin=stdin)
    if ended.exit != 0:
        raise _refusal(folder, ended)
    return str(ended.out)


def _refusal(folder: Path, ended: ProgramEnd) -> Failed | InDoubt:
    """Git's no. Beside another git's lock it is doubt: that one may be this effect's, left by a caller that died."""
    output = shortened(str(ended.err) or str(ended.out))
    if lock := _LOCKED.search(output):
        hint = f"if no git is running in {folder}, a crash left the lock: rm -- {shlex.quote(lock[1])}"
        return InDoubt(f"another git is at work: {output}", path="repo", hint=hint)
    if ended.timed_out:
        return Failed(f"git was killed at its deadline: {output}", code="TimedOut", path="repo")
    return Failed(f"git said no: {output}", code="Git", path="repo")


def _git(folder: Path, *command: str, seconds: float = _ASK_SECONDS, stdin: bytes = b"") -> ProgramEnd:
    """Run git in that very repository. Failed if there is no git."""
    try:
        return git.work(folder, seconds, *command, stdin=stdin)
    except OSError as error:
        raise Failed(f"git cannot be run: {error}", code="NoGit") from error
