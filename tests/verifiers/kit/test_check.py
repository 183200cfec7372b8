"""Each check finds the fault that it is named for. Plain processes: what the sandbox adds is tested where it lives."""

from __future__ import annotations

import pytest

from aliquot.domain import ConfigError
from aliquot.verifiers.kit import checks, corpus
from aliquot.verifiers.kit.check import check
from aliquot.verifiers.kit.judging import QUICK, Settings
from aliquot.verifiers.kit.report import Report
from aliquot.verifiers.kit.subject import Subject

TINY = Settings(rounds=4, examples=10, ordinary=5)
GOOD = """
    class Mine(PointwiseVerifier):
        '''Number of K.'''
        name, version = "mine", "1"
        kinds = ("sequence",)
        needs = Needs(seconds=2, memory_mb=800)
        bounds = (0, None)
        fixtures = (
            Fixture.full("sequence", "KKKK", at_least=4),
            Fixture.zero("sequence", "EEEE", at_most=0),
            Fixture.malformed("sequence", ""),
            Fixture.seeded("sequence", "KEK"),
        )

        def verify(self, designs):
            return [Score(self.count(d.value), accepted=bool(d.value)) for d in designs]

        def count(self, text):
            return float(text.count("K"))
"""


@pytest.fixture
def finding(written):
    """Runs one check on a changed GOOD."""

    def run(name: str, *changes: tuple[str, str], more: str = ""):
        body = GOOD
        for old, new in changes:
            assert old in body
            body = body.replace(old, new)
        subject = Subject(written(body + more), trust=True, patience=3)
        try:
            return dict(checks.table())[name](subject, TINY)
        finally:
            subject.close()

    return run


COUNT = 'return float(text.count("K"))'
SCORES = "return [Score(self.count(d.value), accepted=bool(d.value)) for d in designs]"


def test_a_good_verifier_passes_every_check(written):
    seen = []
    report = check(written(GOOD), trust=True, settings=TINY, say=seen.append)
    assert report.passed, [f"{f.check}: {f.why}" for f in report.failed]
    assert [f.check for f in report.findings] == ["loads", *dict(checks.table())] and list(report.findings) == seen
    assert not report.contained and "NOT in the sandbox" in next(f.why for f in seen if f.check == "containment")
    assert Report.model_validate_json(report.model_dump_json()) == report


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("declarations", [("'''Number of K.'''", "")], "no docstring"),
        ("fixtures", [('Fixture.malformed("sequence", ""),', "")], "no malformed case"),
        ("full_cases", [("at_least=4", "at_least=5")], "scored 4; at least 5"),
        ("zero_cases", [('"EEEE", at_most=0', '"KE", at_most=0')], "scored 1; at most 0"),
        ("malformed_cases", [("accepted=bool(d.value)", "accepted=True")], "was accepted"),
        ("seeded_cases", [(COUNT, "return random.random()")], "the first worker said"),
        ("floor_and_ceiling", [("(0, None)", "(1, None)")], "below the floor 1"),
        ("floor_and_ceiling", [(COUNT, "return 1.0")], "cannot tell them apart"),
        ("floor_and_ceiling", [(COUNT, "raise ValueError('gone')")], "no design at all was judged"),
        ("determinism", [(COUNT, "self.n = getattr(self, 'n', 0) + 1; return float(self.n)")], "first"),
        ("determinism", [(COUNT, "return float(os.getpid())")], "in one worker"),
        ("one_by_one", [(COUNT, "raise"), (SCORES, "return [Score(float(len(designs))) for d in designs]")], "alone"),
        ("one_by_one", [(SCORES, "return [Score(float(i)) for i, d in enumerate(designs)]")], "alone"),
        ("time_per_call", [(COUNT, "time.sleep(1.5); return 1.0")], "of the 2 s it declares"),
        ("memory_per_call", [(COUNT, "sys.modules.setdefault('kept', []).append(bytearray(2**21)); return 1.0")],
         "MiB gained over"),
        ("adversarial_corpus", [(COUNT, "os.abort() if len(text) > 4000 else 0; return 1.0")], "ended the worker"),
        ("adversarial_corpus", [(COUNT, "return 1.0 - 2 * (text == 'NaN')")], "below the floor"),
        ("adversarial_generated", [(COUNT, "return float(-('A' in text))")], "'A' scored -1.0, below the floor"),
    ],
)  # fmt: skip
def test_a_fault_is_found_by_the_check_that_is_named_for_it(finding, name, changes, says):
    found = finding(name, *changes)
    assert found.status == "fail" and says in found.why


def test_a_hidden_answer_that_is_told_is_found(finding):
    answer = ('Fixture.seeded("sequence", "KEK"),', 'Fixture.seeded("sequence", "KEK", answer="WWHIDDENWW"),')
    assert finding("no_leakage", answer).status == "pass"
    for leak in ("'it is wwhidden ww'", "'WWHIDDENWW'[::-1]", "'WWHIDDENWW'.encode().hex()", "'V1dISURERU5XVw=='"):
        found = finding("no_leakage", answer, (SCORES, f"return [Score(0.0, reason={leak}) for d in designs]"))
        assert found.status == "fail" and "gave away the answer" in found.why


MEMORY = """
    class Mine(SetVerifier):
        '''Whether it is new.'''
        name, version = "mine", "1"
        kinds = ("sequence",)

        def __init__(self, config):
            super().__init__(config)
            self.seen, self.last = [], ""

        def verify(self, designs):
            for d in designs:
                yield Score(float(d.value not in self.seen) + 2 * (d.value[:1] == self.last))
                self.seen.append(d.value)
                self.last = d.value[:1]

        def state(self):
            return [self.seen, self.last]

        def restore(self, state):
            self.seen, self.last = state or [[], ""]
"""


def test_a_memory_that_loses_something_is_found(written):
    replays = dict(checks.table())["memory_replays"]
    for change, status in (
        (("", ""), "pass"),
        (("self.seen, self.last = state or", "self.seen, _ = state or"), "fail"),
        (("return [self.seen, self.last]", "return [self.seen[-1:], self.last]"), "fail"),
        (("for d in designs:", "for d in sorted(designs, key=lambda d: d.value):"), "fail"),
    ):
        subject = Subject(written(MEMORY.replace(*change)), trust=True)
        found = replays(subject, TINY)
        subject.close()
        assert found.status == status, (change, found.why)


SLOW = """
    DONE = {}

    class Mine(SlowVerifier):
        '''Number of K, later.'''
        name, version = "mine", "1"
        kinds = ("sequence",)

        def submit(self, designs):
            return [d.value for d in designs]

        def poll(self, tickets):
            return {t: Score(float(t.count("K"))) for t in tickets}
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", ""),
        ("return [d.value for", "return [DONE.setdefault(d.value, d.value) for", ""),
        ("for t in tickets}", "for t in tickets if not DONE.setdefault(t, False)} | {t: DONE.update({t: True}) or "
         "Score(1.0) for t in tickets if not DONE[t]}", "asked again"),
        ("return [d.value for", "return [DONE.setdefault(d.value, d.value) for", ""),
        ("for t in tickets}", "for t in tickets if t in DONE}", "no answer within"),
    ],
)  # fmt: skip
def test_the_contract_of_those_that_answer_later_is_held(written, old, new, says):
    body = SLOW.replace(old, new) if old else SLOW
    subject = Subject(written(body), trust=True, patience=0.5)
    found = dict(checks.table())["slow_contract"](subject, TINY)
    subject.close()
    assert found.status == ("fail" if says else "pass") and says in found.why


def test_a_job_that_dies_with_its_process_is_found(written):
    body = SLOW.replace(
        "return [d.value for d in designs]", "DONE.update({d.value: 1 for d in designs}); return [*DONE]"
    )
    body = body.replace("for t in tickets}", "for t in tickets if t in DONE}")
    subject = Subject(written(body), trust=True, patience=0.5)
    found = dict(checks.table())["slow_contract"](subject, TINY)
    subject.close()
    assert found.status == "fail" and "pending for ever" in found.why


def test_a_plugin_that_does_not_load_is_a_finding_and_a_wrong_name_is_an_error(written):
    report = check(written("raise RuntimeError('no model')"), trust=True)
    assert not report.passed and "no model" in report.findings[0].why
    with pytest.raises(ConfigError, match="did you mean"):
        check("qeed")


def test_a_configuration_of_ones_own_is_checked_and_fixtures_keep_their_example(written):
    body = GOOD.replace("def verify", "class Config(VerifierConfig):\n            limit: int = 9\n\n        def verify")
    report = check(written(body), {"limit": 1}, trust=True, settings=TINY)
    assert [f.check for f in report.failed] == ["declarations"] and "limit" in report.failed[0].why
    with pytest.raises(ConfigError, match="did you mean 'limit'"):
        check(written(body), {"limmit": 1}, trust=True)


def test_every_builtin_kind_has_hard_designs_and_malformed_smiles_are_none():
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        for case in corpus.adversarial("molecule"):
            molecule = Chem.MolFromSmiles(case.design.value)
            assert case.malformed == (molecule is None or molecule.GetNumAtoms() == 0), case.name
    for kind, least in (("molecule", 40), ("sequence", 20), ("conditions", 5)):
        hard = corpus.adversarial(kind)
        assert len(hard) >= least and len({case.name for case in hard}) == len(hard)
    assert len(corpus.adversarial("conditions", corpus.proper("conditions"))) > 15
    assert QUICK.examples < Settings().examples
