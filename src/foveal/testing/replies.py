"""A rich reply of each provider, as its SDK returns it: every kind of block that a reader or a writer has a rule for."""

from typing import Any

SEAL = "c2lnbmVk" * 4

CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Hello",
                "refusal": None,
                "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}],
                "audio": {"id": "a1", "data": "aGk=", "expires_at": 1, "transcript": "hi"},
                "reasoning_content": "hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": SEAL}],
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                        "extra_content": {"google": {"thought_signature": SEAL}},
                    },
                    {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "select"}},
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 3},
    },
}

RESPONSES: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "gpt-5",
    "output": [
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": SEAL,
        },
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello"}, {"type": "refusal", "refusal": "no"}],
        },
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "q"},
        },
        {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "aGk="},
        {"id": "cmp_1", "type": "compaction", "encrypted_content": SEAL},
        {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
        {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c2", "name": "sql", "input": "select"},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_tokens_details": {"cached_tokens": 3}},
}

ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": SEAL},
        {"type": "redacted_thinking", "data": SEAL},
        {"type": "text", "text": "Hello", "citations": None},
        {
            "type": "text",
            "text": "Cited",
            "citations": [{"type": "char_location", "cited_text": "c", "document_index": 0}],
        },
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": SEAL}],
        },
        {"type": "compaction", "content": "so far"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 1, "cache_creation_input_tokens": 1},
}

GEMINI: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "Hello", "thought_signature": SEAL},
                    {
                        "function_call": {"id": "c1", "name": "read", "args": {"path": "a"}},
                        "thought_signature": SEAL,
                    },
                    {"function_call": {"name": "read", "args": {"path": "b"}}},
                    {"executable_code": {"code": "1", "language": "PYTHON"}},
                    {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
                    {"file_data": {"mime_type": "image/png", "file_uri": "gs://x"}},
                ],
            },
            "finish_reason": "STOP",
            "index": 0,
        }
    ],
    "model_version": "gemini-2.5-pro",
    "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 5, "thoughts_token_count": 1},
}

REPLIES = {"openai_chat": CHAT, "openai_responses": RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI}
