"""judgements that wait for a slow verifier

Revision: 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op


revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "judgement",
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("design_key", sa.String(), nullable=False),
        sa.Column("board", sa.JSON(), nullable=False),
        sa.Column("asked_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_judgement_campaign_id_campaign")),
        sa.ForeignKeyConstraint(["design_key"], ["design.key"], name=op.f("fk_judgement_design_key_design")),
        sa.PrimaryKeyConstraint("campaign_id", "design_key", name=op.f("pk_judgement")),
    )


def downgrade() -> None:
    op.drop_table("judgement")
