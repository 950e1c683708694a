# The official client for Python: connects, uses most features of the server, and prints the results as JSON.
# Arguments: the era (`legacy` or `auto`), then a URL or a command.
import json
import os
import sys

import anyio
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult, PromptReference


async def reply(context, params):
    return ElicitResult(action="accept", content={"name": "Oslo"})


async def main(era, command, *args):
    target = command
    if not command.startswith("http"):
        target = stdio_client(StdioServerParameters(command=command, args=list(args), env=dict(os.environ)))
    async with Client(target, mode=era, elicitation_callback=reply) as client:
        tools = (await client.list_tools()).tools
        with_schema = next(tool for tool in tools if tool.name == "json_schema_2020_12_tool")

        async def text(name, arguments=None):
            result = await client.call_tool(name, arguments or {})
            return [block.model_dump(include={"type", "text"}) for block in result.content]

        async def structured(name, arguments):
            return (await client.call_tool(name, arguments)).structured_content

        async def is_error(name):
            return (await client.call_tool(name, {})).is_error

        async def error_code(name):
            try:
                await client.call_tool(name, {})
            except MCPError as error:
                return error.error.code

        progress = []

        async def on_progress(done, total, message):
            progress.append(done)

        await client.call_tool("test_tool_with_progress", {}, progress_callback=on_progress)
        completion = await client.complete(
            PromptReference(type="ref/prompt", name="test_prompt_with_arguments"),
            {"name": "arg1", "value": "par"},
        )
        results = {
            "revision": client.protocol_version,
            "server": client.server_info.name,
            "tools": len(tools),
            "extra": with_schema.input_schema["$defs"]["address"]["$anchor"],
            "echo": await text("echo", {"text": "grüß dich"}),
            "ordered": await structured("order", {"thing": "tea", "count": 2, "explicit_action": "ORDER"}),
            "violations": (await structured("order", {"count": 10, "explicit_action": "ORDER"}))["data"]["validation_errors"],
            "failed": await is_error("test_error_handling"),
            "panicked": await is_error("test_panic"),
            "unknownTool": await error_code("no_such_tool"),
            "elicited": await text("test_input_required_result_elicitation"),
            "resource": (await client.read_resource("test://template/7/data")).contents[0].text,
            "prompt": len((await client.get_prompt("test_simple_prompt")).messages),
            "completed": completion.completion.values,
            "progress": progress,
        }
    print(json.dumps(results))


anyio.run(main, *sys.argv[1:])
