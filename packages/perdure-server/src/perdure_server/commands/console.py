"""`perdure console`: the console for one person, on this machine. The pages stand in `perdure_server.console`."""

from __future__ import annotations

import socket

import click

from perdure.cli.options import StoreOptions, command, writes
from perdure.cli.output import note, say_json_line
from perdure.errors import Invalid

HOST = "127.0.0.1"


@command("console", "perdure console", "perdure console --open", "perdure console --port 8932 --actor alice")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, metavar="PORT", help="Default: a free one.")
@click.option("--open", "show", is_flag=True, help="Open the link in the browser of this machine.")
@writes
def console(options: StoreOptions, *, port: int, show: bool) -> None:
    """Serve the console of the store on loopback, and print a link that signs one browser in, once.

    Changes that are made there are recorded as --actor. Ends with Ctrl-C; the link and the sign-in end with it. Others use
    `perdure serve` and tokens of their own.
    """
    try:
        import uvicorn  # noqa: F401, PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        raise Invalid(
            "the extra `server` is not installed", path="console", hint="pip install 'perdure[server]'"
        ) from error
    from perdure_server.console.local import LocalServing  # noqa: PLC0415 - help must not load this
    from perdure_server.console.pages import Links, pages  # noqa: PLC0415
    from perdure_server.http.running import Listening, run  # noqa: PLC0415

    # Neither store nor tenant is made by looking.
    StoreOptions(options.store, options.tenant, as_json=False).open().close()
    serving, links = LocalServing(options.store, tenant=options.tenant, actor=options.actor), Links()
    listener = _listening(port)
    at = Listening(host=HOST, port=listener.getsockname()[1], drain_seconds=1)
    link = f"{at.address}/enter?code={links.make(serving.secret)}"
    if options.as_json:
        say_json_line({"link": link})
    else:
        note(f"the console, as {options.actor}: {link}")
        note("the link works once; Ctrl-C ends the console")
    if show:
        click.launch(link)
    run(serving, at, pages(serving, links), sockets=[listener])


def _listening(port: int) -> socket.socket:
    """A socket that listens already, so that the link works as soon as it is printed."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        raise Invalid(f"port {port} cannot be had: {error.strerror}", path="port", hint="leave --port out") from error
    listener.listen()
    return listener
