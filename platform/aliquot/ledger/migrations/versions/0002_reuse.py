"""reuse counted apart

Revision: 0002, after 0001.
"""

import sqlalchemy as sa
import sqlmodel
from alembic import op


revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "reuse",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("proposal_id", sa.Integer(), nullable=False),
        sa.Column("lineage_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("coefficient", sa.Float(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["lineage_id"], ["lineage.id"], name=op.f("fk_reuse_lineage_id_lineage")),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name=op.f("fk_reuse_proposal_id_proposal")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reuse")),
    )
    op.create_index("ix_reuse_lineage_id_step", "reuse", ["lineage_id", "step"])


def downgrade() -> None:
    op.drop_index("ix_reuse_lineage_id_step", "reuse")
    op.drop_table("reuse")
