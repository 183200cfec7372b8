"""What every table is made of: the metadata with its names, and JSON columns."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlalchemy import JSON, Column, MetaData
from sqlmodel import Field, SQLModel

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Row(SQLModel):
    metadata: ClassVar[MetaData] = METADATA


def json_column(nullable: bool = False) -> Any:
    return Field(sa_column=Column(JSON(none_as_null=nullable), nullable=nullable))
