"""Parts of the benchmark `delayed_learning`: tasks, laboratory, campaign, the REINVENT loop, curves, and the cache."""
