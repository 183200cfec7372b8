"""Reward functions for `prime_reward`, as an environment of Prime Intellect's `verifiers` would hold them."""


def short(completion, info, **kwargs):
    """1 for a design of at most so many symbols."""
    return float(len(completion[-1]["content"]) <= info["symbols"])


async def ends_well(completion, answer):
    """1 for a design that ends as it should."""
    return float(completion[-1]["content"].endswith(answer))
