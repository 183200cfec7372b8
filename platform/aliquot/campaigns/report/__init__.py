"""The page a run leaves behind: one HTML file that needs nothing else, neither network nor script."""

from aliquot.campaigns.report.page import render

__all__ = ["render"]
