"""Older versions of the SDKs of OpenAI and Anthropic for Python: texts, tools of both kinds, streams and errors."""

import anthropic
import openai
from support import *

chat = openai.OpenAI(base_url=f"{GATEWAY}/v1", api_key="any", max_retries=0)
messages = anthropic.Anthropic(base_url=GATEWAY, api_key="any", max_retries=0)

FUNCTION = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
TOOL = {"name": "get_weather", "input_schema": WEATHER}


def complete(history, **options):
    completion = chat.chat.completions.create(model=MODEL, messages=history, tools=[FUNCTION], **options)
    [choice] = completion.choices
    return choice


def message(history, **options):
    return messages.messages.create(model=MODEL, max_tokens=100, messages=history, tools=[TOOL], **options)


def user(text):
    return {"role": "user", "content": text}


def check_versions():
    equal((openai.VERSION, anthropic.__version__), ("1.40.0", "0.40.0"))


def check_openai():
    equal(complete([user("say hi")]).message.content, "hi")
    equal(complete([user("rounds")]).message.content, "\n\n".join(ROUNDS))
    history = [user("client")]
    choice = complete(history)
    equal(choice.finish_reason, "tool_calls")
    [call] = choice.message.tool_calls
    equal((call.function.name, call.function.arguments), ("get_weather", '{"city":"Paris"}'))
    history += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    equal(complete(history).message.content, "Results: sunny.")


def check_openai_functions():
    """The form of calls before `tools`."""
    functions = [FUNCTION["function"]]
    for stream in (False, True):
        history = [user("client")]
        response = chat.chat.completions.create(model=MODEL, messages=history, functions=functions, stream=stream)
        if stream:
            choices = [chunk.choices[0] for chunk in response]
            [call] = [choice.delta.function_call for choice in choices if choice.delta.function_call]
            finish = choices[-1].finish_reason
        else:
            call, finish = response.choices[0].message.function_call, response.choices[0].finish_reason
        equal((call.name, call.arguments, finish), ("get_weather", '{"city":"Paris"}', "function_call"))
        called = {"role": "assistant", "content": None, "function_call": {"name": call.name, "arguments": call.arguments}}
        history += [called, {"role": "function", "name": call.name, "content": "sunny"}]
        response = chat.chat.completions.create(model=MODEL, messages=history, functions=functions)
        equal(response.choices[0].message.content, "Results: sunny.")


def check_openai_streams():
    chunks = list(
        chat.chat.completions.create(
            model=MODEL, messages=[user("ours")], stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    equal(text, "Results: value of a.")
    equal(chunks[-1].usage.total_tokens, 30)
    with chat.beta.chat.completions.stream(model=MODEL, messages=[user("say hi there")]) as stream:
        for _ in stream:
            pass
        equal(stream.get_final_completion().choices[0].message.content, "hi there")


def check_openai_outputs():
    parsed = chat.beta.chat.completions.parse(model=MODEL, messages=[user("json")], response_format=Weather)
    equal(parsed.choices[0].message.parsed, PARIS)


def check_anthropic():
    equal(message([user("say hi")]).content[0].text, "hi")
    history = [user("client")]
    response = message(history)
    equal(response.stop_reason, "tool_use")
    call = response.content[-1]
    equal((call.type, call.name, call.input), ("tool_use", "get_weather", {"city": "Paris"}))
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    history += [{"role": "assistant", "content": response.content}, {"role": "user", "content": [result]}]
    equal(message(history).content[-1].text, "Results: sunny.")


def check_anthropic_streams():
    with messages.messages.stream(model=MODEL, max_tokens=100, messages=[user("ours")]) as stream:
        equal("".join(stream.text_stream), "Results: value of a.")
        equal(stream.get_final_message().stop_reason, "end_turn")


def check_errors():
    raises(openai.BadRequestError, lambda: complete([user("status 400")]))
    raises(openai.RateLimitError, lambda: complete([user("status 429")]))
    raises(anthropic.BadRequestError, lambda: message([user("status 400")]))
    raises(anthropic.RateLimitError, lambda: message([user("status 429")]))
    locked = openai.OpenAI(base_url=f"{GATEWAY_WITH_KEY}/v1", api_key="wrong", max_retries=0)
    raises(openai.AuthenticationError, locked.models.list)
    locked = locked.with_options(api_key=KEY)
    equal([model.id for model in locked.models.list()][0], MODEL)


run(globals())
