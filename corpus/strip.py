#!/usr/bin/env python3
"""Strips captured MCP tools to their shapes: names and input schemas without prose.

    python3 corpus/strip.py [FOLDER]            writes corpus/shapes.jsonl.gz
    python3 corpus/strip.py [FOLDER] --check    checks that the committed file is up to date

The same folder always produces the same bytes.
"""

import argparse
import gzip
import io
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = HERE / "shapes.jsonl.gz"

PROSE = {"description", "title", "examples", "example", "$comment", "markdownDescription", "note", "message"}

# Keywords with subschemas: one schema, a list of schemas, or schemas by name.
SCHEMA = {
    "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
}
SCHEMAS = {"prefixItems", "anyOf", "oneOf", "allOf"}
NAMED_SCHEMAS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}

# Longer strings in data are replaced with placeholders.
MAX_DATA_CHARS = 40


class Number(str):
    """A number as text, because its digits are part of the schema."""


def placeholder(text):
    """Returns text of the same length, up to 256 characters, so that size limits still apply."""
    return "x" * min(len(text), 256)


def strip_data(value):
    if isinstance(value, str) and not isinstance(value, Number) and len(value) > MAX_DATA_CHARS:
        return placeholder(value)
    if isinstance(value, list):
        return [strip_data(item) for item in value]
    if isinstance(value, dict):
        return {key: strip_data(item) for key, item in value.items()}
    return value


def strip_schema(schema):
    if not isinstance(schema, dict):
        return schema
    shape = {}
    for keyword, value in schema.items():
        if keyword in PROSE:
            continue
        if keyword in SCHEMA:
            value = strip_schema(value)
        elif keyword in SCHEMAS or (keyword == "items" and isinstance(value, list)):
            value = [strip_schema(item) for item in value] if isinstance(value, list) else value
        elif keyword == "items":
            value = strip_schema(value)
        elif keyword in NAMED_SCHEMAS and isinstance(value, dict):
            value = {name: strip_schema(item) for name, item in value.items()}
        elif keyword == "dependencies" and isinstance(value, dict):
            value = {name: strip_schema(item) for name, item in value.items()}
        elif keyword not in ("enum", "const", "$ref", "$id", "$schema", "$anchor", "pattern"):
            value = strip_data(value)
        shape[keyword] = value
    return shape


def write(value):
    """Returns JSON without white space, with the original digits of numbers."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(key, ensure_ascii=False) + ":" + write(item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(write(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def shapes(folder):
    lines = []
    for path in sorted(folder.glob("*.json"), key=lambda path: path.name):
        captured = json.loads(path.read_text(encoding="utf-8"), parse_int=Number, parse_float=Number)
        tools = [
            {"name": tool["name"], "inputSchema": strip_schema(tool.get("inputSchema"))}
            for tool in captured.get("tools", [])
        ]
        lines.append(write({"server": path.stem, "tools": tools}) + "\n")
    return "".join(lines).encode("utf-8")


def compress(text):
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write(text)
    return buffer.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=HERE.parent.parent / "shared" / "corpus")
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        print(f"error: `{arguments.folder}` is not a folder", file=sys.stderr)
        return 2
    text = shapes(arguments.folder)
    if arguments.check:
        # Compares the text, because the compressed bytes may differ between zlib versions.
        committed = gzip.decompress(SHAPES.read_bytes()) if SHAPES.exists() else b""
        if committed != text:
            print(f"error: `{SHAPES.name}` does not match `{arguments.folder}`\nhint: run corpus/strip.py", file=sys.stderr)
            return 1
        print(f"{SHAPES.name} is up to date")
        return 0
    compressed = compress(text)
    SHAPES.write_bytes(compressed)
    print(f"{text.count(bytes([10]))} servers, {len(text)} bytes, {len(compressed)} compressed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
