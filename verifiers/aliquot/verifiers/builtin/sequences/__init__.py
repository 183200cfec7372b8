"""Verifiers of sequences, one a file: any alphabet, DNA and RNA, or proteins of the twenty standard amino acids."""
