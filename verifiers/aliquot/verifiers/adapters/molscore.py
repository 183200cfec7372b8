"""A MolScore task as a verifier: the loop `with MolScore(…) as task: task.score(smiles)`, asked from outside.

MolScore 1.9.5 scores a batch in place of the design that it is asked about, and hides what failed: a value that is
missing becomes 0.0 in its tables, and a scoring function that does not import is left out with a warning. Here

* a scoring function of the task that this environment cannot run is an error when the verifier starts,
* a molecule whose metric is missing or NaN has no score, and one that RDKit cannot read is refused with 0,
* nothing is remembered from one batch to the next, so a verdict does not depend on what came before. What does depend
  on it by design is refused with what to do instead: MolScore's diversity filters (`diversity` is such a verifier), the
  modifier `norm`, whose range grows with what it has seen, and methods that compare the molecules of a batch.

Source: Thomas, O'Boyle, Bender & de Graaf, J. Cheminf. 16, 64 (2024). Its package wants PyTorch and a web framework for
benchmarks and its monitor, which a score does not need: they are not in this adapter's environment, and stand-ins that
raise when they are used take their names.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from pydantic import Field, model_validator

from aliquot.domain import Design
from aliquot.verifiers.adapters.foreign import ALONE, HostingConfig, needs_of, not_a_number, plain, scored
from aliquot.verifiers.sdk import DataFile, Needs, NoScore, PointwiseVerifier, Score

TESTED = (
    ALONE, "molscore==1.9.5", "rdkit==2026.9.1", "numpy==2.4.6", "pandas==2.3.3", "scipy==1.17.1", "dask==2026.8.0",
    "distributed==2026.8.0", "click==8.5.1", "cloudpickle==3.1.3", "fsspec==2026.9.0", "importlib-metadata==10.2.0",
    "importlib-resources==7.1.0", "jinja2==3.1.6", "lazy-importer==0.1.0", "locket==1.0.0", "markupsafe==3.0.4",
    "msgpack==1.2.4", "packaging==26.4", "partd==1.4.2", "psutil==7.2.2", "python-dateutil==4.0.0", "pytz==2026.6",
    "pyyaml==6.0.4", "sortedcontainers==2.4.0", "tblib==3.2.2", "toolz==1.2.0", "tornado==6.6.1", "tzdata==2026.6",
    "urllib3==2.8.0", "zict==3.0.0", "zipp==4.1.2", "levenshtein==0.27.5", "rapidfuzz==3.14.6", "joblib==1.6.0",
    "requests==2.34.2", "certifi==2026.10.19.post1", "charset-normalizer==3.5.3", "idna==3.20", "molbloom==3.2.0",
    "msgspec==0.23.0", "pydantic==2.14.4", "pydantic-core==2.50.5", "annotated-types==0.8.0",
    "typing-extensions==4.16.0", "typing-inspection==0.4.5", "tqdm==4.70.1",
)  # fmt: skip
"""The environment that this adapter was verified with."""
COMPARING = ("auto_wsum", "auto_wprod", "pareto_front")
"""Methods of MolScore that look at the whole batch."""


class MolScoreConfig(HostingConfig):
    task: str = ""
    """A task that comes with MolScore, `PRESET:NAME`, such as `GuacaMol:Albuterol_similarity`."""
    file: DataFile | None = None
    """Or a task file of your own, the JSON that MolScore's configurator writes."""
    reads: tuple[DataFile, ...] = ()
    """Further files or folders that the task names, under their own paths."""
    memory_mb: int = Field(default=8192, ge=64)
    """Memory of its worker, MiB."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.task) == (self.file is not None):
            raise ValueError("name the task by one of `task` and `file`")
        if self.task and ":" not in self.task:
            raise ValueError(f"task: {self.task!r} names no preset; write it as GuacaMol:Albuterol_similarity")
        if self.file is not None:
            _check_task(self.file)
        return self


class MolScoreTask(PointwiseVerifier):
    """The aggregated score of a MolScore task, no unit, as a rule 0 to 1; `values` holds its metrics as computed."""

    name, version = "molscore", "1"
    kinds = ("molecule",)
    needs = Needs(requirements=TESTED)
    Config = MolScoreConfig

    def __init__(self, config: MolScoreConfig):
        super().__init__(config)
        self._folder = tempfile.TemporaryDirectory(prefix="molscore-")
        self._task = _quiet(_open_task, str(config.file or config.task), self._folder.name)

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        return needs_of(config, requirements=config.requirements or TESTED, processes=256, scratch_mb=256)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score | NoScore]:
        rows = _quiet(self._task.rows, [str(design.value) for design in designs])
        if len(rows) != len(designs):
            raise ValueError(f"MolScore gave {len(rows)} scores for {len(designs)} SMILES")
        for design, row in zip(designs, rows, strict=True):
            if row["invalid"] or not str(design.value).strip():
                yield Score(0.0, False, "it is no SMILES that MolScore can read")
            elif row["failed"]:
                yield NoScore(f"{', '.join(row['failed'])} could not be computed")
            else:
                yield scored(row["score"], self.config, values=row["metrics"])


def _open_task(task: str, folder: str) -> Any:
    """A MolScore object that keeps nothing, and knows what failed."""
    _stand_in()
    import molscore  # type: ignore[import-not-found,unused-ignore]

    class Task(molscore.MolScore):  # type: ignore[misc,unused-ignore]
        main_df: Any
        results_df: Any
        failed: dict[str, list[str]]

        def run_scoring_functions(self, smiles: list[str], *args: Any, **more: Any) -> Any:
            answer = super().run_scoring_functions(smiles, *args, **more)
            found = self.results_df.set_index("smiles")
            metrics = [metric["name"] for metric in self.cfg["scoring"]["metrics"]]
            if absent := [name for name in metrics if name not in found.columns]:
                there = ", ".join(map(str, found.columns))
                raise ValueError(f"the task's metric {absent[0]!r} was not computed; there is {there}")
            self.failed = {
                text: [name for name in metrics if text not in found.index or not_a_number(_one(found.at[text, name]))]
                for text in smiles
            }
            return answer

        def update_maxmin(self, df: Any) -> Any:
            return self

        def write_scores(self) -> Any:
            return self

        def rows(self, smiles: list[str]) -> list[dict[str, Any]]:
            self.failed = {}
            self.main_df, self.step = None, 0
            scores = self.score(smiles, flt=True)
            table = self.main_df.to_dict("records")
            self.main_df = self.batch_df = self.results_df = None
            names = [metric["name"] for metric in self.cfg["scoring"]["metrics"]]
            return [
                {
                    "score": score,
                    "invalid": record["valid"] == "false",
                    "failed": self.failed.get(record["smiles"], names),
                    "metrics": {name: plain(record[name]) for name in names},
                }
                for score, record in zip(scores, table, strict=True)
            ]

    # The task is checked before any of its scoring functions is made.
    _check_runnable(task, molscore)
    return Task(model_name="aliquot", task_config=task, output_dir=folder, add_run_dir=False)


def _check_task(path: Path) -> None:
    """Raises `ValueError` for a task that cannot be a verifier of single molecules."""
    try:
        _check_pointwise(json.loads(path.read_text()))
    except OSError:
        return  # told by whoever shows the file
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"file: {path} is no task of MolScore: {type(error).__name__}: {error}") from None


def _check_pointwise(task: Mapping[str, Any]) -> None:
    if task.get("diversity_filter", {}).get("run"):
        raise ValueError(
            "this task has a diversity filter, whose scores depend on what came before; set diversity_filter.run to "
            "false (of MolScore's own tasks take one without DF), and use the verifier `diversity`"
        )
    if (method := task["scoring"]["method"]) in COMPARING:
        raise ValueError(f"its method {method} compares the molecules of a batch; take single, wsum, prod, amean, …")
    for metric in task["scoring"]["metrics"]:
        if metric["modifier"] == "norm" and not {"max", "min"} <= metric["parameters"].keys():
            raise ValueError(
                f"its metric {metric['name']} is normalised by what came before; give norm a max and a min"
            )
    if not any(function["run"] for function in task["scoring_functions"]):
        raise ValueError("none of its scoring functions is to run")


def _check_runnable(task: str, molscore: ModuleType) -> None:
    if not task.endswith(".json"):
        preset, _, name = task.partition(":")
        presets = molscore.MolScore.presets
        if preset not in presets:
            raise ValueError(f"MolScore has no preset {preset!r}; there is {', '.join(presets)}")
        place = presets[preset] / f"{name}.json"
        if not place.is_file():
            there = ", ".join(sorted(molscore.MolScore.preset_tasks[preset]))
            raise ValueError(f"MolScore's {preset} has no task {name!r}; there is {there}")
        task = str(place)
    read = molscore.MolScore.load_config(task)
    _check_pointwise(read)
    from molscore.scoring_functions import all_scoring_functions  # type: ignore[import-not-found,unused-ignore]

    known = {function.__name__ for function in all_scoring_functions}
    wanted = [function["name"] for function in read["scoring_functions"] if function["run"]]
    if lacking := [name for name in wanted if name not in known]:
        raise ImportError(
            f"the scoring function {lacking[0]} of this task cannot be imported in this environment (MolScore said why "
            f"above); name the packages that it needs as `requirements`"
        )


def _stand_in() -> None:
    """Take the names of what MolScore imports on the way and a score does not need, where it is not installed."""
    if _lacks("func_timeout"):
        module = ModuleType("func_timeout")
        module.FunctionTimedOut = _FunctionTimedOut  # type: ignore[attr-defined]
        module.func_timeout = _func_timeout  # type: ignore[attr-defined]
        sys.modules["func_timeout"] = module
    if _lacks("torch") and "moleval.metrics.score_metrics" not in sys.modules:
        module = ModuleType("moleval.metrics.score_metrics")
        module.ScoreMetrics = _NoBenchmark  # type: ignore[attr-defined]
        sys.modules["moleval.metrics.score_metrics"] = module


def _lacks(name: str) -> bool:
    return name not in sys.modules and importlib.util.find_spec(name) is None


class _FunctionTimedOut(BaseException):
    pass


def _func_timeout(seconds: float, function: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
    """The result of a function, or `FunctionTimedOut`; one that is late goes on until its worker ends."""
    said: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            said.append((True, function(*args, **(kwargs or {}))))
        except BaseException as error:  # handed to the caller
            said.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not said:
        raise _FunctionTimedOut(f"{getattr(function, '__name__', function)} took more than {seconds} s")
    good, value = said[0]
    if good:
        return value
    raise value


class _NoBenchmark:
    def __init__(self, *_: Any, **__: Any):
        raise ImportError("MolScore's benchmark metrics need torch; a score does not")


def _one(value: Any) -> Any:
    """The value of a cell, also where a molecule stands in several rows."""
    return value.iloc[0] if hasattr(value, "iloc") else value


def _quiet(function: Callable[..., Any], *arguments: Any) -> Any:
    """MolScore ends its process by `sys.exit` in places; here that is an error like any other."""
    try:
        return function(*arguments)
    except SystemExit as error:
        raise RuntimeError(f"MolScore gave up with exit code {error.code}") from error
