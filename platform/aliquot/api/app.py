"""The FastAPI application of one data folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.trustedhost import TrustedHostMiddleware

from aliquot.api import campaigns, index, plugins, problems
from aliquot.api.bodies import BodyLimit
from aliquot.api.folders import Folders
from aliquot.api.supervisor import Supervisor

PREFIX = "/api/v1"
LOCAL_NAMES = ["127.0.0.1", "localhost"]
"""What a request may call this host: a foreign name that resolves here is a page of another site."""


def create_app(data: Path) -> FastAPI:
    """The API and its page over the campaigns in `data`. Workers live while the application does."""
    folders = Folders(data)
    supervisor = Supervisor(folders, limit=max(1, (os.cpu_count() or 1) // 2))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        supervisor.start()
        try:
            yield
        finally:
            await run_in_threadpool(supervisor.stop)
            folders.close()

    app = FastAPI(
        title="Aliquot",
        version=version("aliquot"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.data, app.state.folders = data, folders
    problems.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOCAL_NAMES)
    app.include_router(campaigns.router, prefix=PREFIX)
    app.include_router(plugins.router, prefix=PREFIX)
    app.include_router(index.router)
    return app
