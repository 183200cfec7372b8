"""The command line: `aliquot COMMAND`. One small file a command; nothing heavy is imported before it is needed.

Exit codes: 0 done; 1 it ran and failed; 2 the input is wrong, and nothing was made; 130 stopped, and can be resumed.
"""

from __future__ import annotations

try:
    import typer
except ModuleNotFoundError:  # a plain `pip install aliquot` carries the SDKs alone

    def app() -> None:
        """Say what the command line needs."""
        raise SystemExit("The command line is an extra: pip install 'aliquot[plugin]'")

else:
    from aliquot.cli.check import check
    from aliquot.cli.doctor import doctor
    from aliquot.cli.plugin import app as plugin
    from aliquot.cli.pretrain import pretrain
    from aliquot.cli.reverify import reverify
    from aliquot.cli.run import run
    from aliquot.cli.sandbox import sandbox
    from aliquot.cli.serve import serve
    from aliquot.cli.version import version

    app = typer.Typer(
        help="Design experiments with a policy that learns from laboratories that answer late and in parts.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (run, check, reverify, pretrain, serve, doctor, version):
        app.command()(command)
    app.add_typer(plugin, name="plugin")
    app.add_typer(sandbox, name="sandbox")

__all__ = ["app"]
