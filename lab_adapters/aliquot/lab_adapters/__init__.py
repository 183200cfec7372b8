"""Laboratories: the contract (`sdk`), the built-in ones, and how a campaign's lab is found and made."""

from aliquot.lab_adapters.registry import create_lab, lab_class, lab_types
from aliquot.lab_adapters.sdk import LabAdapter

__all__ = ["LabAdapter", "create_lab", "lab_class", "lab_types"]
