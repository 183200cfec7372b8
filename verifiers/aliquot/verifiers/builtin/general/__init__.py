"""Verifiers that a campaign fills with its own knowledge: a schema, a formula, a trained model, tests for programs."""
