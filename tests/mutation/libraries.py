"""Imports what the tests of most mutants import of others, once for all of them: see warm_pytest.py."""

# ruff: noqa: F401

import hypothesis.strategies
import kopf
import kubernetes.client
import mcp
import msgspec.json
import pydantic.json_schema
import pytest_asyncio
import uvicorn
import yaml
from cryptography.hazmat.primitives import hashes, serialization
