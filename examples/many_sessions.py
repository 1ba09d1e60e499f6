"""A server with many sessions: one store, a thread for each request, a session for each conversation.

    pip install '.[openai]'
    OPENAI_API_KEY=… python examples/many_sessions.py --port 8080
    curl -d '{"id": "m1", "text": "Hello!"}' localhost:8080/sessions/alice
    python -m foveal.testing.provider examples/many_sessions.py --demo 20     # 20 conversations at once, without a key

A store is for all threads. A session is for one at a time: a lock for each name keeps the order, and the lease in the store keeps
other processes out. Sessions are opened for each message: opening costs milliseconds, whatever the length of the history.
"""

import argparse
import json
import re
import sys
import threading
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai

import foveal
from foveal.stores import Store


class Chats:
    """The conversations of a store."""

    def __init__(self, store: Store, client: openai.OpenAI, model: str) -> None:
        self._store, self._client, self._model = store, client, model
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    def say(self, name: str, message_id: str, text: str) -> str:
        """Return the answer to a message. A message that is sent again (a retry) is neither kept nor asked twice."""
        with self._guard:
            lock = self._locks[name]
        with lock, foveal.Session(self._store, name, model=self._model) as session:
            with suppress(foveal.NotFound):
                return session.recall(f"answer-{message_id}")
            session.append(foveal.system("You are brief."), id="system")
            session.append(foveal.user(text), id=f"message-{message_id}")
            reply = self._client.chat.completions.create(**session.prompt().request)
            session.append(reply, id=f"answer-{message_id}")
            return reply.choices[0].message.content or ""


def serve(chats: Chats, port: int) -> ThreadingHTTPServer:
    class Conversation(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                found = re.fullmatch(r"/sessions/([\w-]{1,64})", self.path)
                if not found:
                    self._reply(404, {"error": "post to /sessions/NAME"})
                    return
                self._reply(200, {"answer": chats.say(found[1], body["id"], body["text"])})
            except (ValueError, KeyError, TypeError) as error:
                self._reply(400, {"error": f"send JSON with an id and a text ({error!r})"})
            except foveal.SessionHeld as error:  # another process has this conversation
                self._reply(409, {"error": str(error)})
            except openai.APIError as error:  # the message is kept: sent again, it is answered
                self._reply(502, {"error": str(error)})

        def _reply(self, status: int, document: dict[str, str]) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # connections that wait to be accepted; five, if nothing is said

    return Server(("127.0.0.1", port), Conversation)


def demo(url: str, users: int) -> None:
    """Let many people talk at once, each two messages; the second is sent twice, as a client does that got no answer."""

    def talk(number: int) -> list[str]:
        return [post(f"{url}/sessions/user-{number}", name, f"{name} of {number}") for name in ("m1", "m2", "m2")]

    with ThreadPoolExecutor(min(users, 16)) as pool:
        answers = list(pool.map(talk, range(users)))
    assert all(again == answer for _, answer, again in answers)
    print(f"{len(answers)} conversations, {len(answers) * 2} messages")


def post(url: str, message_id: str, text: str) -> str:
    request = urllib.request.Request(url, json.dumps({"id": message_id, "text": text}).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["answer"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Serve conversations over HTTP.")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--store", default="chats.db")
    parser.add_argument("--model", default="gpt-5")
    parser.add_argument("--demo", type=int, metavar="USERS", help="talk to the server with this many users, then end")
    args = parser.parse_args()

    with foveal.open_store(args.store) as store, openai.OpenAI() as client:
        server = serve(Chats(store, client, args.model), args.port)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            print(f"listening at {url}", flush=True)
            demo(url, args.demo) if args.demo else thread.join()
        except KeyboardInterrupt:
            pass
        finally:
            server.shutdown()
            server.server_close()  # waits for the threads: no request loses its answer
            thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
