# The official client for Python: connects to the gateway, uses its features, and prints the results as JSON.
# Arguments: the era (`legacy` or `auto`), then a URL or a command. The variable MCP_TEST_KEY has the key, if there is one.
import json
import os
import sys

import anyio
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference


async def main(era, command, *args):
    target = command
    key = os.environ.get("MCP_TEST_KEY")
    if key:
        http = create_mcp_http_client(headers={"authorization": f"Bearer {key}"})
        target = streamable_http_client(command, http_client=http)
    elif not command.startswith("http"):
        target = stdio_client(StdioServerParameters(command=command, args=list(args), env=dict(os.environ)))
    async with Client(target, mode=era) as client:
        tools = (await client.list_tools()).tools
        echo = await client.call_tool("echo", {"text": "grüß dich"})
        image = await client.call_tool("test_image_content", {})
        failed = await client.call_tool("test_error_handling", {})
        unknown = None
        try:
            await client.call_tool("no_such_tool", {})
        except MCPError as error:
            unknown = error.error.code
        progress = []

        async def on_progress(done, total, message):
            progress.append(int(done))

        await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
        completion = await client.complete(
            PromptReference(type="ref/prompt", name="test_prompt_with_arguments"),
            {"name": "arg1", "value": "par"},
        )
        results = {
            "revision": client.protocol_version,
            "server": client.server_info.name,
            "tools": len(tools),
            "echo": [block.model_dump(include={"type", "text"}) for block in echo.content],
            "image": image.content[0].mime_type,
            "failed": failed.is_error,
            "unknownTool": unknown,
            "resource": (await client.read_resource("test://template/7/data")).contents[0].text,
            "prompt": len((await client.get_prompt("test_simple_prompt")).messages),
            "completed": completion.completion.values,
            "progress": progress,
        }
    print(json.dumps(results))


anyio.run(main, *sys.argv[1:])
