"""From an archive to a name that campaigns know, and away again."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile

import pytest

from aliquot.domain import ConfigError, Design
from aliquot.verifiers import environment, opening, store
from aliquot.verifiers.kit.archive import ArchiveRefused, pack
from aliquot.verifiers.kit.install import approve, install, pack_plugin, remove
from aliquot.verifiers.ladder import VerifierLadder
from aliquot.verifiers.registry import resolve
from aliquot.verifiers.stage import VerifierRef

PEPTIDE = Design(kind="sequence", value="GGLL")


@pytest.fixture
def archive(package, tmp_path):
    return pack_plugin(str(package), tmp_path / "out", trust=True)


def test_a_plugin_is_packed_installed_used_and_removed(archive, home):
    plugin = install(archive, approved=True)
    assert (plugin.name, plugin.version, plugin.approved) == ("my-pep", "1", True)
    assert store.installed() == [plugin] and resolve("my-pep").origin == "uploaded"
    with VerifierLadder([VerifierRef(type="my-pep@1", name="mine")]) as ladder:
        (judgement,) = ladder.verify([PEPTIDE])
    assert judgement.verdicts["mine"].score == 0.5
    assert {"bubblewrap", "seccomp"} <= {*judgement.verdicts["mine"].controls}
    remove("my-pep")
    assert store.installed() == [] and list((home / "plugins").iterdir()) == []
    with pytest.raises(ConfigError, match="no such verifier"):
        resolve("my-pep")


def test_what_nobody_approved_is_not_used(archive, home):
    assert not install(archive).approved
    with pytest.raises(ConfigError, match="waits for the approval"):
        resolve("my-pep")
    assert approve("my-pep", by="an administrator").approved_by == "an administrator"
    assert resolve("my-pep").plugin.approved


def test_the_same_archive_twice_is_one_plugin_and_approval_is_not_lost(archive, home):
    first = install(archive, approved=True, approved_by="a")
    assert install(archive) == first and len(store.installed()) == 1


def test_versions_live_side_by_side(package, tmp_path, home):
    install(pack_plugin(str(package), tmp_path / "one", trust=True), approved=True)
    source = package / "my_pep.py"
    source.write_text(source.read_text().replace('"my-pep", "1"', '"my-pep", "2"'))
    install(pack_plugin(str(package), tmp_path / "two", trust=True), approved=True)
    assert [resolve(name).plugin.version for name in ("my-pep", "my-pep@1", "my-pep@2")] == ["2", "1", "2"]
    with pytest.raises(ConfigError, match="no such version"):
        resolve("my-pep@3")
    remove("my-pep", "2")
    assert resolve("my-pep").plugin.version == "1"
    with pytest.raises(ConfigError, match="there is my-pep 1"):
        remove("my-pep", "2")


def test_the_name_of_a_builtin_cannot_be_taken(tmp_path, package, home):
    source = package / "my_pep.py"
    source.write_text(source.read_text().replace('"my-pep", "1"', '"qed", "1"'))
    with pytest.raises(ArchiveRefused, match="built-in"):
        install(pack_plugin(str(package), tmp_path, trust=True))
    assert store.installed() == [] and list((home / "plugins").iterdir()) == []


def test_an_installation_that_fails_leaves_nothing(tmp_path, home):
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(b"no archive")
    with pytest.raises(ArchiveRefused):
        install(bad)
    assert list((home / "plugins").iterdir()) == []


def test_what_is_half_removed_is_not_there(archive, home):
    plugin = install(archive, approved=True)
    (store.folder_of(plugin) / "manifest.json").unlink()
    assert store.installed() == []
    assert install(archive, approved=True).digest == plugin.digest
    assert (store.folder_of(plugin) / "source" / "my_pep.py").is_file()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Two versions of a tiny library as wheels, and wheels of what a worker needs, made from what is installed."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        files = {
            "tinylib.py": f"VALUE = {float(version)}\n",
            f"tinylib-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: tinylib\nVersion: {version}\n",
            f"tinylib-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = f"tinylib-{version}.dist-info/RECORD"
        files[record] = "".join(f"{name},,\n" for name in [*files, record])
        with zipfile.ZipFile(folder / f"tinylib-{version}-py3-none-any.whl", "w") as wheel:
            for name, text in files.items():
                wheel.writestr(name, text)
    return folder


PINNED = """
# /// script
# dependencies = ["tinylib=={version}"]
# ///
import tinylib
from aliquot.verifiers.sdk import PointwiseVerifier, Score

class Mine(PointwiseVerifier):
    name, version = "{name}", "1"

    def verify(self, designs):
        return [Score(tinylib.VALUE) for _ in designs]
"""


def test_two_plugins_may_need_different_versions_of_a_library(tmp_path, home, wheels, monkeypatch):
    monkeypatch.setattr(environment, "WORKER_NEEDS", ())  # the worker's own are lent below, without a download
    refs = []
    for name, version in (("old", "1.0"), ("new", "2.0")):
        path = tmp_path / f"{name}.py"
        path.write_text(PINNED.format(name=name, version=version))
        with pytest.raises(ConfigError, match=f"tinylib=={version}.*not built"):
            opening.introduce([(name, resolve(f"{path}:Mine"), {})])
        python = environment.build(environment.pins_of(path), wheels=wheels)
        lend = "import site; print(site.getsitepackages()[0])"
        packages = subprocess.run([python, "-c", lend], capture_output=True, text=True, check=True).stdout.strip()
        ours = next(p for p in sys.path if p.endswith("site-packages"))
        with open(f"{packages}/lent.pth", "w") as lent:
            lent.write(f"{ours}\n")
        refs.append(VerifierRef(name=name, type=f"{path}:Mine"))
    monkeypatch.setenv("ALIQUOT_TRUSTED_PLUGINS", ",".join(ref.type for ref in refs))
    with VerifierLadder(refs) as ladder:
        (judgement,) = ladder.verify([PEPTIDE])
        digests = {stage.digest for stage in ladder.stages}
    assert {name: v.score for name, v in judgement.verdicts.items()} == {"old": 1.0, "new": 2.0}
    assert len(digests) == 2
    assert len(list((home / "environments").iterdir())) == 2


def test_nothing_is_built_before_the_approval(tmp_path, home, wheels, monkeypatch):
    monkeypatch.setattr(environment, "WORKER_NEEDS", ())
    plugin = tmp_path / "mine.py"
    plugin.write_text(PINNED.format(name="mine", version="1.0"))
    files = {"mine.py": plugin}
    archive = pack(files, tmp_path, name="mine", version="1", target="mine.py:Mine", requirements=("tinylib==1.0",))
    assert not install(archive, home).approved and not (home / "environments").exists()
    assert approve("mine", "1", home, wheels=wheels).approved
    assert len(list((home / "environments").iterdir())) == 1


def test_an_environment_is_built_once_and_a_failure_leaves_none(home, wheels, monkeypatch):
    monkeypatch.setattr(environment, "WORKER_NEEDS", ())
    python = environment.build(["tinylib==1.0"], wheels=wheels)
    calls = []
    monkeypatch.setattr(environment, "_fill", lambda *arguments: calls.append(arguments))
    assert environment.build(["tinylib==1.0"], wheels=wheels) == python and not calls
    monkeypatch.undo()
    monkeypatch.setenv("ALIQUOT_PLUGINS", str(home))
    monkeypatch.setattr(environment, "WORKER_NEEDS", ())
    with pytest.raises(environment.EnvironmentFailed, match="tinylib==3.0"):
        environment.build(["tinylib==3.0"], wheels=wheels)
    assert [p.name for p in (home / "environments").iterdir()] == [environment.digest_of_pins(["tinylib==1.0"])]


@pytest.mark.parametrize(
    "requirement",
    ["tinylib", "tinylib>=1", "tinylib==1.*", "tinylib @ file:///x.whl", "--pre", "-r other.txt",
     "git+https://example.org/x", "tinylib==1.0 --hash=x", "./local"],
)  # fmt: skip
def test_only_pins_are_requirements(tmp_path, requirement):
    path = tmp_path / "mine.py"
    path.write_text(f"# /// script\n# dependencies = [{json.dumps(requirement)}]\n# ///\n")
    with pytest.raises(ConfigError, match="name==version"):
        environment.pins_of(path)


def test_pins_are_read_as_text_and_aliquot_is_there_anyway(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('# /// script\n# dependencies = ["aliquot>=0.1", "b==2", "a == 1"]\n# ///\nraise SystemExit\n')
    assert environment.pins_of(path) == ("a==1", "b==2")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["c==3"]\n')
    assert environment.pins_of(tmp_path) == ("c==3",)
    assert environment.digest_of_pins(["a==1", "b==2"]) == environment.digest_of_pins(["b==2", "a==1"])


def test_a_file_that_was_changed_after_installation_has_another_digest(archive, home):
    plugin = install(archive, approved=True)
    before = opening.introduce([("m", resolve("my-pep"), {})], trust=True)[0].digest
    source = store.folder_of(plugin) / "source" / "my_pep.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert opening.introduce([("m", resolve("my-pep"), {})], trust=True)[0].digest != before
    assert hashlib.sha256(source.read_bytes()).hexdigest() != plugin.digest
