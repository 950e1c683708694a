"""The SDK of Anthropic for Python: conversations with tools of servers and of the client."""

from anthropic_support import *


@every
def check_text(new):
    chat = new()
    equal(chat.ask("say Grüße aus dem Tal"), "Grüße aus dem Tal")
    equal(chat.finish, "end_turn")
    chat.check_usage(1)
    equal(chat.ask("say Again"), "Again", "a second turn")


@every
def check_tools_of_servers(new):
    chat = new()
    equal(chat.ask("ours"), "Results: value of a.")
    equal((chat.finish, chat.calls), ("end_turn", []))
    chat.check_usage(2)
    equal(chat.ask("rounds"), "\n\n".join(ROUNDS))
    chat.check_usage(3)
    equal(chat.ask("parallel"), PARALLEL)
    equal(chat.ask("picture"), PICTURE)
    equal(chat.ask("say done"), "done")


@every
def check_tools_of_client(new):
    chat = new()
    equal(chat.ask("client"), "I look.")
    equal([call[1:] for call in chat.calls], [("get_weather", {"city": "Paris"})])
    equal(chat.finish, "tool_use")
    equal(chat.return_results(), "Results: sunny.")
    equal(chat.finish, "end_turn")
    chat.ask("clients")
    equal([block.type for block in chat.message.content], ["tool_use", "tool_use"])
    equal([call[1:] for call in chat.calls], [("get_weather", {"city": "Paris"}), ("get_time", {})])
    equal(chat.return_results(), "Results: sunny | noon.")
    equal(chat.ask("say end"), "end")


@every
def check_tools_of_both(new):
    chat = new()
    chat.ask("mixed")
    equal([call[1] for call in chat.calls], ["get_weather"])
    equal(chat.finish, "tool_use")
    contains(chat.return_results(), "value of a", "value of b", "sunny")
    equal(chat.ask("late"), "First.\n\nThen.")
    equal([call[1] for call in chat.calls], ["get_weather"])
    chat.check_usage(2)
    contains(chat.return_results(), "value of a", "value of b", "sunny")
    equal(chat.ask("ours"), "Results: value of a.")


@every
def check_endings(new):
    chat = new()
    equal((chat.ask("refusal"), chat.finish), ("I cannot help.", "refusal"))
    equal((chat.ask("length"), chat.finish), ("This is too", "max_tokens"))


@every
def check_thinking(new):
    chat = new(thinking={"type": "enabled", "budget_tokens": 1024})
    equal(chat.ask("thinking"), "Done.")
    equal([block.type for block in chat.message.content], ["thinking", "text"])
    equal(chat.message.content[0].thinking, "Let me think.")
    equal(chat.ask("say next"), "next", "thinking can be sent back")
    chat = new()
    chat.ask("thinking")
    equal([block.type for block in chat.message.content], ["text"], "thinking is shown only on request")


@every
def check_errors_and_images_of_client(new):
    chat = new()
    chat.ask("clients")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    blocks = [
        {"type": "tool_result", "tool_use_id": chat.calls[0][0], "is_error": True, "content": "no such city"},
        {"type": "tool_result", "tool_use_id": chat.calls[1][0], "content": [image]},
    ]
    chat.messages.append({"role": "user", "content": blocks})
    equal(chat.request(), "Results: no such city | [image].")


def check_system_and_caching():
    cache = {"cache_control": {"type": "ephemeral"}}
    message = client.messages.create(
        model=MODEL,
        max_tokens=100,
        system=[{"type": "text", "text": "Be short.", **cache}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "ours", **cache}]}],
        tools=[{**TOOLS[0], **cache}],
    )
    equal(message.content[0].text, "Results: value of a.")


@every
def check_same_name(new):
    # A tool of the client with the name of a server's tool is the client's.
    chat = new(tools=[tool("lookup", NOTHING)])
    chat.ask("ours")
    equal([call[1] for call in chat.calls], ["lookup"])


@every
def check_tool_choice(new):
    for mode in ("none", "auto", "any"):
        equal(new(tool_choice={"type": mode}).ask("say hi"), "hi", mode)
    # Only the first request to the model must call the tool.
    equal(new(tool_choice={"type": "tool", "name": "lookup"}).ask("ours"), "Results: value of a.")
    chat = new(tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True})
    chat.ask("client")
    equal([call[1] for call in chat.calls], ["get_weather"])


@every
def check_many_tools(new):
    chat = new(tools=[tool(f"tool_{number}", WEATHER) for number in range(38)] + TOOLS)
    chat.ask("client")
    equal(chat.return_results(), "Results: sunny.")
    equal(chat.ask("ours"), "Results: value of a.")


@every
def check_approval(new):
    answer = new().ask("delete")
    contains(answer, "Results: ")
    if "deleted" in answer:
        raise AssertionError("a call that needs approval was executed")


@every
def check_shown_calls(new):
    chat = new(extra_headers={"x-toolwire-show-calls": "true"})
    equal(chat.ask("rounds"), "".join(ROUNDS))
    kinds = [block.type for block in chat.message.content]
    equal(kinds, ["text", "mcp_tool_use", "mcp_tool_result", "text", "mcp_tool_use", "mcp_tool_result", "text"])
    equal(chat.ask("parallel"), PARALLEL)
    chat.ask("late")
    contains(chat.return_results(), "value of a", "value of b", "sunny")


def check_hosted_server():
    arguments = dict(
        model=MODEL,
        max_tokens=100,
        mcp_servers=[{"type": "url", "name": "demo", "url": "toolwire://demo"}],
        tools=[{"type": "mcp_toolset", "mcp_server_name": "demo", "configs": {"picture": {"enabled": False}}}],
        betas=["mcp-client-2025-11-20"],
    )
    messages = user("parallel")
    whole = client.beta.messages.create(messages=messages, **arguments)
    with client.beta.messages.stream(messages=messages, **arguments) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        kinds = [block.type for block in message.content]
        equal(kinds, ["mcp_tool_use", "mcp_tool_result", "mcp_tool_use", "mcp_tool_result", "text"])
        [use, result, _, failed, text] = message.content
        equal((use.name, use.server_name, use.input), ("lookup", "demo", {"key": "a"}))
        equal((result.tool_use_id, result.is_error, failed.is_error), (use.id, False, True))
        equal(text.text, PARALLEL)
        content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]
        history = [*messages, {"role": "assistant", "content": content}, *user("ours")]
        equal(client.beta.messages.create(messages=history, **arguments).content[-1].text, "Results: value of a.")


def check_structured_output():
    for question in ("json", "rounds-json"):
        arguments = dict(model=MODEL, max_tokens=100, messages=user(question), output_format=Weather)
        equal(client.messages.parse(**arguments).parsed_output, PARIS)
        with client.messages.stream(**arguments) as stream:
            equal(stream.get_final_message().parsed_output, PARIS)


@every
def check_limit_of_steps(new):
    chat = new()
    contains(chat.ask("loop"), "Results: ")
    equal((chat.calls, chat.finish), ([], "end_turn"))


run(globals())
