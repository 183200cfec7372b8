"""Reward functions of Prime Intellect's `verifiers` as a verifier: the design is the completion that they judge.

Three forms, told apart by what stands under the configured name:

* a `Task` of verifiers 0.4 with `@vf.reward` and `@vf.metric` methods: its own `score` runs them over a trace with one
  exchange, the prompt and the design. The score is `trace.reward`, the weighted sum.
* functions, sync or async, that name what they want: `completion`, `answer`, `prompt`, `state`, `info`, `task`, or
  whatever `info` holds (verifiers 0.1 to 0.3); or `trace` and `task` (0.4). The score is their weighted sum, the weight
  being the configured one, else that of `@vf.reward`, else 1. They need the package only if they import it.
* a `Rubric` object (0.1 to 0.3): its functions and weights, called as above.

Their frameworks count a reward function that raises as 0.0. Here it leaves the design without a score, and so does NaN.
A reward that needs a runtime (a container) cannot be given here, and is an error when the verifier starts.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import Field, FiniteFloat, JsonValue

from aliquot.domain import Design
from aliquot.verifiers.adapters.foreign import ALONE, HostingConfig, load_file, needs_of, not_a_number, plain, scored
from aliquot.verifiers.sdk import DataFile, Needs, NoScore, PointwiseVerifier, Score

TESTED = (
    ALONE, "verifiers==0.4.0", "aiofiles==25.1.0", "aiohappyeyeballs==2.7.1", "aiohttp==3.14.5", "aiosignal==1.4.0",
    "annotated-types==0.8.0", "anthropic==2.14.0", "antlr4-python3-runtime==4.13.2", "anyio==4.16.0", "attrs==26.1.0",
    "certifi==2026.10.19.post1", "click==8.5.1", "connectrpc==0.11.1", "distro==1.9.0", "docstring-parser==0.18.0",
    "frozenlist==1.8.0", "h11==0.16.0", "httpx==0.28.1", "httpx2==2.16.2", "idna==3.20", "jiter==0.19.0",
    "latex2sympy2-extended==1.11.0", "markdown-it-py==4.0.0", "math-verify==0.9.0", "mdurl==0.1.2", "mpmath==1.3.0",
    "msgspec==0.23.0", "multidict==7.2.1", "numpy==2.4.6", "openai==2.54.0", "opentelemetry-api==1.45.2",
    "prime-pydantic-config==0.4.3", "prime-sandboxes==0.5.1", "propcache==0.5.4", "protobuf==7.36.2",
    "protobuf-py==0.1.1", "protobuf-py-ext==0.1.1", "pydantic==2.14.4", "pydantic-core==2.50.5", "pygments==2.21.0",
    "pyqwest==0.12.0", "renderers==0.1.12", "rich==15.0.0", "sniffio==1.3.1", "sympy==1.14.0", "tenacity==9.2.1",
    "tomli-w==1.2.0", "typing-extensions==4.16.0", "typing-inspection==0.4.5", "yarl==1.25.1",
)  # fmt: skip
"""The environment that this adapter was verified with."""
GROUPED = ("states", "prompts", "completions", "answers", "tasks", "infos")
"""Parameters by which a function says that it judges a whole group at once."""


class PrimeRewardConfig(HostingConfig):
    file: DataFile
    """The Python file of the rewards."""
    rewards: dict[str, FiniteFloat | None] = Field(min_length=1)
    """Names in that file, each with its weight; `null`: its own weight, else 1. A `Task` or a `Rubric` stands alone."""
    helpers: tuple[DataFile, ...] = ()
    """Further files or folders that it imports (from beside it) or reads."""
    prompt: str = ""
    """What the design is an answer to."""
    answer: JsonValue = ""
    """The right answer, where there is one. It enters no reason and no value."""
    info: dict[str, JsonValue] = {}
    """Further fields of the task."""
    template: str = "{design}"
    """How the design is written as a completion; `{design}` stands for it, conditions as a JSON object."""
    chat: bool = True
    """Whether functions get prompt and completion as lists of messages, else as text."""


@dataclass(frozen=True)
class Row:
    """What is judged."""

    prompt: str
    completion: str
    answer: Any
    info: Mapping[str, Any]
    chat: bool

    def objects(self) -> dict[str, Any]:
        """What a function may ask for by name."""
        prompt: Any = self.prompt
        completion: Any = self.completion
        if self.chat:
            prompt = [{"role": "user", "content": self.prompt}] if self.prompt else []
            completion = [{"role": "assistant", "content": self.completion}]
        said = {"prompt": prompt, "completion": completion, "answer": self.answer, "info": dict(self.info)}
        return {**self.info, "task": self.info.get("task", ""), **said, "state": {**said, "task": "", "trajectory": []}}


class PrimeReward(PointwiseVerifier):
    """The weighted sum of reward functions, in their own unit. `values` holds each reward and metric by its name."""

    name, version = "prime_reward", "1"
    deterministic = False  # rewards may ask a judge, or draw at random
    needs = Needs(requirements=TESTED)
    Config = PrimeRewardConfig

    def __init__(self, config: PrimeRewardConfig):
        super().__init__(config)
        self._judge = judge_of(config)

    @classmethod
    def needs_for(cls, config: Any) -> Needs:
        return needs_of(config, requirements=config.requirements or TESTED)

    def verify(self, designs: Sequence[Design]) -> Iterable[Score | NoScore]:
        for design in designs:
            value = design.value
            text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            completion = self.config.template.replace("{design}", text)
            row = Row(self.config.prompt, completion, self.config.answer, self.config.info, self.config.chat)
            try:
                total, values = asyncio.run(self._judge(row))
            except Exception as error:  # an author's code; the others of the batch are judged all the same
                traceback.print_exc()
                yield NoScore(f"{type(error).__name__}: {error}")
                continue
            yield scored(total, self.config, name="reward", values=values)


Judge = Callable[[Row], Coroutine[Any, Any, tuple[float, dict[str, Any]]]]


def judge_of(config: PrimeRewardConfig) -> Judge:
    """What the configured names stand for.

    Raises:
        ValueError: a name is not there, is none of the three forms, or needs what cannot be given here.
    """
    sys.path.append(str(config.file.parent))
    module = load_file(config.file, f"aliquot_rewards_{config.file.stem}")
    if missing := [name for name in config.rewards if not hasattr(module, name)]:
        public = [name for name in vars(module) if not name.startswith("_")]
        near = get_close_matches(missing[0], public, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{config.file} has no {missing[0]!r}{hint}")
    found = {name: getattr(module, name) for name in config.rewards}
    if any(inspect.isclass(member) or hasattr(member, "funcs") for member in found.values()) and len(found) > 1:
        raise ValueError(f"a Task or a Rubric stands alone; the rewards name {', '.join(found)}")
    name, member = next(iter(found.items()))
    if inspect.isclass(member):
        return _of_task(name, member, config)
    if hasattr(member, "funcs"):
        if not member.funcs:
            raise ValueError(f"the rubric {name} has no functions")
        functions = {function.__name__: (function, weight) for function, weight in zip(*_parts(member), strict=True)}
        return _of_functions(functions, dict(getattr(member, "class_objects", {})))
    weights = {
        name: (f, _weight(f) if config.rewards[name] is None else config.rewards[name]) for name, f in found.items()
    }
    return _of_functions(weights, {})


def _of_functions(functions: Mapping[str, tuple[Callable[..., Any], Any]], further: Mapping[str, Any]) -> Judge:
    """The weighted sum of functions that name what they want.

    Args:
        further: more that they may ask for, such as a rubric's parser.
    """
    for name, (function, _) in functions.items():
        if not callable(function):
            raise ValueError(f"{name} is {type(function).__name__}; name a function, a Task or a Rubric")
        wanted = {key: p for key, p in inspect.signature(function).parameters.items() if p.default is p.empty}
        if grouped := [key for key in wanted if key in GROUPED]:
            raise ValueError(f"{name} wants {grouped[0]}: it compares the siblings of a group, and is no verifier")
        if "runtime" in wanted:
            raise ValueError(f"{name} wants a runtime, which is not there; give that parameter a default")

    async def judge(row: Row) -> tuple[float, dict[str, Any]]:
        objects = {**row.objects(), **further}
        total, values = 0.0, dict[str, Any]()
        for name, (function, weight) in functions.items():
            if "trace" in inspect.signature(function).parameters:
                objects = {**objects, **_traced(row)}
            said = await _called(function, objects)
            rewards = said if isinstance(said, Mapping) else {name: said}
            for key, value in rewards.items():
                if problem := not_a_number(value):
                    raise ValueError(f"the reward {key} is {problem}")
                values[str(key)] = plain(value)
                total += float(weight) * float(value)
        return total, values

    return judge


def _of_task(name: str, cls: type, config: PrimeRewardConfig) -> Judge:
    """The score that a `Task` of verifiers 0.4 gives a trace."""
    import verifiers.v1 as vf  # type: ignore[import-not-found,unused-ignore]

    if not issubclass(cls, vf.Task):
        raise ValueError(f"{name} is a class and no verifiers.v1.Task; name a function, a Task or a Rubric")
    if config.rewards[name] is not None:
        raise ValueError(f"rewards.{name}: a Task has the weights of its own rewards; write null")
    task = cls(_data(cls, config, config.prompt))
    if not (rewards := task.hooks("reward")):
        raise ValueError(f"{name} has no method under @vf.reward")
    for hook in [*rewards, *task.hooks("metric")]:
        runtime = inspect.signature(hook).parameters.get("runtime")
        if runtime is not None and runtime.default is runtime.empty:
            raise ValueError(f"{name}.{hook.__name__} wants a runtime, which is not there; give it a default")

    async def judge(row: Row) -> tuple[float, dict[str, Any]]:
        trace = _trace(row, task.data, task)
        await task.score(trace)
        if unsaid := [key for key, reward in trace.rewards.items() if reward is None]:
            raise ValueError(f"the reward {unsaid[0]} was not given")
        rewards = {key: reward.score for key, reward in trace.rewards.items()}
        return trace.reward, {**trace.metrics, **rewards}

    return judge


def _traced(row: Row) -> dict[str, Any]:
    import verifiers.v1 as vf

    data = vf.WireTaskData(prompt=row.prompt or None, **{**row.info, "answer": row.answer})
    return {"trace": _trace(row, data, None), "task": data}


def _trace(row: Row, data: Any, task: Any) -> Any:
    """A trace with one exchange: the prompt, if there is one, and the completion."""
    import verifiers.v1 as vf
    from verifiers.v1.graph import MessageNode  # type: ignore[import-not-found,unused-ignore]

    nodes = [MessageNode(message=vf.UserMessage(content=row.prompt))] if row.prompt else []
    said = vf.AssistantMessage(content=row.completion)
    nodes.append(MessageNode(parent=0 if nodes else None, message=said, sampled=True))
    kind = type(task).__name__ if task is not None else "design"
    about = vf.TraceTask(type=kind, data=data, key=task.key if task else None, hash=task.hash if task else None)
    return vf.Trace(task=about, agent=vf.AgentInfo(config=vf.AgentConfig()), nodes=nodes, is_completed=True, ok=True)


def _data(cls: Any, config: PrimeRewardConfig, prompt: str) -> Any:
    model = cls.data_type()
    answer = {"answer": config.answer} if "answer" in model.model_fields else {}
    return model(prompt=prompt or None, **{**answer, **config.info})


async def _called(function: Callable[..., Any], objects: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        given = dict(objects)
    else:
        given = {key: value for key, value in objects.items() if key in parameters}
    said = function(**given)
    return await said if inspect.isawaitable(said) else said


def _parts(rubric: Any) -> tuple[list[Any], list[Any]]:
    return list(rubric.funcs), list(rubric.weights)


def _weight(function: Any) -> float:
    return float(getattr(function, "_vf_weight", 1.0))
