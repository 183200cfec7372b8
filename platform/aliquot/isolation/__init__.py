"""Separate worker processes for code that may hang, crash, or exhaust a machine. No rule of the domain lives here.

`host` is what the rest of the house uses (`Service`, `Failure`). This file imports nothing, so that a worker starts
without pydantic or numpy.
"""
