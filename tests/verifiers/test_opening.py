"""From a type to a worker: what is shown to a plugin, what it is given, and what its digest covers."""

from __future__ import annotations

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers import opening
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.opening import containment_of, introduce, limits_of
from aliquot.verifiers.registry import BUILTINS, resolve, validate_config
from aliquot.verifiers.sdk import Needs
from aliquot.verifiers.stage import VerifierRef

PLUGIN = """
from aliquot.verifiers.sdk import DataFile, PointwiseVerifier, Score, VerifierConfig

class Mine(PointwiseVerifier):
    name, version = "mine", "1"

    class Config(VerifierConfig):
        penalty: float = 0.0
        table: DataFile | None = None
        more: tuple[DataFile, ...] = ()
        note: str = ""

    def verify(self, designs):
        for design in designs:
            names = [str(design.value), self.config.note, *map(str, self.config.more)]
            names += [str(self.config.table)] if self.config.table else []
            found = {}
            for name in names:
                try:
                    found[name] = open(name).read()
                except OSError as error:
                    found[name] = type(error).__name__
            yield Score(1.0, values=found)
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    return path


def digest(path, config, base=None) -> str:
    (said,) = introduce([("mine", resolve(f"{path}:Mine"), config)], base, trust=True)
    return said.digest


def test_the_digest_follows_code_configuration_and_data_and_defaults_count_as_written(plugin, tmp_path):
    plain = digest(plugin, {})
    assert plain == digest(plugin, {"penalty": 0.0}) != digest(plugin, {"penalty": 2})
    (tmp_path / "table.csv").write_text("a")
    before = digest(plugin, {"table": "table.csv"}, tmp_path)
    (tmp_path / "table.csv").write_text("b")
    assert digest(plugin, {"table": "table.csv"}, tmp_path) != before
    plugin.write_text(PLUGIN + "\n# changed")
    assert digest(plugin, {}) != plain


def test_a_plugin_cannot_choose_its_digest(tmp_path):
    (tmp_path / "liar.py").write_text(PLUGIN.replace("class Mine(", "class Mine(") + "    digest = 'of another'\n")
    assert digest(tmp_path / "liar.py", {}) != "of another" and len(digest(tmp_path / "liar.py", {})) == 64


def test_the_digest_of_a_package_covers_all_its_files_and_pins(tmp_path):
    root = tmp_path / "pack"
    (root / "inner").mkdir(parents=True)
    project = '[project]\nname = "pack"\n[project.entry-points."aliquot.verifiers"]\nmine = "inner.plugin:Mine"\n'
    (root / "pyproject.toml").write_text(project)
    (root / "inner/__init__.py").write_text("")
    (root / "inner/plugin.py").write_text(PLUGIN + "\nfrom inner.helper import X\n")
    (root / "inner/helper.py").write_text("X = 1\n")
    (root / "inner/weights.bin").write_bytes(b"\1")
    first = introduce([("m", resolve(str(root)), {})], trust=True)[0].digest
    (root / "inner/weights.bin").write_bytes(b"\2")
    second = introduce([("m", resolve(str(root)), {})], trust=True)[0].digest
    (root / "inner/helper.py").write_text("X = 2\n")
    assert len({first, second, introduce([("m", resolve(str(root)), {})], trust=True)[0].digest}) == 3


def test_a_data_file_of_the_configuration_is_shown_and_nothing_else_is(plugin, tmp_path):
    (tmp_path / "table.csv").write_text("the table")
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/one.txt").write_text("one")
    (tmp_path / "secret.txt").write_text("secret")
    config = {"table": "table.csv", "more": ["extra/one.txt"], "note": str(tmp_path / "secret.txt")}
    with VerifierLadder([VerifierRef(name="mine", type="./plugin.py:Mine", config=config)], base=tmp_path) as ladder:
        (judgement,) = ladder.verify([Design(kind="sequence", value=str(tmp_path / "secret.txt"))])
    assert judgement.verdicts["mine"].error is None
    found = judgement.verdicts["mine"].values
    assert found[str(tmp_path / "table.csv")] == "the table" and found[str(tmp_path / "extra/one.txt")] == "one"
    assert found[str(tmp_path / "secret.txt")] == "FileNotFoundError"


def test_a_data_file_that_is_not_there_or_not_allowed_is_told_with_its_place(plugin, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="config.more.1.*no file"):
        (tmp_path / "a").write_text("")
        digest(plugin, {"more": ["a", "b"]}, tmp_path)
    (tmp_path / "open").mkdir()
    (tmp_path / "open/a").write_text("")
    monkeypatch.setenv("ALIQUOT_DATA_FOLDERS", str(tmp_path / "open"))
    assert digest(plugin, {"table": "open/a"}, tmp_path)
    for path in ("a", "open/../a", "/etc/passwd"):
        with pytest.raises(ConfigError, match="operator"):
            digest(plugin, {"table": path}, tmp_path)


def test_needs_become_limits_and_containment():
    needs = [Needs(memory_mb=512, processes=8), Needs(memory_mb=1024, network=("example.org",), gpu=True)]
    limits = limits_of(needs)
    assert (limits.memory_mb, limits.processes, limits.scratch_mb) == (1024, 64, 64)
    held = containment_of([resolve("qed"), resolve("validity")], needs)
    assert held.trusted and held.network == ("example.org",) and held.gpu


def test_only_builtins_and_what_the_operator_names_are_trusted(plugin, monkeypatch):
    own = f"{plugin}:Mine"
    assert resolve("qed").trusted and not resolve(own).trusted
    held = containment_of([resolve(own)], [Needs()])
    assert not held.trusted and held.read_only == (str(plugin),) and held.network == () and not held.gpu
    monkeypatch.setenv("ALIQUOT_TRUSTED_PLUGINS", f"other, {own}")
    assert resolve(own).trusted


@pytest.mark.parametrize("name", ["python_code", "learned_model"])
def test_built_ins_that_run_what_others_wrote_are_contained(name):
    assert not resolve(name).trusted and not resolve(f"{name}@1").trusted
    assert not containment_of([resolve(name)], [Needs()]).trusted


def test_a_version_that_is_not_there_is_refused():
    assert validate_config("qed@1", {}) == validate_config("qed", {})
    with pytest.raises(ConfigError, match="9 was asked for, and version 1"):
        VerifierLadder([VerifierRef(type="qed@9")])


def test_what_a_worker_says_of_itself_is_not_believed(tmp_path):
    source = PLUGIN + "    bounds = (0.0, 1.0)\n    cost = -1.0\n"
    (tmp_path / "odd.py").write_text(source)
    with pytest.raises(ConfigError, match="what it says of itself is not right"):
        digest(tmp_path / "odd.py", {})


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("version = 2", "version"), ("kinds = ('pizza',)", "kinds"), ("needs = {}", "Needs"),
        ("bounds = (1,)", "bounds"), ("fixtures = ('x',)", "Fixture"),
        ("controls = (1,)", "Control"), ("Config = dict", "VerifierConfig"),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_be_is_told(tmp_path, declared, says):
    (tmp_path / "odd.py").write_text(PLUGIN + f"    {declared}\n")
    with pytest.raises(ConfigError, match=says):
        digest(tmp_path / "odd.py", {})


@pytest.mark.parametrize(
    ("project", "says"),
    [
        (None, "no such file, nor a folder"), ("[project\n", "no proper"), ("[project]\nname = 'x'\n", "it has none"),
        ('[project.entry-points."aliquot.verifiers"]\na = "a:A"\nb = "b:B"\n', "it has a, b"),
    ],
)  # fmt: skip
def test_a_folder_that_is_no_plugin_says_what_it_lacks(tmp_path, project, says):
    (tmp_path / "pack").mkdir()
    if project is not None:
        (tmp_path / "pack/pyproject.toml").write_text(project)
    with pytest.raises(ConfigError, match=says):
        resolve("./pack", tmp_path)


def test_every_builtin_is_described_without_a_worker_and_without_rdkit():
    import subprocess
    import sys

    code = (
        "import sys\nfrom aliquot.verifiers.registry import BUILTINS\nfrom aliquot.verifiers.hosting import describe\n"
        "for target in BUILTINS.values(): describe(target, {})\n"
        "print(*sorted({'rdkit', 'torch', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [] and len(BUILTINS) > 6
    assert opening.HOST == "aliquot.verifiers.hosting:host"
