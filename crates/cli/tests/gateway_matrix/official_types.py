"""Checks responses against the types of the official SDKs, and assembles streams with the code of the SDKs.

Each line of the input is a JSON object: `path`, `status`, `is_stream` and `body`. For each, a line with a JSON array of the
problems is written.
"""

import functools
import json
import sys
import typing

import anthropic.types as messages
import openai.types.chat as chat
import openai.types.responses as responses
from anthropic._streaming import SSEDecoder as MessagesDecoder
from anthropic.lib.streaming._messages import accumulate_event
from openai import omit
from openai._streaming import SSEDecoder as OpenAIDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.shared import ErrorObject
from pydantic import BaseModel, TypeAdapter, ValidationError

# Fields that these types do not have: the reasoning of DeepSeek and vLLM, and fields that OpenAI's API has and the types of other
# languages list.
EXTENSIONS = {
    ("ChatCompletionMessage", "reasoning_content"),
    ("ChoiceDelta", "reasoning_content"),
    ("Response", "store"),
    ("ResponseErrorEvent", "error"),
    ("ResponseFunctionCallArgumentsDoneEvent", "name"),
}


class Problem(Exception):
    pass


def expect(condition, problem):
    if not condition:
        raise Problem(problem)


@functools.cache
def adapter(of_type):
    return TypeAdapter(of_type)


def validated(of_type, value):
    """Returns the value as an instance of a type. Nothing is converted, and no value is outside its type."""
    instance = adapter(of_type).validate_json(json.dumps(value), strict=True)
    unknown = sorted(unknown_fields(instance))
    expect(not unknown, f"unknown fields {unknown} in {value}")
    return instance


def unknown_fields(value):
    if isinstance(value, BaseModel):
        for name, extra in (value.model_extra or {}).items():
            if (type(value).__name__, name) not in EXTENSIONS:
                yield f"{type(value).__name__}.{name}"
        for name in type(value).model_fields:
            yield from unknown_fields(getattr(value, name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from unknown_fields(item)
    elif isinstance(value, list):
        for item in value:
            yield from unknown_fields(item)


def event_classes(union):
    """Returns the classes of a union of events by their `type`."""
    members = typing.get_args(typing.get_args(union)[0])
    return {name: member for member in members for name in typing.get_args(member.model_fields["type"].annotation)}


RESPONSE_EVENTS = event_classes(responses.ResponseStreamEvent)
MESSAGE_EVENTS = event_classes(messages.RawMessageStreamEvent)


def read_event(classes, event):
    data = json.loads(event.data)
    expect(event.event == data.get("type"), f"the event `{event.event}` has other data: {data}")
    expect(data["type"] in classes, f"unknown event {data}")
    return data, validated(classes[data["type"]], data)


def check_chat_stream(body):
    events = list(OpenAIDecoder().iter_bytes(iter([body])))
    expect(all(event.event is None for event in events), "an event has a name")
    if "error" in (last := json.loads(events[-1].data if events[-1].data != "[DONE]" else "{}")):
        validated(ErrorObject, last["error"])
    else:
        expect(events[-1].data == "[DONE]", f"the stream ends with {events[-1].data}")
    state = ChatCompletionStreamState()
    ends = 0
    for event in events[:-1]:
        chunk = validated(chat.ChatCompletionChunk, json.loads(event.data))
        ends += sum(choice.finish_reason is not None for choice in chunk.choices)
        list(state.handle_chunk(chunk))
    if "error" in last:
        return
    expect(ends == 1, f"{ends} chunks have a finish reason")
    completion = state.current_completion_snapshot.to_dict()
    for choice in completion["choices"]:
        # The SDK adds what it has parsed, and keeps the position of a call in the stream.
        choice["message"].pop("parsed", None)
        for call in choice["message"].get("tool_calls") or []:
            del call["index"], call["function"]["parsed_arguments"]
    check_chat(validated(chat.ChatCompletion, completion))


def check_chat(completion):
    for choice in completion.choices:
        calls = choice.message.tool_calls or []
        expect(bool(calls) == (choice.finish_reason == "tool_calls"), f"calls and the finish reason differ: {choice}")
        for call in calls:
            expect(isinstance(json.loads(call.function.arguments), dict), f"invalid arguments: {call}")


def check_responses_stream(body):
    state = ResponseStreamState(input_tools=omit, text_format=omit)
    items = {}
    lifecycle = set()
    read = [read_event(RESPONSE_EVENTS, event) for event in OpenAIDecoder().iter_bytes(iter([body]))]
    numbers = [data["sequence_number"] for data, _ in read]
    expect(numbers == list(range(len(read))), f"the numbers of the events are {numbers}")
    for data, event in read:
        if data["type"] == "error":
            if "error" in data:
                validated(ErrorObject, data["error"])
            continue
        state.handle_event(event)
        if data["type"] == "response.output_item.done":
            items[data["output_index"]] = data["item"]
        if "response" in data:
            lifecycle.add(data["response"]["id"])
    end = read[-1][0]
    if end["type"] == "error":
        return
    expect(end["type"] in ("response.completed", "response.incomplete", "response.failed"), f"the stream ends with {end}")
    expect(len(lifecycle) == 1, f"the ids of the response are {lifecycle}")
    expect(list(items) == list(range(len(items))), f"the items {list(items)} are not in order")
    output = end["response"]["output"]
    expect(output == list(items.values()), f"the items {list(items.values())} are in the response as {output}")
    check_response(event.response)


def check_response(response):
    ids = [item.id for item in response.output]
    expect(len(set(ids)) == len(ids), f"the ids of the items are {ids}")
    for item in response.output:
        if item.type == "function_call":
            expect(isinstance(json.loads(item.arguments), dict), f"invalid arguments: {item}")


def check_messages_stream(body):
    snapshot, buffers, ended = None, {}, False
    for event in MessagesDecoder().iter_bytes(iter([body])):
        expect(not ended, f"an event follows the end: {event}")
        if event.event == "ping":
            continue
        if event.event == "error":
            validated(messages.ErrorResponse, json.loads(event.data))
            ended = True
            continue
        data, event = read_event(MESSAGE_EVENTS, event)
        if data["type"] == "message_stop":
            ended = True
            check_message(validated(messages.Message, snapshot.to_dict()))
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    expect(ended, "the stream does not end")


def check_message(message):
    calls = [block for block in message.content if block.type == "tool_use"]
    is_cut = message.stop_reason == "max_tokens"
    expect(is_cut or bool(calls) == (message.stop_reason == "tool_use"), f"calls and the stop reason differ: {message}")
    for call in calls:
        expect(isinstance(call.input, dict), f"invalid arguments: {call}")
    texts = [block.text for block in message.content if block.type == "text"]
    expect("" not in texts, f"a text is empty: {message}")


PATHS = {
    "/v1/chat/completions": (chat.ChatCompletion, check_chat, check_chat_stream),
    "/v1/responses": (responses.Response, check_response, check_responses_stream),
    "/v1/messages": (messages.Message, check_message, check_messages_stream),
}


def check(received):
    whole_type, check_whole, check_stream = PATHS[received["path"]]
    if received["is_stream"]:
        return check_stream(received["body"].encode())
    body = json.loads(received["body"])
    if received["status"] == 200:
        return check_whole(validated(whole_type, body))
    if whole_type is messages.Message:
        return validated(messages.ErrorResponse, body)
    expect(list(body) == ["error"], f"the error is {body}")
    validated(ErrorObject, body["error"])


def problems(received):
    try:
        check(received)
    except ValidationError as error:
        return [f"{'.'.join(map(str, item['loc']))}: {item['msg']}, not {item['input']!r}" for item in error.errors()]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return []


for line in sys.stdin:
    print(json.dumps(problems(json.loads(line))), flush=True)
