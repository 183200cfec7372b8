"""`python -m aliquot.cli`: the same as the `aliquot` script."""

from aliquot.cli import app

app()
