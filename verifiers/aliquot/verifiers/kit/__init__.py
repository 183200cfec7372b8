"""What proves a verifier before anything depends on it, and what packs, installs and removes it.

`check` runs the conformance checks; `controls` the known designs of a ladder; `scaffold`, `archive` and `install` are
the way of a plugin from an empty folder to a server. The gameability probe needs a policy and stands in `aliquot.cli`.
"""
