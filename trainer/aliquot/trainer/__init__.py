"""Learning: policies, rollout engines, corrections, routing, losses, and the loop that turns late facts into gradients.

This room knows the ledger and the domain. It does not know campaigns, laboratories or HTTP.
"""
