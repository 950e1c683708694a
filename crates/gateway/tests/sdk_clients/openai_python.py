"""The SDK of OpenAI for Python: conversations with tools of servers and of the client."""

import openai
from openai_support import *


@every
def check_text(new):
    chat = new()
    equal(chat.ask("say Grüße aus dem Tal"), "Grüße aus dem Tal")
    equal(chat.finish, chat.finished)
    chat.check_usage(1)
    equal(chat.ask("say Again"), "Again", "a second turn")


@every
def check_tools_of_servers(new):
    chat = new()
    equal(chat.ask("ours"), "Results: value of a.")
    equal((chat.finish, chat.calls), (chat.finished, []))
    chat.check_usage(2)
    equal(chat.ask("rounds"), chat.join(ROUNDS))
    chat.check_usage(3)
    equal(chat.ask("parallel"), PARALLEL)
    equal(chat.ask("picture"), PICTURE)
    equal(chat.ask("say done"), "done")


@every
def check_tools_of_client(new):
    chat = new()
    equal(chat.ask("client"), "I look.")
    equal([call[1:] for call in chat.calls], [("get_weather", '{"city":"Paris"}')])
    equal(chat.finish, chat.called)
    equal(chat.return_results(), "Results: sunny.")
    equal(chat.finish, chat.finished)
    chat.ask("clients")
    equal([call[1:] for call in chat.calls], [("get_weather", '{"city":"Paris"}'), ("get_time", "{}")])
    equal(chat.return_results(), "Results: sunny | noon.")
    equal(chat.ask("say end"), "end")


@every
def check_tools_of_both(new):
    chat = new()
    chat.ask("mixed")
    equal([call[1] for call in chat.calls], ["get_weather"])
    equal(chat.finish, chat.called)
    answer = chat.return_results()
    contains(answer, "value of a", "value of b", "sunny")
    equal(chat.ask("late"), chat.join(["First.", "Then."]))
    equal([call[1] for call in chat.calls], ["get_weather"])
    chat.check_usage(2)
    answer = chat.return_results()
    contains(answer, "value of a", "value of b", "sunny")
    equal(chat.ask("ours"), "Results: value of a.")


def check_refusal():
    for mode in ("whole", "raw"):
        chat = Chat(mode)
        equal((chat.ask("refusal"), chat.finish), ("I cannot help.", "content_filter"))
    raises(openai.ContentFilterFinishReasonError, lambda: Chat("helper").ask("refusal"))
    for mode in ("whole", "raw", "helper"):
        chat = Responses(mode)
        equal((chat.ask("refusal"), chat.finish), ("I cannot help.", "incomplete"))
        equal(chat.response.incomplete_details.reason, "content_filter")


def check_length():
    for mode in ("whole", "raw"):
        chat = Chat(mode)
        equal((chat.ask("length"), chat.finish), ("This is too", "length"))
    raises(openai.LengthFinishReasonError, lambda: Chat("helper").ask("length"))
    for mode in ("whole", "raw", "helper"):
        chat = Responses(mode)
        equal((chat.ask("length"), chat.finish), ("This is too", "incomplete"))
        equal(chat.response.incomplete_details.reason, "max_output_tokens")


def check_images():
    url = f"data:image/png;base64,{PNG}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "say seen"}]
    completion = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    equal(completion.choices[0].message.content, "seen")
    parts = [{"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": "say seen"}]
    equal(client.responses.create(model=MODEL, input=[{"role": "user", "content": parts}]).output_text, "seen")
    chat = Responses("whole")
    chat.ask("client")
    output = [{"type": "input_text", "text": "a map"}, {"type": "input_image", "image_url": url, "detail": "auto"}]
    chat.input.append({"type": "function_call_output", "call_id": chat.calls[0][0], "output": output})
    equal(chat.request(), "Results: a map [image].")


def check_reasoning_summary():
    for mode in ("whole", "raw", "helper"):
        chat = Responses(mode, reasoning={"summary": "auto"})
        equal(chat.ask("thinking"), "Done.")
        [reasoning, message] = chat.response.output
        equal((reasoning.type, reasoning.summary[0].text, message.type), ("reasoning", "Let me think.", "message"))
        equal(chat.ask("say next"), "next")
        equal(Chat(mode).ask("thinking"), "Done.")
        chat = Responses(mode)
        equal((chat.ask("thinking"), len(chat.response.output)), ("Done.", 1), "it is shown only on request")


@every
def check_same_name(new):
    # A tool of the client with the name of a server's tool is the client's.
    chat = new(tools=[new.tool("lookup", NOTHING)])
    chat.ask("ours")
    equal([call[1] for call in chat.calls], ["lookup"])


@every
def check_tool_choice(new):
    for mode in ("none", "auto", "required"):
        equal(new(tool_choice=mode).ask("say hi"), "hi", mode)
    # Only the first request to the model must call the tool.
    equal(new(tool_choice=new.choice("lookup")).ask("ours"), "Results: value of a.")
    chat = new(tool_choice=new.choice("get_weather"))
    chat.ask("client")
    equal([call[1] for call in chat.calls], ["get_weather"])
    equal(new(parallel_tool_calls=False).ask("ours"), "Results: value of a.")


@every
def check_many_tools(new):
    chat = new(tools=[new.tool(f"tool_{number}", WEATHER) for number in range(38)] + own_tools(new))
    chat.ask("client")
    equal(chat.return_results(), "Results: sunny.")
    equal(chat.ask("ours"), "Results: value of a.")


@every
def check_no_tools_of_servers(new):
    chat = new(extra_headers={"x-toolwire-servers": "none"})
    chat.ask("ours")
    equal(chat.ask("say hi"), "hi")


@every
def check_approval(new):
    chat = new()
    contains(chat.ask("delete"), "Results: ")
    if "deleted" in chat.ask("delete"):
        raise AssertionError("a call that needs approval was executed")


@every
def check_shown_calls(new):
    chat = new(extra_headers={"x-toolwire-show-calls": "true"})
    equal(chat.ask("rounds"), chat.join(ROUNDS))
    equal(chat.ask("parallel"), PARALLEL)
    chat.ask("late")
    contains(chat.return_results(), "value of a", "value of b", "sunny")


def hosted(mode, **options):
    return Responses(mode, tools=[{"type": "mcp", "server_label": "demo", **options}, *own_tools(Responses)])


def check_hosted_server():
    for mode in ("whole", "raw", "helper"):
        chat = hosted(mode, require_approval="never")
        equal(chat.ask("parallel"), PARALLEL)
        [tools, first, second, _] = chat.response.output
        contains([tool.name for tool in tools.tools], "lookup", "delete")
        equal((tools.type, tools.server_label, first.type), ("mcp_list_tools", "demo", "mcp_call"))
        found = (first.name, first.arguments, first.output, first.error, first.status)
        equal(found, ("lookup", '{"key":"a"}', "value of a", None, "completed"))
        equal((second.name, second.output, second.status), ("fail", None, "failed"))
        contains(str(second.error), "it is broken")
        equal(chat.ask("ours"), "Results: value of a.")
        equal([item.type for item in chat.response.output], ["mcp_call", "message"], "the tools are listed once")
        chat.ask("late")
        contains(chat.return_results(), "value of a", "value of b", "sunny")
        chat = hosted(mode, require_approval="never", allowed_tools=["lookup"])
        chat.ask("ours")
        equal([tool.name for tool in chat.response.output[0].tools], ["lookup"])


def check_approval_of_client():
    for mode in ("whole", "raw", "helper"):
        for approve, result in ((True, "value of a"), (False, "the user denied it")):
            chat = hosted(mode)
            chat.ask("ours")
            request = chat.response.output[-1]
            equal((request.type, request.name, request.arguments), ("mcp_approval_request", "lookup", '{"key":"a"}'))
            answer = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
            chat.input.append(answer)
            history = list(chat.input)
            contains(chat.request(), result)
            call = chat.response.output[0]
            if approve:
                equal((call.type, call.output, call.approval_request_id), ("mcp_call", "value of a", request.id))
            chat.input = history
            raises(openai.BadRequestError, chat.request)


def check_errors_of_hosted_servers():
    raises(openai.BadRequestError, lambda: Responses("whole", tools=[{"type": "mcp", "server_label": "x"}]).ask("ours"))
    foreign = {"type": "mcp", "server_label": "x", "server_url": "https://mcp.example/mcp"}
    raises(openai.PermissionDeniedError, lambda: Responses("whole", tools=[foreign]).ask("ours"))


def check_structured_output():
    for question in ("json", "rounds-json"):
        arguments = dict(model=MODEL, messages=user(question), response_format=Weather)
        equal(client.chat.completions.parse(**arguments).choices[0].message.parsed, PARIS)
        with client.chat.completions.stream(**arguments) as stream:
            equal(stream.get_final_completion().choices[0].message.parsed, PARIS)
        arguments = dict(model=MODEL, input=question, text_format=Weather)
        equal(client.responses.parse(**arguments).output_parsed, PARIS)
        with client.responses.stream(**arguments) as stream:
            equal(stream.get_final_response().output_parsed, PARIS)
    json_mode = dict(model=MODEL, messages=user("json"), response_format={"type": "json_object"})
    contains(client.chat.completions.create(**json_mode).choices[0].message.content, '"Paris"')


@every
def check_limit_of_steps(new):
    chat = new()
    contains(chat.ask("loop"), "Results: ")
    equal(chat.calls, [])


run(globals())
