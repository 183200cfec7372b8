"""Alphabet, length, motifs, GC content, repeats and codons."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.domain import ConfigError, Design
from aliquot.verifiers.builtin.sequences.alphabet import Alphabet
from aliquot.verifiers.builtin.sequences.codon_adaptation import CodonAdaptation
from aliquot.verifiers.builtin.sequences.codon_tables import ADAPTIVENESS, AMINO_ACID, STOPS
from aliquot.verifiers.builtin.sequences.forbidden_motifs import ForbiddenMotifs
from aliquot.verifiers.builtin.sequences.gc_content import GcContent
from aliquot.verifiers.builtin.sequences.length import Length
from aliquot.verifiers.builtin.sequences.reading import reverse_complement
from aliquot.verifiers.builtin.sequences.repeats import Repeats, longest_run, longest_tandem, longest_twice
from aliquot.verifiers.registry import validate_config
from aliquot.verifiers.sdk import Score

RPSU = (
    "atgccggtaattaaagtacgtgaaaacgagccgttcgacgtagctctgcgtcgcttcaagcgttcctgcgaaaaagcaggtgttctggcggaagttcgtcgtcgtgag"
    "ttctatgaaaaaccgactaccgaacgtaagcgcgctaaagcttctgcagtgaaacgtcacgcgaagaaactggctcgcgaaaacgcacgccgcactcgtctgtactaa"
)
"""rpsU of E. coli, the gene that Sharp and Li work through; NC_000913 3210781..3210996."""


def judge(cls: Any, config: dict[str, Any], sequence: str) -> Score:
    verifier = cls(cls.Config.model_validate(config))
    (score,) = verifier.verify([Design(kind="sequence", value=sequence)])
    return score


def test_the_alphabet_names_what_is_foreign_and_where():
    score = judge(Alphabet, {"alphabet": "rna"}, "ACGUTACGUT")
    assert score.score == pytest.approx(0.8) and score.reason == "'T' (first at position 5) is not in the alphabet"
    assert judge(Alphabet, {"alphabet": "HP"}, "HPPH").accepted
    assert not judge(Alphabet, {"alphabet": "protein", "most": {"C": 0.2}}, "ACCD").accepted


@pytest.mark.parametrize(("sequence", "accepted"), [("ACG", True), ("ACGA", False), ("A" * 15, False), ("AC", False)])
def test_the_length_is_within_limits_and_in_whole_codons(sequence, accepted):
    score = judge(Length, {"minimum": 3, "maximum": 12, "multiple_of": 3}, sequence)
    assert (score.score, score.accepted) == (len(sequence), accepted)


def test_a_motif_is_found_on_both_strands_where_the_written_strand_has_it():
    bsai = {"motifs": [{"pattern": "GGTCTC", "name": "BsaI"}]}
    score = judge(ForbiddenMotifs, bsai, "TTGGTCTCAAGAGACCTT")  # GAGACC is GGTCTC of the other strand
    assert score.score == 2
    assert [hit["start"] for hit in score.values["hits"]] == [3, 11]
    assert judge(ForbiddenMotifs, {**bsai, "both_strands": False}, "TTGGTCTCAAGAGACCTT").score == 1


def test_a_palindrome_counts_once_and_overlaps_count_each():
    assert judge(ForbiddenMotifs, {"motifs": [{"pattern": "GAATTC"}]}, "AGAATTCA").score == 1  # EcoRI
    assert judge(ForbiddenMotifs, {"motifs": [{"pattern": "AAA"}], "both_strands": False}, "AAAAA").score == 3


def test_iupac_letters_mean_what_iupac_says():
    bglI = {"motifs": [{"pattern": "GCCNNNNNGGC"}]}
    assert judge(ForbiddenMotifs, bglI, "TTGCCATGCAGGCTT").score == 1
    assert judge(ForbiddenMotifs, {"motifs": [{"pattern": "RY"}], "both_strands": False}, "AACC").score == 1
    glycosylation = {"motifs": [{"pattern": "N[^P][ST][^P]", "syntax": "regex"}], "alphabet": "protein"}
    assert judge(ForbiddenMotifs, glycosylation, "MANGSKNPSA").score == 1
    assert judge(ForbiddenMotifs, {"motifs": [{"pattern": "BXZ"}], "alphabet": "protein"}, "ADWEA").score == 1


@settings(max_examples=60, deadline=None)
@given(st.text("ACGT", min_size=1, max_size=60), st.text("ACGTRYN", min_size=2, max_size=5))
def test_both_strands_are_the_strand_and_its_reverse_complement(sequence, motif):
    config = {"motifs": [{"pattern": motif}]}
    assert (
        judge(ForbiddenMotifs, config, sequence).score
        == judge(ForbiddenMotifs, config, reverse_complement(sequence)).score
    )


def test_gc_content_of_the_whole_and_of_its_windows():
    config = {"low": 0.4, "high": 0.6, "window": 4, "window_high": 0.75}
    score = judge(GcContent, config, "ATATGCGCATAT")
    assert score.score == pytest.approx(4 / 12)
    assert score.values == {"lowest_window": 0.0, "highest_window": 1.0}
    assert "GC content is 33.3%" in score.reason and "window at 5 is 100.0%" in score.reason
    assert judge(GcContent, {"window": 50, "window_low": 0.5}, "GCAU").accepted  # shorter than the window, and RNA


@pytest.mark.parametrize(
    ("sequence", "run", "tandem", "twice"),
    [
        ("ACGGGGT", (4, 2), ("", 0), "GGG"),
        ("CACACACAG", (1, 0), ("CA", 4), "CACACA"),
        ("AATGATGATGC", (2, 0), ("ATG", 3), "ATGATG"),
        ("ACGT", (1, 0), ("", 0), ""),
        ("GATTACAxxGATTACA", (2, 2), ("", 0), "GATTACA"),
        ("AAAA", (4, 0), ("", 0), "AAA"),
        ("A", (1, 0), ("", 0), ""),
    ],
)
def test_repeats_are_those_seen_by_eye(sequence, run, tandem, twice):
    assert longest_run(sequence) == run
    assert longest_tandem(sequence, 6) == tandem
    assert longest_twice(sequence) == twice


@settings(max_examples=60, deadline=None)
@given(st.text("AC", min_size=1, max_size=24))
def test_repeats_agree_with_a_search_over_everything(sequence):
    assert longest_run(sequence)[0] == max(len(m[0]) for m in re.finditer(r"(.)\1*", sequence))
    stretches = [sequence[i:j] for i in range(len(sequence)) for j in range(i + 1, len(sequence) + 1)]
    assert len(longest_twice(sequence)) == max((len(s) for s in stretches if stretches.count(s) > 1), default=0)
    units = {"".join(u) for size in (2, 3) for u in product("AC", repeat=size)}
    plain = [u for u in units if not any(u == u[:k] * (len(u) // k) for k in range(1, len(u)) if len(u) % k == 0)]
    copies = max(n for n in range(25) if n < 2 or any(u * n in sequence for u in plain))
    assert longest_tandem(sequence, 3)[1] == (copies if copies > 1 else 0)


def test_repeats_are_refused_beyond_what_is_asked():
    config = {"run": 3, "copies": 2, "twice": 4}
    assert judge(Repeats, config, "ACGTTGCA").accepted
    reason = judge(Repeats, config, "GGGGACACACTTTGATC").reason
    assert "G 4 times in a row at position 1" in reason and "AC 3 times in a row" in reason
    assert "CTTGAC (6 symbols) occurs twice" in judge(Repeats, config, "CTTGACATCTTGAC").reason


def test_the_codon_adaptation_index_of_rpsU_is_that_of_sharp_and_li():
    score = judge(CodonAdaptation, {}, RPSU)
    assert score.score == pytest.approx(
        0.7260113974828158, rel=1e-12
    )  # the package CAI on the published table; paper: 0.726
    assert score.accepted


def test_the_codon_adaptation_index_is_a_geometric_mean_over_codons_with_a_choice():
    # TTT 0.296, CGC 0.356 in E. coli; ATG, TGG and the stop count for nothing
    assert judge(CodonAdaptation, {}, "ATGUUUCGCTGGTAA").score == pytest.approx(math.sqrt(0.296 * 0.356))
    assert judge(CodonAdaptation, {"organism": "s_cerevisiae"}, "TTTCGC").score == pytest.approx(
        math.sqrt(0.113 * 0.002)
    )
    # human: TTT 0.46 against TTC 0.54, CGC 0.18 against AGA 0.21
    expected = math.sqrt(0.46 / 0.54 * 0.18 / 0.21)
    assert judge(CodonAdaptation, {"organism": "h_sapiens"}, "TTTCGC").score == pytest.approx(expected)


def test_the_code_is_whole_and_every_amino_acid_has_a_best_codon():
    every = {"".join(codon) for codon in product("ACGT", repeat=3)}
    assert every == AMINO_ACID.keys() | set(STOPS) and len(AMINO_ACID) == 61
    assert len(set(AMINO_ACID.values())) == 20
    for weights in ADAPTIVENESS.values():
        assert len(weights) == 59
        best = {AMINO_ACID[codon] for codon, weight in weights.items() if weight == 1}
        assert best == set(AMINO_ACID.values()) - {"M", "W"}


def test_what_is_no_reading_frame_is_refused_with_the_floor():
    inside = judge(CodonAdaptation, {}, "ATGTAACTG")
    assert (inside.score, inside.accepted) == (0, False) and "TAA inside, at position 4" in inside.reason
    assert "no whole number of codons" in judge(CodonAdaptation, {}, "ATGC").reason


def test_own_usage_takes_the_place_of_a_table():
    usage = dict.fromkeys(ADAPTIVENESS["e_coli"], 1.0) | {"TTC": 4.0}
    assert judge(CodonAdaptation, {"usage": usage}, "TTTTTC").score == pytest.approx(math.sqrt(0.25))


@pytest.mark.parametrize(
    ("cls", "sequence", "says"),
    [
        (GcContent, "ACGN", "'N' at position 4"),
        (CodonAdaptation, "MKLV", "'M' at position 1"),
        (CodonAdaptation, "ATGTGG", "no codon with a choice"),
        (Repeats, "", "the sequence is empty"),
    ],
)
def test_a_malformed_sequence_is_an_error_and_never_a_score(cls, sequence, says):
    with pytest.raises(ValueError, match=says):
        judge(cls, {}, sequence)


@pytest.mark.parametrize(
    ("type", "config", "says"),
    [
        ("alphabet", {"alphabet": "AAC"}, "different symbols"),
        ("alphabet", {"alphabet": "dna", "most": {"X": 0.1}}, "'X' is no symbol"),
        ("length", {"minimum": 4, "maximum": 5, "multiple_of": 3}, "nothing can pass"),
        ("forbidden_motifs", {"motifs": [{"pattern": "GAX"}]}, "'X' is no IUPAC letter for dna"),
        ("forbidden_motifs", {"motifs": [{"pattern": "A(", "syntax": "regex"}]}, "no regular expression"),
        ("forbidden_motifs", {"motifs": [{"pattern": "A*", "syntax": "regex"}]}, "matches the empty text"),
        ("gc_content", {"window_low": 0.2}, "need the length of a `window`"),
        ("gc_content", {"low": 0.8, "high": 0.2}, "nothing can pass"),
        ("codon_adaptation", {"organism": "e-coli"}, "config.organism"),
        ("codon_adaptation", {"usage": {"TTT": 1}}, "58 of 59 codons are missing"),
    ],
)
def test_a_wrong_configuration_says_where_and_how_to_mend_it(type, config, says):
    with pytest.raises(ConfigError) as error:
        validate_config(type, config)
    assert says in str(error.value)
