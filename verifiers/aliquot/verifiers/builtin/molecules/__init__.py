"""Verifiers of molecules, one a file. Scores and limits are in the unit that each class names."""
