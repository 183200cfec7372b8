"""Alembic's entry: the schema is what `aliquot.ledger.tables` declares."""

from alembic import context
from sqlalchemy import create_engine

from aliquot.ledger.tables import METADATA

engine = create_engine(context.config.get_main_option("sqlalchemy.url", ""))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
