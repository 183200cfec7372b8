"""A campaign in a folder: begun, run, stopped, resumed.

Everything a run knows stands in its folder, so the folder can be moved, copied, or resumed on another day. A folder is
made only for a spec that has been validated, and never holds two runs.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch
from sqlmodel import select

from aliquot.campaigns.baseline import random_baseline
from aliquot.campaigns.context import Context, RunFolder
from aliquot.campaigns.engine import Engine
from aliquot.campaigns.guard import GuardedLab
from aliquot.campaigns.learner import InlineLearner, Learner, NoLearner, ProcessLearner
from aliquot.campaigns.leavings import write_results
from aliquot.campaigns.progress import Progress, progress
from aliquot.campaigns.reverifying import Reverified, reverify
from aliquot.campaigns.spec import CampaignSpec
from aliquot.campaigns.verifying import restore_memory
from aliquot.clock import EPOCH, Clock, RealClock, VirtualClock
from aliquot.domain import CampaignState, ConfigError, Design, InvalidDesign
from aliquot.domain.spaces import BOS
from aliquot.isolation.containment import SandboxUnavailable
from aliquot.lab_adapters import create_lab
from aliquot.ledger import BudgetRow, CampaignRow, Ledger, ObjectiveRow, move
from aliquot.surrogates import ObjectiveSurrogate
from aliquot.trainer.policies import load_policy
from aliquot.trainer.rollout import RolloutRequest, TorchRolloutEngine
from aliquot.verifiers.ladder import VerifierLadder

ENDED = (CampaignState.COMPLETED, CampaignState.EXHAUSTED, CampaignState.CANCELLED)


class CampaignRun:
    """One campaign and its folder. Use as a context manager."""

    def __init__(self, folder: Path, ledger: Ledger, campaign_id: int, spec: CampaignSpec, lock):
        self.folder, self.ledger, self.campaign_id, self.spec = folder, ledger, campaign_id, spec
        self._lock = lock

    @classmethod
    def create(cls, spec: CampaignSpec, folder: Path) -> CampaignRun:
        """Begin a run in a new folder.

        Raises:
            ConfigError: the folder holds a run already.
        """
        paths = RunFolder(Path(folder))
        paths.root.mkdir(parents=True, exist_ok=True)
        lock = _lock(paths.root)
        ledger = Ledger(paths.ledger)
        now = _clock(spec, EPOCH).now()
        with ledger.write() as session:
            if session.exec(select(CampaignRow)).first() is not None:
                remedy = f"holds a run already: go on with `aliquot run --resume {folder}`, or choose another folder"
                raise ConfigError(str(folder), [("", str(folder), remedy)])
            campaign = CampaignRow(name=spec.name, spec=spec.model_dump(mode="json"), clock=now, created_at=now)
            session.add(campaign)
            session.flush()
            objective = spec.objective.model_dump(mode="json")
            session.add(ObjectiveRow(campaign_id=campaign.id, version=1, spec=objective, created_at=now))
            limits = {"experiments": float(spec.budget.experiments), "money": spec.budget.money}
            session.add_all(
                BudgetRow(campaign_id=campaign.id, unit=unit, limit=limit)
                for unit, limit in limits.items()
                if limit is not None
            )
        return cls(paths.root, ledger, campaign.id, spec, lock)

    @classmethod
    def open(cls, folder: Path) -> CampaignRun:
        """Go on with a run that stands in a folder.

        Raises:
            ConfigError: there is none, or another process has it open.
        """
        paths = RunFolder(Path(folder))
        if not paths.ledger.exists():
            raise ConfigError(str(folder), [("", str(folder), "no run is here; a run's folder holds ledger.db")])
        lock = _lock(paths.root)
        ledger = Ledger(paths.ledger)
        with ledger.read() as session:
            campaign = session.exec(select(CampaignRow)).first()
        if campaign is None:
            raise ConfigError(str(folder), [("", str(folder), "this run was never begun: remove the folder")])
        return cls(paths.root, ledger, campaign.id, CampaignSpec.model_validate(campaign.spec), lock)

    def __enter__(self) -> CampaignRun:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.ledger.close()
        self._lock.close()

    @property
    def state(self) -> CampaignState:
        with self.ledger.read() as session:
            row = session.get(CampaignRow, self.campaign_id)
            assert row is not None
            return CampaignState(row.state)

    def progress(self) -> Progress:
        return progress(self.ledger, self.campaign_id)

    def run(self, on_progress: Callable[[Progress], None], stop: threading.Event) -> CampaignState:
        """Run until the campaign ends, or until `stop` is set and the tick under way is done.

        Returns the state it is left in: `paused` after a stop, with everything saved for `open`.
        """
        if self.state in ENDED:
            return self.state
        with self.ledger.write() as session:
            campaign = session.get(CampaignRow, self.campaign_id)
            assert campaign is not None
            if campaign.state != CampaignState.RUNNING:  # `running` already: the process was killed
                move(session, campaign, "running", campaign.clock)
        torch.set_num_threads(1)
        with ExitStack() as opened:
            try:
                learner = self._learner()
                opened.callback(learner.close)
                context = self.context()
                for part in (context.ladder, context.rollouts, context.lab):
                    opened.callback(part.close)
                state = self._ticks(context, learner, on_progress, stop)
            except SandboxUnavailable as error:
                state = self._leave(CampaignState.BLOCKED, str(error))
            except Exception as error:
                self._leave(CampaignState.FAILED, f"{type(error).__name__}: {error}")
                raise
        on_progress(self.progress())
        return state

    def _ticks(
        self, context: Context, learner: Learner, on_progress: Callable[[Progress], None], stop: threading.Event
    ) -> CampaignState:
        restore_memory(context)
        engine, state = Engine(context, learner), CampaignState.RUNNING
        while state is CampaignState.RUNNING:
            state = engine.tick()
            on_progress(self.progress())
            if state is CampaignState.RUNNING and stop.is_set():
                learner.stop()
                state = self._pause(context)
            elif state is CampaignState.PAUSED:
                learner.stop()
        return state

    def reverify(self, verifier: str, version: str | None = None) -> Reverified:
        """Judge again what a verifier judged under other code, and revise rewards. Raises as `reverifying.reverify`."""
        torch.set_num_threads(1)
        with ExitStack() as opened:
            context = self.context()
            for part in (context.ladder, context.rollouts, context.lab):
                opened.callback(part.close)
            Engine(context, NoLearner(self.ledger, context.folder, self.campaign_id))  # with its surrogate fitted
            return reverify(context, verifier, version)

    def write_results(self) -> list[Path]:
        """results.csv, report.html, summary.json and config.yaml in the run's folder."""
        baseline = random_baseline(self.spec, self.prior_designs(2 * self.spec.budget.experiments))
        return write_results(self.folder, self.ledger, self.campaign_id, baseline)

    def prior_designs(self, at_most: int) -> list[Design]:
        """Distinct designs of the untrained policy that the verifiers let through: what chance would have sent."""
        torch.set_num_threads(1)
        codec, found = self.spec.space.codec(), {}
        spec = self.spec
        policy = load_policy(spec.policy.init, spec.space, spec.policy.architecture, spec.seed)
        engine = TorchRolloutEngine(policy)
        request = RolloutRequest([BOS], min(at_most, 2048), codec.max_tokens, seed=spec.seed + 1)
        for trajectory in engine.generate(request):
            try:
                design = codec.decode(trajectory.tokens.tolist())
            except InvalidDesign:
                continue
            found[design.key] = design
        engine.close()
        with VerifierLadder(spec.verifiers) as ladder:
            designs = list(found.values())
            return [d for d, j in zip(designs, ladder.verify(designs), strict=True) if j.accepted][:at_most]

    def _learner(self) -> Learner:
        runtime, learning = self.spec.runtime, self.spec.learning
        kind = NoLearner if not learning.enabled else InlineLearner if runtime.deterministic else ProcessLearner
        return kind(self.ledger, RunFolder(self.folder), self.campaign_id)

    def context(self) -> Context:
        """Lab, verifiers, rollout engine and surrogate of this run, opened; the caller closes them."""
        spec, folder = self.spec, RunFolder(self.folder)
        with self.ledger.read() as session:
            campaign = session.get(CampaignRow, self.campaign_id)
            assert campaign is not None
        clock = _clock(spec, campaign.clock)
        config = spec.lab.config | ({"path": str(folder.lab)} if spec.lab.type == "simulated" else {})
        lab = GuardedLab(create_lab(spec.lab.type, config, clock))
        policy = load_policy(spec.policy.init, spec.space, spec.policy.architecture, spec.seed)
        return Context(
            ledger=self.ledger,
            campaign_id=self.campaign_id,
            spec=spec,
            folder=folder,
            clock=clock,
            lab=lab,
            description=lab.describe(),
            ladder=VerifierLadder(spec.verifiers),
            rollouts=TorchRolloutEngine(policy),
            codec=spec.space.codec(),
            surrogate=ObjectiveSurrogate(spec.objective, spec.space, spec.seed, spec.selecting.minimum_observations),
        )

    def _leave(self, state: CampaignState, reason: str) -> CampaignState:
        """Say in the ledger why the run ended; it can be resumed once the cause is mended."""
        with self.ledger.write() as session:
            campaign = session.get(CampaignRow, self.campaign_id)
            assert campaign is not None
            if campaign.state == CampaignState.RUNNING:
                move(session, campaign, state, campaign.clock, reason=reason[:2000])
        return state

    def _pause(self, context: Context) -> CampaignState:
        with self.ledger.write() as session:
            campaign = context.campaign(session)
            if campaign.state == CampaignState.RUNNING:  # else a monitor of the trainer was faster
                move(session, campaign, "paused", context.clock.now(), reason="stopped; it can be resumed")
        return CampaignState.PAUSED


def _clock(spec: CampaignSpec, start: float) -> Clock:
    """A simulated lab lives on virtual time, any other on the wall clock."""
    return VirtualClock(start) if spec.lab.type == "simulated" else RealClock()


def _lock(folder: Path):
    """The run's lock, held while it is open.

    Raises:
        ConfigError: another process holds it.
    """
    file = (folder / "run.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ConfigError(str(folder), [("", str(folder), "another process is running this campaign")]) from None
    return file
