"""Conversations with the SDK of OpenAI for Python."""

import asyncio
import functools

from openai import AsyncOpenAI, OpenAI
from support import *

client = OpenAI(base_url=f"{GATEWAY}/v1", api_key="any", max_retries=0)


def in_loop(check):
    """Runs a check with the asynchronous client, which belongs to one event loop."""

    async def run_check():
        async with AsyncOpenAI(base_url=f"{GATEWAY}/v1", api_key="any", max_retries=0) as async_client:
            await check(async_client)

    return lambda: asyncio.run(run_check())


class Chat:
    """One conversation over Chat Completions, in one of the three ways to read a response."""

    def __init__(self, mode, **options):
        self.mode, self.options, self.messages = mode, {"tools": own_tools(self), **options}, []

    @staticmethod
    def tool(name, parameters):
        return {"type": "function", "function": {"name": name, "description": "A tool", "parameters": parameters}}

    @staticmethod
    def choice(name):
        return {"type": "function", "function": {"name": name}}

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return self.request()

    def request(self):
        arguments = dict(model=MODEL, messages=self.messages, **self.options)
        if self.mode == "whole":
            completion = client.chat.completions.create(**arguments)
        elif self.mode == "raw":
            stream = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **arguments)
            return self.read_chunks(list(stream))
        else:
            with client.chat.completions.stream(stream_options={"include_usage": True}, **arguments) as stream:
                for _ in stream:
                    pass
                completion = stream.get_final_completion()
        [choice] = completion.choices
        message = choice.message
        equal(message.role, "assistant")
        equal(completion.model, MODEL)
        self.messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        self.calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
        self.finish, self.usage, self.refusal = choice.finish_reason, completion.usage, message.refusal
        return message.content or ""

    def read_chunks(self, chunks):
        equal(len({(chunk.id, chunk.created, chunk.object, chunk.model) for chunk in chunks}), 1, "one response")
        *chunks, last = chunks
        equal(last.choices, [], "the last chunk has the usage")
        choices = [chunk.choices[0] for chunk in chunks]
        equal([choice.delta.role for choice in choices], ["assistant"] + [None] * (len(choices) - 1), "roles")
        equal([choice.finish_reason is None for choice in choices], [True] * (len(choices) - 1) + [False])
        text = "".join(choice.delta.content or "" for choice in choices)
        deltas = [call for choice in choices for call in choice.delta.tool_calls or []]
        equal([call.index for call in deltas], list(range(len(deltas))), "indexes of calls")
        self.calls = [(call.id, call.function.name, call.function.arguments) for call in deltas]
        self.finish, self.usage = choices[-1].finish_reason, last.usage
        self.refusal = "".join(choice.delta.refusal or "" for choice in choices) or None
        message = {"role": "assistant", "content": text or None}
        if self.calls:
            functions = [(id, {"name": name, "arguments": arguments}) for id, name, arguments in self.calls]
            message["tool_calls"] = [{"id": id, "type": "function", "function": call} for id, call in functions]
        self.messages.append(message)
        return text

    def return_results(self):
        results = results_of_client()
        for id, name, _ in self.calls:
            self.messages.append({"role": "tool", "tool_call_id": id, "content": results[name]})
        return self.request()

    def check_usage(self, rounds):
        usage = self.usage
        found = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
        equal(found, (10 * rounds, 5 * rounds, 15 * rounds), "usage")

    join = "\n\n".join
    finished, called, cut = "stop", "tool_calls", "length"


class Responses:
    """One conversation over Responses, in one of the three ways to read a response."""

    def __init__(self, mode, **options):
        self.mode, self.options, self.input = mode, {"tools": own_tools(self), **options}, []

    @staticmethod
    def tool(name, parameters):
        return {"type": "function", "name": name, "description": "A tool", "parameters": parameters}

    @staticmethod
    def choice(name):
        return {"type": "function", "name": name}

    def ask(self, text):
        self.input.append({"role": "user", "content": text})
        return self.request()

    def request(self):
        arguments = dict(model=MODEL, input=self.input, **self.options)
        if self.mode == "whole":
            response = client.responses.create(**arguments)
        elif self.mode == "raw":
            response = self.read_events(list(client.responses.create(stream=True, **arguments)))
        else:
            with client.responses.stream(**arguments) as stream:
                events = list(stream)
                self.read_events(events)
                # The helper raises an error unless the response is complete.
                done = events[-1].type == "response.completed"
                response = stream.get_final_response() if done else events[-1].response
        equal(response.model, MODEL)
        self.input += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        for item in self.input:
            for part in item["content"] if item.get("type") == "message" else []:
                part.pop("parsed", None)
        calls = [item for item in response.output if item.type == "function_call"]
        self.calls = [(call.call_id, call.name, call.arguments) for call in calls]
        self.usage, self.response = response.usage, response
        self.finish = "called" if calls and response.status == "completed" else response.status
        messages = [item for item in response.output if item.type == "message"]
        refusals = [part.refusal for item in messages for part in item.content if part.type == "refusal"]
        self.refusal = "".join(refusals) or None
        return "\n\n".join("".join(part.text for part in item.content if part.type == "output_text") for item in messages)

    def read_events(self, events):
        equal([event.sequence_number for event in events], list(range(len(events))), "sequence numbers")
        equal([event.type for event in events[:2]], ["response.created", "response.in_progress"])
        ids = {event.response.id for event in events if hasattr(event, "response")}
        equal(len(ids), 1, "one response")
        last = events[-1].response
        added = [event.item.id for event in events if event.type == "response.output_item.added"]
        done = [event.item for event in events if event.type == "response.output_item.done"]
        equal(added, [item.id for item in last.output], "ids of items")
        equal([item.id for item in done], added, "every item is completed")
        texts = [event for event in events if event.type == "response.output_text.delta"]
        for item in last.output:
            if item.type == "message" and item.content[0].type == "output_text":
                equal("".join(event.delta for event in texts if event.item_id == item.id), item.content[0].text)
        return last

    def return_results(self):
        results = results_of_client()
        for id, name, _ in self.calls:
            self.input.append({"type": "function_call_output", "call_id": id, "output": results[name]})
        return self.request()

    def check_usage(self, rounds):
        usage = self.usage
        found = (usage.input_tokens, usage.output_tokens, usage.total_tokens)
        equal(found, (10 * rounds, 5 * rounds, 15 * rounds), "usage")

    join = "\n\n".join
    finished, called, cut = "completed", "called", "incomplete"


def own_tools(api):
    return [api.tool("get_weather", WEATHER), api.tool("get_time", NOTHING)]


def every(check):
    """Runs a check with both APIs in all modes."""

    def run_all():
        for api in (Chat, Responses):
            for mode in ("whole", "raw", "helper"):
                new = functools.partial(api, mode)
                new.tool, new.choice = api.tool, api.choice
                with case(f"{api.__name__}, {mode}"):
                    check(new)

    return run_all


def user(text):
    return [{"role": "user", "content": text}]


def requests(text, client=client, **options):
    """Returns a request in each API, whole and streamed."""

    def chat(stream):
        response = client.chat.completions.create(model=MODEL, messages=user(text), stream=stream, **options)
        return list(response) if stream else response

    def responses(stream):
        response = client.responses.create(model=MODEL, input=text, stream=stream, **options)
        return list(response) if stream else response

    return [lambda api=api, stream=stream: api(stream) for api in (chat, responses) for stream in (False, True)]
