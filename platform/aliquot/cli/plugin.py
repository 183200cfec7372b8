"""`aliquot plugin …`: from an empty folder to a plugin that a server runs.

Nothing of a plugin is imported by these commands but by `debug` and `test`, which are for code that one has written
oneself; everything else runs it as a campaign would, in the sandbox, unless `--trust` says otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aliquot.cli.boundary import reported

if TYPE_CHECKING:
    from aliquot.verifiers.kit.report import Finding, Report

app = typer.Typer(help="Write, check, pack and install verifiers of your own.", no_args_is_help=True)
new = typer.Typer(help="Write a package that passes its own tests.", no_args_is_help=True)
app.add_typer(new, name="new")

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="A file and a class, ./my.py:MyVerifier; a folder; or the name of a verifier."
    ),
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Its configuration, YAML or JSON.  [default: the class's example]")
]
Trust = Annotated[bool, typer.Option("--trust", help="Run it without the sandbox: for code of your own.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
Folder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where plugins are kept.  [default: $ALIQUOT_PLUGINS]")
]
Version = Annotated[str | None, typer.Option(metavar="VERSION", help="Of several versions, this one.")]
Wheels = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Take the libraries of its environment from here, and nowhere else.")
]


@new.command("verifier")
def new_verifier(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What campaigns will call it.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write.  [default: ./NAME]")] = None,
) -> None:
    """Write the package of a new verifier: one file, its fixtures, its tests."""
    with reported():
        from aliquot.verifiers.kit.scaffold import new_verifier as write

        folder = out or Path(name)
        for path in write(name, folder):
            typer.echo(str(path))
        typer.echo(f"Next: aliquot plugin check {_path(folder)}    aliquot plugin test {_path(folder)}", err=True)


@app.command()
def check(
    target: Target,
    config: Config = None,
    trust: Trust = False,
    as_json: AsJson = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer designs and rounds.")] = False,
    probe: Annotated[
        float, typer.Option(metavar="SECONDS", help="Train a small policy against it for so long; 0: do not.")
    ] = 0.0,
    minimise: Annotated[bool, typer.Option("--minimise", help="The probe makes the score small.")] = False,
    patience: Annotated[float, typer.Option(help="Longest wait for a slow verifier, seconds.")] = 60.0,
    wheels: Wheels = None,
) -> None:
    """Run the conformance checks on a verifier. Exit 1 when one fails."""
    with reported():
        from aliquot.verifiers.kit.check import check as run
        from aliquot.verifiers.kit.judging import QUICK, Settings

        _contained(target, trust)
        _build_environment(target, wheels, config)
        settings, chosen = QUICK if quick else Settings(), _read(config)
        base = config.parent if config is not None else None
        if config is not None and target.startswith("."):
            target = _absolute(target)
        report = run(
            target, chosen, base=base, trust=trust, settings=settings, patience=patience,
            say=(lambda finding: None) if as_json else _print,
        )  # fmt: skip
        if probe > 0 and report.name:
            report = _probed(report, target, chosen, base, trust, probe, minimise, as_json)
        if as_json:
            typer.echo(report.model_dump_json(indent=1))
        else:
            _summarise(report)
        if not report.passed:
            raise typer.Exit(1)


@app.command()
def prepare(target: Target, config: Config = None, wheels: Wheels = None) -> None:
    """Build the environment that a verifier pins, unless it is there. Nothing of the verifier runs."""
    with reported():
        _build_environment(target, wheels, config)


@app.command(context_settings={"ignore_unknown_options": True})
def test(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The plugin's folder.")] = Path("."),
    arguments: Annotated[list[str] | None, typer.Argument(metavar="PYTEST_ARGUMENTS")] = None,
) -> None:
    """Run the author's own tests with pytest, without a sandbox: they are your own code."""
    import importlib.util
    import os
    import subprocess
    import sys

    if importlib.util.find_spec("pytest") is None:
        typer.echo("pytest is not installed; this command needs: pip install 'aliquot[kit]'", err=True)
        raise typer.Exit(2)
    if not folder.is_dir():
        typer.echo(f"there is no folder {folder}", err=True)
        raise typer.Exit(2)
    paths = [str(folder.resolve()), str((folder / "src").resolve())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}
    command = [sys.executable, "-m", "pytest", "--rootdir", ".", *(arguments or [])]
    raise typer.Exit(subprocess.run(command, cwd=folder, env=environment).returncode)


@app.command()
def debug(
    target: Target,
    design: Annotated[str, typer.Argument(metavar="DESIGN", help="A SMILES, a sequence, or conditions as JSON.")],
    config: Config = None,
    kind: Annotated[str | None, typer.Option(help="molecule, sequence or conditions.")] = None,
    post_mortem: Annotated[bool, typer.Option("--pdb", help="Open the debugger where an exception is raised.")] = False,
) -> None:
    """Judge one design in this process: prints appear, breakpoint() stops, exceptions keep their traceback."""
    with reported():
        import json

        from aliquot.verifiers.kit import debug as kit
        from aliquot.verifiers.registry import resolve

        reference = resolve(target)
        try:
            verifier = kit.build(reference, _read(config) or {})
            said = kit.judge(verifier, kit.design_of(design, tuple(type(verifier).kinds), kind))
        except Exception:
            if not post_mortem:
                raise
            import pdb
            import sys
            import traceback

            traceback.print_exc()
            pdb.post_mortem(sys.exc_info()[2])
            raise typer.Exit(1) from None
        typer.echo(json.dumps(said, indent=1, ensure_ascii=False))
        if "error" in said:
            raise typer.Exit(1)


@app.command()
def pack(
    target: Target,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the archive.")] = Path("."),
    trust: Trust = False,
    wheels: Wheels = None,
) -> None:
    """Make one file of a plugin, with its digest and its pins."""
    with reported():
        from aliquot.verifiers.kit.install import pack_plugin

        _contained(target, trust)
        _build_environment(target, wheels)
        typer.echo(str(pack_plugin(target, out, trust=trust)))


@app.command()
def install(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="What `aliquot plugin pack` made.")],
    folder: Folder = None,
    wheels: Wheels = None,
    unapproved: Annotated[bool, typer.Option("--unapproved", help="Keep it, but let no campaign use it yet.")] = False,
) -> None:
    """Install a plugin, and build the environment that it pins. Whoever runs this approves it."""
    with reported():
        from aliquot.verifiers.kit import install as kit

        if not archive.is_file():
            typer.echo(f"there is no file {archive}; make one with: aliquot plugin pack TARGET", err=True)
            raise typer.Exit(2)
        plugin = kit.install(archive, folder, approved=not unapproved, approved_by="command line", wheels=wheels)
        state = "approved" if plugin.approved else f"not approved: aliquot plugin approve {plugin.name}"
        typer.echo(f"{plugin.name} {plugin.version}  {plugin.digest[:16]}  {state}")


@app.command("list")
def list_plugins(folder: Folder = None, as_json: AsJson = False) -> None:
    """Every verifier there is: built in, of installed packages, and installed from archives."""
    with reported():
        import json

        from aliquot.verifiers.registry import known
        from aliquot.verifiers.store import installed

        own = installed(folder)
        references = {name: reference for name, reference in known().items() if reference.origin != "uploaded"}
        if as_json:
            found: dict[str, Any] = {name: {"origin": r.origin, "target": r.target} for name, r in references.items()}
            plugins = [plugin.model_dump(mode="json") for plugin in own]
            typer.echo(json.dumps({"verifiers": found, "plugins": plugins}, indent=1))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("name", "version", "from", ""):
            table.add_column(title)
        for plugin in own:
            table.add_row(
                plugin.name, plugin.version, f"archive {plugin.digest[:16]}", "" if plugin.approved else "not approved"
            )
        for name, reference in references.items():
            table.add_row(name, "", reference.origin.replace("_", " "), "")
        Console().print(table)


@app.command()
def approve(
    name: Annotated[str, typer.Argument(metavar="NAME")], version: Version = None, folder: Folder = None
) -> None:
    """Let campaigns use a plugin that was installed or uploaded without approval."""
    with reported():
        from aliquot.verifiers.kit import install as kit

        plugin = kit.approve(name, version, folder, by="command line")
        typer.echo(f"{plugin.name} {plugin.version} may be used.")


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME")], version: Version = None, folder: Folder = None
) -> None:
    """Remove a plugin that was installed from an archive, and its environment when nothing else uses it."""
    with reported():
        from aliquot.verifiers.kit import install as kit

        for plugin in kit.remove(name, version, folder):
            typer.echo(f"{plugin.name} {plugin.version} is removed.")


def _read(config: Path | None) -> dict[str, Any] | None:
    if config is None:
        return None
    import yaml

    from aliquot.domain import ConfigError

    try:
        read = yaml.safe_load(config.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError("--config", [("", str(config), f"it cannot be read: {error}")]) from None
    if not isinstance(read, dict):
        raise ConfigError("--config", [("", str(config), "a configuration is a mapping of keys to values")])
    return read


def _contained(target: str, trust: bool) -> None:
    """Say what to do where this machine cannot contain a plugin, before anything else is said."""
    from aliquot.isolation.containment import SandboxUnavailable
    from aliquot.verifiers.registry import resolve

    reference = resolve(target)
    if trust or reference.trusted:
        if reference.origin != "builtin":
            typer.echo(f"{target} runs WITHOUT the sandbox, as a plain process.", err=True)
        return
    from aliquot.isolation.doctor import examine

    found = examine()
    if not found.sufficient:
        typer.echo("For code that you have written yourself there is --trust: a plain process, no sandbox.", err=True)
        raise SandboxUnavailable(found.reasons)


def _build_environment(target: str, wheels: Path | None, config: Path | None = None) -> None:
    """Build the environment that a file, a folder, or an adapter under this configuration pins, once."""
    from aliquot.verifiers import environment
    from aliquot.verifiers.hosting import describe
    from aliquot.verifiers.registry import resolve

    reference, pins = resolve(target), tuple[str, ...]()
    if reference.origin == "adapter":
        pins = tuple(describe(reference.target, _read(config) or {})["needs"]["requirements"])
    elif reference.origin == "path" and reference.root is not None:
        pins = environment.pins_of(reference.root)
    if pins and environment.python_of_pins(pins) is None:
        typer.echo(f"Building its environment: {', '.join(pins)}", err=True)
        environment.build(pins, wheels=wheels)


def _absolute(target: str) -> str:
    location, colon, name = target.partition(":")
    return f"{Path(location).resolve()}{colon}{name}"


def _probed(
    report: Report, target: str, config: dict[str, Any] | None, base: Path | None, trust: bool, seconds: float,
    minimise: bool, quiet: bool,
) -> Report:  # fmt: skip
    import importlib.util
    import os

    from aliquot.verifiers.kit.judging import skipped
    from aliquot.verifiers.kit.subject import Subject

    if importlib.util.find_spec("torch") is None:
        finding = skipped("gameability", "it trains a policy, which needs: pip install 'aliquot[train,chem]'")
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        from aliquot.cli.probe import gameability

        subject = Subject(target, config, base=base, trust=trust)
        try:
            say = (lambda text: None) if quiet else (lambda text: typer.echo(text, err=True))
            finding = gameability(subject, seconds=seconds, minimise=minimise, say=say)
        finally:
            subject.close()
    if not quiet:
        _print(finding)
    total = report.seconds + seconds
    return report.model_copy(update={"findings": (*report.findings, finding), "seconds": total})


def _print(finding: Finding) -> None:
    from rich.console import Console
    from rich.text import Text

    style = {"pass": "green", "fail": "bold red", "skip": "dim"}[finding.status]
    indented = finding.why.replace("\n", "\n" + " " * 31)
    Console(soft_wrap=True).print(
        Text.assemble((f"{finding.status:<5}", style), (f"{finding.check:<26}", "bold"), indented)
    )


def _summarise(report: Report) -> None:
    failed = [finding.check for finding in report.failed]
    passed = sum(finding.status == "pass" for finding in report.findings)
    skipped = sum(finding.status == "skip" for finding in report.findings)
    counts = f"{passed} passed, {len(failed)} failed, {skipped} do not apply; {report.seconds:.0f} s"
    where = "in the sandbox" if report.contained else "NOT in the sandbox"
    digest = f", digest {report.digest[:16]}" if report.digest else ""
    typer.echo(f"\n{report.name or report.target} {report.version}: {counts}; {where}{digest}")


def _path(folder: Path) -> str:
    return str(folder) if folder.is_absolute() else f"./{folder}"
