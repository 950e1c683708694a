"""The SDK of Anthropic for Python: errors, retries, cancelled requests, keys, and other paths."""

import asyncio

import anthropic
from anthropic_support import *


@in_loop
async def check_async(async_client):
    arguments = dict(model=MODEL, max_tokens=100)
    message = await async_client.messages.create(messages=user("ours"), **arguments)
    equal(message.content[0].text, "Results: value of a.")
    async with async_client.messages.stream(messages=user("rounds"), **arguments) as stream:
        equal("".join([text async for text in stream.text_stream]), "\n\n".join(ROUNDS))
    asked = [async_client.messages.create(messages=user(f"say {number}"), **arguments) for number in range(20)]
    equal([message.content[0].text for message in await asyncio.gather(*asked)], [str(n) for n in range(20)])


@in_loop
async def check_heartbeats(_):
    # The tool takes longer than the client waits for the next byte.
    async with AsyncAnthropic(base_url=GATEWAY_WITH_KEY, api_key=KEY, max_retries=0, timeout=9) as async_client:
        arguments = dict(model=MODEL, max_tokens=100, messages=user("wait 12000"))
        async with async_client.messages.stream(**arguments) as stream:
            equal("".join([text async for text in stream.text_stream]), "Results: waited.")


def check_lost_results():
    # Another gateway does not have the results of the servers' tools.
    other = Anthropic(base_url=GATEWAY_WITH_KEY, api_key=KEY, max_retries=0)
    chat = Chat("whole")
    chat.ask("mixed")
    result = {"type": "tool_result", "tool_use_id": chat.calls[0][0], "content": "sunny"}
    messages = [*chat.messages, {"role": "user", "content": [result]}]
    message = other.messages.create(model=MODEL, max_tokens=100, messages=messages, tools=TOOLS)
    equal(message.content[0].text, "Results: sunny.")


def check_errors_of_provider():
    cases = [
        (400, anthropic.BadRequestError, 400, "invalid_request_error"),
        (401, anthropic.InternalServerError, 502, "api_error"),
        (403, anthropic.InternalServerError, 502, "api_error"),
        (404, anthropic.NotFoundError, 404, "not_found_error"),
        (409, anthropic.ConflictError, 409, "invalid_request_error"),
        (422, anthropic.UnprocessableEntityError, 422, "invalid_request_error"),
        (429, anthropic.RateLimitError, 429, "rate_limit_error"),
        (500, anthropic.InternalServerError, 502, "api_error"),
        (503, anthropic.OverloadedError, 529, "overloaded_error"),
        (529, anthropic.OverloadedError, 529, "overloaded_error"),
        (504, anthropic.GatewayTimeoutError, 504, "timeout_error"),
    ]
    for status, kind, expected, type_name in cases:
        for request in requests(f"status {status}"):
            error = raises(kind, request)
            equal((error.status_code, error.body["error"]["type"]), (expected, type_name), f"status {status}")
            contains(error.request_id, "req_")
            if status not in (401, 403):
                contains(error.message, "the provider says no")


def check_errors_of_request():
    def request(**changes):
        arguments = {"model": MODEL, "max_tokens": 100, "messages": user("say hi"), **changes}
        return lambda: client.messages.create(**arguments)

    contains(raises(anthropic.NotFoundError, request(model="nobody")).message, "nobody")
    raises(anthropic.BadRequestError, request(tool_choice={"type": "tool", "name": "nothing"}))
    error = raises(anthropic.BadRequestError, request(messages=[{"role": "robot", "content": "hi"}]))
    contains(error.message, "messages[0].role")
    raises(anthropic.BadRequestError, request(messages=[]))
    with_path = Anthropic(base_url=f"{GATEWAY}/v1", api_key="any", max_retries=0)
    contains(raises(anthropic.NotFoundError, requests("say hi", with_path)[0]).message, "remove `/v1`")


def check_unknown_parameters_are_accepted():
    arguments = dict(model=MODEL, max_tokens=100, messages=user("say hi"))
    extra = {"temperature": 0.5, "top_k": 3, "context_management": {"edits": []}, "unknown": 1}
    message = client.messages.create(extra_body=extra, extra_headers={"anthropic-beta": "a,b"}, **arguments)
    equal(message.content[0].text, "hi")


def check_key():
    def with_key(**key):
        return Anthropic(base_url=GATEWAY_WITH_KEY, max_retries=0, **key)

    for request in requests("say hi", with_key(api_key="wrong")):
        equal(raises(anthropic.AuthenticationError, request).body["error"]["type"], "authentication_error")
    for key in ({"api_key": KEY}, {"auth_token": KEY}):
        for request in requests("say hi", with_key(**key)):
            request()
    raises(anthropic.AuthenticationError, lambda: with_key(api_key="wrong").models.list())


def check_broken_stream():
    for mode in ("raw", "helper"):
        error = raises(anthropic.APIStatusError, lambda: Chat(mode).ask("broken"))
        contains(str(error), "the connection was reset")
    raises(anthropic.InternalServerError, lambda: Chat("whole").ask("broken"))


def check_retries():
    retrying = Anthropic(base_url=GATEWAY, api_key="any", max_retries=1)
    cases = [
        ("late-status", anthropic.OverloadedError, ""),
        ("status 401", anthropic.InternalServerError, "once"),
        ("status 400", anthropic.BadRequestError, "once"),
        ("status 503", anthropic.OverloadedError, "twice"),
        ("status 429", anthropic.RateLimitError, "twice"),
    ]
    for scenario, kind, times in cases:
        for position in range(2):
            request = requests(f"{scenario} {position} {times}", retrying)[position]
            is_late_stream = scenario == "late-status" and position == 1
            error = raises(anthropic.APIStatusError if is_late_stream else kind, request)
            if is_late_stream:
                contains(str(error), "overloaded_error", "the provider is busy")


def check_idempotency_keys():
    # The first attempts time out, and the tool is called once.
    retrying = Anthropic(base_url=GATEWAY, api_key="any", max_retries=5, timeout=3.0)
    arguments = dict(model=MODEL, max_tokens=100, extra_headers={"Idempotency-Key": "messages"})
    question = user("wait 5000 messages keyed")
    first = retrying.messages.create(messages=question, **arguments)
    equal(first.content[0].text, "Results: waited.")
    equal(retrying.messages.create(messages=question, **arguments).id, first.id)
    again = lambda: retrying.messages.create(messages=user("say hi"), **arguments)
    raises(anthropic.UnprocessableEntityError, again)


def check_cancel():
    for text in ("hang", "wait"):
        stream = client.messages.create(model=MODEL, max_tokens=100, messages=user(text), stream=True)
        next(iter(stream))
        stream.close()
        with client.messages.stream(model=MODEL, max_tokens=100, messages=user(text)) as stream:
            next(iter(stream))


@in_loop
async def check_cancel_async(async_client):
    for text in ("hang", "wait"):
        arguments = dict(model=MODEL, max_tokens=100, messages=user(text))
        request = asyncio.create_task(async_client.messages.create(**arguments))
        await asyncio.sleep(0.5)
        request.cancel()
        try:
            await request
        except asyncio.CancelledError:
            continue
        raise AssertionError("the request was not cancelled")


def check_timeouts():
    for text in ("hang", "wait"):
        # In a stream, this client raises the error of its HTTP library.
        raises(anthropic.APITimeoutError, requests(text, client, timeout=1.0)[0])


def check_request_ids():
    contains(requests("say hi")[0]()._request_id, "req_")


def check_tools_of_provider():
    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    arguments = dict(model="anthropic", max_tokens=100, tools=tools)
    question = user("content-search")
    whole = client.messages.create(messages=question, **arguments)
    with client.messages.stream(messages=question, **arguments) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        search = ["server_tool_use", "web_search_tool_result", "text"]
        equal([block.type for block in message.content], search * 2)
        equal([message.content[index].input for index in (0, 3)], [{"query": "first"}, {"query": "second"}])
        equal(message.content[1].content[0].encrypted_content, "c2VjcmV0")
        equal((message.content[-1].text, message.stop_reason), ("Here.", "end_turn"))
        content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]
        history = question + [{"role": "assistant", "content": content}] + user("say next")
        equal(client.messages.create(messages=history, **arguments).content[0].text, "next")


def check_omitted_citations():
    with client.messages.stream(model=MODEL, max_tokens=100, messages=user("content-annotated")) as stream:
        equal(stream.get_final_message().content[0].text, "One.")


def check_models():
    equal([model.id for model in client.models.list()], ["scripted", "vendor/scripted"])
    equal([model.id for model in client.models.list(limit=1)], ["scripted", "vendor/scripted"], "pages")
    model = client.models.retrieve("vendor/scripted")
    equal((model.id, model.type, model.display_name), ("vendor/scripted", "model", "scripted"))
    raises(anthropic.NotFoundError, lambda: client.models.retrieve("nobody"))


def check_count_tokens():
    few = client.messages.count_tokens(model=MODEL, messages=user("say hi")).input_tokens
    many = client.messages.count_tokens(model=MODEL, messages=user("say hi " * 50), tools=TOOLS).input_tokens
    if not 0 < few < many:
        raise AssertionError(f"{few} and {many}")


run(globals())
