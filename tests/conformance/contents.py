"""What the conformance suite wants to find: contents, schemas and texts, word for word. Pure data, no protocol."""

from __future__ import annotations

import json
from typing import Any

from mcp import types

from tests.conformance import task_tools
from tests.conformance.rounds import ROUNDS

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""One red pixel."""
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
"""One silent sample."""

STATIC_TEXT = "test://static-text"
STATIC_BINARY = "test://static-binary"
WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"

IMAGE = types.ImageContent(data=PNG, mime_type="image/png")

TOOL_CONTENTS: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [types.TextContent(text="This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        types.EmbeddedResource(
            resource=types.TextResourceContents(
                uri="test://embedded-resource",
                mime_type="text/plain",
                text="This is an embedded resource content.",
            )
        )
    ],
    "test_multiple_content_types": [
        types.TextContent(text="Multiple content types test:"),
        IMAGE,
        types.EmbeddedResource(
            resource=types.TextResourceContents(
                uri="test://mixed-content-resource",
                mime_type="application/json",
                text='{"test":"data","value":123}',
            )
        ),
    ],
    "test_reconnection": [types.TextContent(text="Reconnection test completed successfully")],
}
"""The tools that do nothing but answer."""

ERROR = "This tool intentionally returns an error for testing"
LOGGED = ("Tool execution started", "Tool processing data", "Tool execution completed")
PROGRESS = (0.0, 50.0, 100.0)

_TITLED = [{"const": f"value{number}", "title": f"{word} Option"} for number, word in ((1, "First"), (2, "Second"))]
_CHOICES = [{"const": f"value{number}", "title": f"{word} Choice"} for number, word in ((1, "First"), (2, "Second"))]
_PLAIN = ["option1", "option2", "option3"]
_TEXT = {"type": "string"}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": _object(
        {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "username",
        "email",
    ),
    "test_elicitation_sep1034_defaults": _object(
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
    ),
    "test_elicitation_sep1330_enums": _object(
        {
            "untitledSingle": {"type": "string", "enum": _PLAIN},
            "titledSingle": {"type": "string", "oneOf": _TITLED},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _PLAIN}},
            "titledMulti": {"type": "array", "items": {"anyOf": _CHOICES}},
        }
    ),
}
"""What the tools that ask the person ask for."""

_ADDRESS = {"$anchor": "addressDef", "type": "object", "properties": {"street": _TEXT, "city": _TEXT}}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "test_sampling": _object({"prompt": _TEXT}, "prompt"),
    "test_elicitation": _object({"message": _TEXT}, "message"),
    "test_custom_header": _object({"region": {"type": "string", "x-mcp-header": "Region"}}),
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": _ADDRESS},
        "properties": {
            "name": _TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": _TEXT,
            "email": _TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
}
_NAMES = (
    *TOOL_CONTENTS,
    *FORMS,
    *ROUNDS,
    *task_tools.NAMES,
    "greet",
    "test_missing_capability",
    "test_logging_tool",
    "test_custom_header",
    "test_error_handling",
    "test_sampling",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "json_schema_2020_12_tool",
)
TOOLS = [
    types.Tool(name=name, description=f"What the suite calls {name}.", input_schema=_SCHEMAS.get(name, _object({})))
    for name in _NAMES
]
SCHEMA_OF = {tool.name: tool.input_schema for tool in TOOLS}

RESOURCES = [
    types.Resource(uri=STATIC_TEXT, name="text", description="A text.", mime_type="text/plain"),
    types.Resource(uri=STATIC_BINARY, name="binary", description="An image.", mime_type="image/png"),
    types.Resource(uri=WATCHED, name="watched", description="One to subscribe to.", mime_type="text/plain"),
]
TEMPLATES = [
    types.ResourceTemplate(uri_template=TEMPLATE, name="template", description="Any.", mime_type="application/json")
]

PROMPTS = [
    types.Prompt(name="test_simple_prompt", description="Without arguments."),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="With two.",
        arguments=[
            types.PromptArgument(name=name, description="A word.", required=True) for name in ("arg1", "arg2")
        ],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource",
        description="With a resource in it.",
        arguments=[types.PromptArgument(name="resourceUri", description="Its URI.", required=True)],
    ),
    types.Prompt(name="test_prompt_with_image", description="With an image in it."),
    types.Prompt(name="test_input_required_result_prompt", description="One that asks."),
]


def resource_at(uri: str) -> types.TextResourceContents | types.BlobResourceContents | None:
    """Return what is at `uri`; None where there is nothing."""
    if uri == STATIC_TEXT:
        text = "This is the content of the static text resource."
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    if uri == STATIC_BINARY:
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri == WATCHED:
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text="Nothing has happened.")
    before, after = TEMPLATE.split("{id}")
    if uri.startswith(before) and uri.endswith(after):
        name = uri.removeprefix(before).removesuffix(after)
        data = {"id": name, "templateTest": True, "data": f"Data for ID: {name}"}
        return types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    return None


def prompt_of(name: str, arguments: dict[str, str]) -> list[types.ContentBlock] | None:
    """Return what the messages of a prompt hold; None where there is no such prompt."""
    if name == "test_simple_prompt":
        return [types.TextContent(text="This is a simple prompt for testing.")]
    if name == "test_prompt_with_arguments":
        text = ", ".join(f"{key}={arguments.get(key, '')!r}" for key in ("arg1", "arg2"))
        return [types.TextContent(text=f"Prompt with arguments: {text}")]
    if name == "test_prompt_with_embedded_resource":
        embedded = types.TextResourceContents(
            uri=arguments.get("resourceUri", ""),
            mime_type="text/plain",
            text="Embedded resource content for testing.",
        )
        instruction = types.TextContent(text="Please process the embedded resource above.")
        return [types.EmbeddedResource(resource=embedded), instruction]
    if name == "test_input_required_result_prompt":
        return [types.TextContent(text="Prompt with the context that was asked for.")]
    if name == "test_prompt_with_image":
        return [IMAGE, types.TextContent(text="Please analyze the image above.")]
    return None
