"""The HTTP face: campaigns under `/api/v1`, and a page that lists them.

The server holds nothing in memory that matters. Each campaign is a folder and, while it works, a process of its own, so
neither takes the other down, and a server that starts again finds everything where it was.
"""
