"""Verifiers that come with the project, one a file. RDKit is imported where a verifier is built, which is a worker."""
