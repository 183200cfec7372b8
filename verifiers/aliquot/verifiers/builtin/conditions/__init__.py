"""Verifiers of reaction and process conditions, one a file. Parameters are named in the configuration."""
