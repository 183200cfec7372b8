"""Verifiers whose configuration names something foreign: a REINVENT4 component, a program, a MolScore task, a reward
function of Prime Intellect's `verifiers`, a server.

Always true: what is foreign gives a finite number for a design, or the design has no score. Whatever goes wrong in it
(an exception, a wrong count, NaN, garbage, silence) is a typed error that names the item, never a score, also where
the foreign framework itself would have put a zero.
"""
