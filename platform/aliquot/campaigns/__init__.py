"""The campaign engine: propose → verify → select → dispatch → collect → reward, each step a short transaction.

What is to be done next is read from the ledger, never from memory, so an engine that was killed anywhere goes on when
it is started again.
"""
