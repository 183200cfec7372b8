"""Numbers that this project promises, each printed by one command: `python -m benchmarks NAME [--full] [--json]`."""
