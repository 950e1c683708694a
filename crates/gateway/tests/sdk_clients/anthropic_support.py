"""Conversations with the SDK of Anthropic for Python."""

import asyncio
import functools
import json

from anthropic import Anthropic, AsyncAnthropic
from support import *

client = Anthropic(base_url=GATEWAY, api_key="any", max_retries=0)


def tool(name, schema):
    return {"name": name, "description": "A tool", "input_schema": schema}


TOOLS = [tool("get_weather", WEATHER), tool("get_time", NOTHING)]


class Chat:
    """One conversation, in one of the three ways to read a response."""

    def __init__(self, mode, **options):
        self.mode, self.options, self.messages = mode, {"tools": TOOLS, "max_tokens": 2000, **options}, []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return self.request()

    def request(self):
        arguments = dict(model=MODEL, messages=self.messages, **self.options)
        if self.mode == "whole":
            message = client.messages.create(**arguments)
        elif self.mode == "raw":
            message = self.read_events(list(client.messages.create(stream=True, **arguments)))
        else:
            with client.messages.stream(**arguments) as stream:
                text = "".join(stream.text_stream)
                message = stream.get_final_message()
            equal(text, "".join(block.text for block in message.content if block.type == "text"))
        equal((message.role, message.type, message.model), ("assistant", "message", MODEL))
        content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]
        self.messages.append({"role": "assistant", "content": content})
        self.calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
        self.finish, self.usage, self.message = message.stop_reason, message.usage, message
        return "".join(block.text for block in message.content if block.type == "text")

    def read_events(self, events):
        """Checks the order of the events, and returns the message."""
        names = [event.type for event in events]
        equal((names[0], names[-2:]), ("message_start", ["message_delta", "message_stop"]))
        equal([names.count(name) for name in ("message_start", "message_delta", "message_stop")], [1, 1, 1])
        message, blocks, is_open = events[0].message, [], False
        for event in events[1:-2]:
            equal(event.index, len(blocks) - (event.type != "content_block_start"), "index")
            equal(is_open, event.type != "content_block_start", "one block at a time")
            is_open = event.type != "content_block_stop"
            if event.type == "content_block_start":
                blocks.append((event.content_block, []))
            elif event.type == "content_block_delta":
                blocks[-1][1].append(event.delta)
        for block, deltas in blocks:
            if block.type == "text":
                block.text = "".join(delta.text for delta in deltas)
            elif block.type == "tool_use":
                text = "".join(delta.partial_json for delta in deltas)
                block.input = json.loads(text or "{}")
            elif block.type == "thinking":
                block.thinking = "".join(delta.thinking for delta in deltas if delta.type == "thinking_delta")
        message.content = [block for block, _ in blocks]
        message.stop_reason = events[-2].delta.stop_reason
        message.usage = events[-2].usage
        return message

    def return_results(self):
        results = results_of_client()
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": results[name]} for id, name, _ in self.calls]
        self.messages.append({"role": "user", "content": blocks})
        return self.request()

    def check_usage(self, rounds):
        equal((self.usage.input_tokens, self.usage.output_tokens), (10 * rounds, 5 * rounds), "usage")


def every(check):
    """Runs a check in all modes."""

    def run_all():
        for mode in ("whole", "raw", "helper"):
            with case(mode):
                check(functools.partial(Chat, mode))

    return run_all


def in_loop(check):
    """Runs a check with the asynchronous client, which belongs to one event loop."""

    async def run_check():
        async with AsyncAnthropic(base_url=GATEWAY, api_key="any", max_retries=0) as async_client:
            await check(async_client)

    return lambda: asyncio.run(run_check())


def user(text):
    return [{"role": "user", "content": text}]


def requests(text, client=client, **options):
    """Returns a request, whole and streamed."""

    def request(stream):
        arguments = dict(model=MODEL, max_tokens=100, messages=user(text), stream=stream, **options)
        response = client.messages.create(**arguments)
        return list(response) if stream else response

    return [lambda: request(False), lambda: request(True)]
