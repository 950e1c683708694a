"""The SDK of OpenAI for Python: errors, retries, cancelled requests, keys, and other paths."""

import asyncio
import base64

import openai
from openai_support import *


def check_lost_results():
    # Another gateway does not have the results of the servers' tools.
    other = OpenAI(base_url=f"{GATEWAY_WITH_KEY}/v1", api_key=KEY, max_retries=0)
    chat = Chat("whole")
    chat.ask("mixed")
    messages = [*chat.messages, {"role": "tool", "tool_call_id": chat.calls[0][0], "content": "sunny"}]
    completion = other.chat.completions.create(model=MODEL, messages=messages, tools=own_tools(Chat))
    equal(completion.choices[0].message.content, "Results: sunny.")
    chat = Responses("whole")
    chat.ask("mixed")
    items = [*chat.input, {"type": "function_call_output", "call_id": chat.calls[0][0], "output": "sunny"}]
    response = other.responses.create(model=MODEL, input=items, tools=own_tools(Responses))
    equal(response.output_text, "Results: sunny.")


def check_usage_only_on_request():
    for chunk in client.chat.completions.create(model=MODEL, messages=user("say hi"), stream=True):
        equal(len(chunk.choices), 1)


@in_loop
async def check_async(async_client):
    completion = await async_client.chat.completions.create(model=MODEL, messages=user("ours"))
    equal(completion.choices[0].message.content, "Results: value of a.")
    stream = await async_client.chat.completions.create(model=MODEL, messages=user("rounds"), stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    equal(text, "\n\n".join(ROUNDS))
    async with async_client.chat.completions.stream(model=MODEL, messages=user("ours")) as stream:
        equal((await stream.get_final_completion()).choices[0].message.content, "Results: value of a.")
    response = await async_client.responses.create(model=MODEL, input="ours")
    equal(response.output_text, "Results: value of a.")
    async with async_client.responses.stream(model=MODEL, input="rounds") as stream:
        equal([item.content[0].text for item in (await stream.get_final_response()).output], ROUNDS)
    asked = [async_client.responses.create(model=MODEL, input=f"say {number}") for number in range(20)]
    equal([response.output_text for response in await asyncio.gather(*asked)], [str(n) for n in range(20)])


@in_loop
async def check_heartbeats(_):
    # The tool takes longer than the client waits for the next byte.
    arguments = dict(base_url=f"{GATEWAY_WITH_KEY}/v1", api_key=KEY, max_retries=0, timeout=9)
    async with AsyncOpenAI(**arguments) as async_client:

        async def chat():
            stream = await async_client.chat.completions.create(model=MODEL, messages=user("wait 12000"), stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        async def responses():
            async with async_client.responses.stream(model=MODEL, input="wait 12000") as stream:
                return (await stream.get_final_response()).output_text

        equal(await asyncio.gather(chat(), responses()), ["Results: waited."] * 2)


def check_errors_of_provider():
    cases = [
        (400, openai.BadRequestError, 400, "invalid_value"),
        (401, openai.InternalServerError, 502, "upstream_auth"),
        (403, openai.InternalServerError, 502, "upstream_auth"),
        (404, openai.NotFoundError, 404, "model_not_found"),
        (409, openai.ConflictError, 409, "conflict"),
        (422, openai.UnprocessableEntityError, 422, "invalid_value"),
        (429, openai.RateLimitError, 429, "rate_limit_exceeded"),
        (500, openai.InternalServerError, 502, "upstream_unreachable"),
        (503, openai.InternalServerError, 503, None),
        (504, openai.InternalServerError, 504, "timeout"),
    ]
    for status, kind, expected, code in cases:
        for request in requests(f"status {status}"):
            error = raises(kind, request)
            equal((error.status_code, error.code), (expected, code), f"status {status}")
            contains(error.request_id, "req_")
            if status not in (401, 403):
                contains(error.message, "the provider says no")


def check_errors_of_request():
    def chat(**changes):
        arguments = {"model": MODEL, "messages": user("say hi"), **changes}
        return lambda: client.chat.completions.create(**arguments)

    def responses(**changes):
        return lambda: client.responses.create(**{"model": MODEL, "input": "say hi", **changes})

    for request in (chat, responses):
        error = raises(openai.NotFoundError, request(model="nobody"))
        equal((error.code, error.param), ("model_not_found", "model"))
        contains(error.message, "nobody")
        named = {"type": "function", "name": "nothing", "function": {"name": "nothing"}}
        equal(raises(openai.BadRequestError, request(tool_choice=named)).param, "tool_choice")
        equal(raises(openai.BadRequestError, request(temperature="hot")).param, "temperature")
        contains(raises(openai.BadRequestError, request(tools=[{"type": "function"}])).param, "tools[0]")
    error = raises(openai.BadRequestError, chat(messages=[{"role": "robot", "content": "hi"}]))
    equal((error.param, error.type), ("messages[0].role", "invalid_request_error"))
    raises(openai.BadRequestError, chat(messages=[]))
    raises(openai.BadRequestError, responses(input=[{"type": "nothing"}]))
    error = raises(openai.NotFoundError, lambda: client.chat.completions.retrieve("chatcmpl-1"))
    contains(error.message, "unknown path")
    wrong_base = OpenAI(base_url=GATEWAY, api_key="any", max_retries=0)
    contains(raises(openai.NotFoundError, wrong_base.models.list).message, "add `/v1`")


def check_unknown_parameters_are_accepted():
    completion = client.chat.completions.create(model=MODEL, messages=user("say hi"), extra_body={"min_p": 0.1, "x": {}})
    equal(completion.choices[0].message.content, "hi")


def check_key():
    def with_key(key):
        return OpenAI(base_url=f"{GATEWAY_WITH_KEY}/v1", api_key=key, max_retries=0)

    for request in requests("say hi", with_key("wrong")):
        equal(raises(openai.AuthenticationError, request).code, "invalid_api_key")
    for request in requests("say hi", with_key(KEY)):
        request()
    raises(openai.AuthenticationError, with_key("wrong").models.list)


def check_broken_stream():
    stream = client.chat.completions.create(model=MODEL, messages=user("broken"), stream=True)
    text = ""

    def read():
        nonlocal text
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""

    contains(raises(openai.APIError, read).message, "the connection was reset")
    equal(text, "Half a")
    raises(openai.InternalServerError, lambda: Chat("whole").ask("broken"))
    raises(openai.APIError, lambda: Chat("helper").ask("broken"))
    for mode in ("raw", "helper"):
        chat = Responses(mode)
        chat.ask("broken")
        equal(chat.finish, "failed")
        contains(chat.response.error.message, "the connection was reset")
    raises(openai.InternalServerError, lambda: Responses("whole").ask("broken"))


def check_retries():
    retrying = OpenAI(base_url=f"{GATEWAY}/v1", api_key="any", max_retries=1)
    number = 0
    cases = [
        ("late-status", openai.InternalServerError, ""),
        ("status 401", openai.InternalServerError, "once"),
        ("status 400", openai.BadRequestError, "once"),
        ("status 503", openai.InternalServerError, "twice"),
        ("status 429", openai.RateLimitError, "twice"),
    ]
    for scenario, kind, times in cases:
        for position in range(4):
            number += 1
            request = requests(f"{scenario} {number} {times}", retrying)[position]
            is_late_stream = scenario == "late-status" and position % 2 == 1
            if not is_late_stream:
                raises(kind, request)
            elif position == 1:
                contains(raises(openai.APIError, request).message, "the provider is busy")
            else:
                equal(request()[-1].type, "response.failed")


def check_idempotency_keys():
    # The first attempts time out, and the tool is called once.
    retrying = OpenAI(base_url=f"{GATEWAY}/v1", api_key="any", max_retries=5, timeout=3.0)

    def chat(text, **more):
        return retrying.chat.completions.create(model=MODEL, messages=user(text), **more)

    def responses(text, **more):
        return retrying.responses.create(model=MODEL, input=text, **more)

    for create in (chat, responses):
        headers = {"Idempotency-Key": create.__name__}
        text = f"wait 5000 {create.__name__} keyed"
        first = create(text, extra_headers=headers)
        contains(str(first), "Results: waited.")
        equal(create(text, extra_headers=headers).id, first.id)
        error = raises(openai.UnprocessableEntityError, lambda: create("say hi", extra_headers=headers))
        equal(error.code, "idempotency_key_reused")


def check_cancel():
    for text in ("hang", "wait"):
        for stream in (
            client.chat.completions.create(model=MODEL, messages=user(text), stream=True),
            client.responses.create(model=MODEL, input=text, stream=True),
        ):
            next(iter(stream))
            stream.close()
        with client.responses.stream(model=MODEL, input=text) as stream:
            next(iter(stream))


@in_loop
async def check_cancel_async(async_client):
    for text in ("hang", "wait"):
        request = asyncio.create_task(async_client.responses.create(model=MODEL, input=text))
        await asyncio.sleep(0.5)
        request.cancel()
        try:
            await request
        except asyncio.CancelledError:
            continue
        raise AssertionError("the request was not cancelled")


def check_timeouts():
    for text in ("hang", "wait"):
        for request in requests(text, client, timeout=1.0):
            raises(openai.APITimeoutError, request)


def check_request_ids():
    for request in requests("say hi")[::2]:
        contains(request()._request_id, "req_")
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=user("say hi"))
    contains(raw.headers["x-request-id"], "req_")


def check_tools_of_provider():
    arguments = dict(model="responses", tools=[{"type": "web_search"}])
    question = user("content-search")
    whole = client.responses.create(input=question, **arguments)
    with client.responses.stream(input=question, **arguments) as stream:
        events = [event.type for event in stream]
        streamed = stream.get_final_response()
    equal(events.count("response.web_search_call.completed"), 2)
    for response in (whole, streamed):
        types = [item.type for item in response.output]
        equal(types, ["web_search_call", "message", "web_search_call", "message"])
        equal([response.output[index].action.query for index in (0, 2)], ["first", "second"])
        equal(response.output_text, "I look.Here.")
        history = question + [item.model_dump(exclude_none=True) for item in response.output] + user("say next")
        equal(client.responses.create(input=history, **arguments).output_text, "next")


def check_omitted_citations():
    chunks = client.chat.completions.create(model=MODEL, messages=user("content-cited"), stream=True)
    equal("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "One two three.")
    with client.responses.stream(model=MODEL, input="content-cited") as stream:
        equal(stream.get_final_response().output_text, "One two three.")


def check_models():
    equal([model.id for model in client.models.list()], ["scripted", "vendor/scripted"])
    model = client.models.retrieve("vendor/scripted")
    equal((model.id, model.object, model.owned_by), ("vendor/scripted", "model", "vendor"))
    raises(openai.NotFoundError, lambda: client.models.retrieve("nobody"))
    completion = client.chat.completions.create(model="vendor/scripted", messages=user("say hi"))
    equal((completion.model, completion.choices[0].message.content), ("vendor/scripted", "hi"))


def check_forms():
    # A provider describes the forms that it gets.
    sound, picture = ("a.wav", b"RIFF" + bytes(range(256)) * 2000), ("a.png", base64.b64decode(PNG))
    audio, size = client.audio, len(sound[1])
    transcription = audio.transcriptions.create(model="files", file=sound, temperature=0.5, timestamp_granularities=["word"])
    fields = transcription.text.split()
    equal(sorted(fields), [f"file:a.wav={size}", "model=real-name", "temperature=0.5", "timestamp_granularities[]=word"])
    equal(audio.translations.create(model="files", file=sound).text, f"model=real-name file:a.wav={size}")
    contains(audio.transcriptions.create(model="files", file=sound, response_format="text"), "model=real-name", f"={size}")
    events = list(audio.transcriptions.create(model="files", file=sound, stream=True))
    equal([event.type for event in events], ["transcript.text.delta", "transcript.text.done"])
    contains(events[1].text, "model=real-name", "stream=true", f"={size}")
    images = client.images
    edited = images.edit(model="files", image=[picture, picture], mask=picture, prompt="Grüße").data[0].revised_prompt
    length = len(picture[1])
    contains(edited.encode("latin-1").decode(), "model=real-name", "prompt=Grüße", f"mask:a.png={length}")
    equal(edited.count(f"image[]:a.png={length}"), 2)
    varied = images.create_variation(model="files", image=picture, n=2).data[0].revised_prompt
    contains(varied, "model=real-name", "n=2", f"image:a.png={length}")
    error = raises(openai.NotFoundError, lambda: audio.transcriptions.create(model="no-such", file=sound))
    equal((error.code, error.param), ("model_not_found", "model"))
    error = raises(openai.BadRequestError, lambda: images.create_variation(image=picture))
    equal(error.param, "model")
    error = raises(openai.NotFoundError, lambda: audio.translations.create(model=MODEL, file=sound))
    contains(str(error), "audio/translations")


@in_loop
async def check_forms_async(async_client):
    sound = ("a.wav", b"RIFF")
    transcription = await async_client.audio.transcriptions.create(model="files", file=sound)
    equal(transcription.text, "model=real-name file:a.wav=4")


run(globals())
