"""Takes runs from a queue of RabbitMQ, does each once, and tells the node what became of it.

Any number of it share the queue. It needs Python 3.9 or later and pika (pip install pika), RabbitMQ, a node whose file of
brokers has it, and jobs that await completion:

    carillon serve --store pebble:./carillon-data --brokers brokers.yaml
    python3 worker.py amqp://guest:guest@localhost:5672/ work http://localhost:7080
    carillon job put hello --amqp rabbit/ --routing-key work --await-completion --data '{"name":"you"}'
"""

import http.client
import json
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timezone

import pika

AGAIN, AGAIN_LAST = 0.5, 30  # seconds before a node is asked once more: at first, and at most


def work(payload):
    """The work of this example. Its result is kept with the run; an exception is a failure of the attempt."""
    name = json.loads(payload)["name"]
    return f"hello {name}"


class Done:
    """What has been done, by run id. A real worker writes it in the transaction of its own data."""

    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.db.execute("CREATE TABLE IF NOT EXISTS done (run TEXT PRIMARY KEY, result TEXT)")

    def once(self, run, payload):
        """Does a run, unless it is done: it may come more than once, each time with another token."""
        row = self.db.execute("SELECT result FROM done WHERE run = ?", (run,)).fetchone()
        if row:
            return row[0]
        with self.db:
            result = work(payload)
            self.db.execute("INSERT INTO done VALUES (?, ?)", (run, result))
        return result


def post(url, body):
    """Returns the status of the answer, and its text."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read(4096).decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read(4096).decode()


def complete(node, namespace, run, body, deadline):
    """Tells the node what became of a run, until it answers or the attempt's time is over. Returns what it said."""
    url = f"{node}/v1/namespaces/{urllib.parse.quote(namespace, safe='')}/runs/{run}:complete"
    pause = AGAIN
    while True:
        try:
            status, text = post(url, body)
            if status == 200:
                return "the node knows"
            if status in (409, 404):
                # The attempt is over: by its timeout, a cancel, or an answer. Whoever has the run now has another token.
                return f"the node refused it, {status}: {text}"
            if status in (400, 413) and "response" in body:  # the node does not take the result: the attempt fails
                message = f"the node refused the result, {status}: {text}"
                body = {"token": body["token"], "outcome": "failure", "message": message}
                continue
            text = f"the node answers {status}: {text}"
        except (OSError, http.client.HTTPException) as away:  # no connection, or no answer
            text = str(away)
        if datetime.now(timezone.utc) >= deadline:
            return f"its time was over: {text}"
        time.sleep(pause)
        pause = min(2 * pause, AGAIN_LAST)


def parse_time(text):
    """Reads an RFC 3339 time in UTC; fractions of a second are left out, since Python 3.9 reads only some of them."""
    return datetime.strptime(text.split(".")[0].rstrip("Z"), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)


def answer(node, done, properties, payload):
    """Does the run of a message, and tells the node. Returns what there is to print."""
    of = properties.headers or {}
    if of.get("carillon-await-completion") != "true":
        return "this is no run that awaits completion"
    run, body = properties.message_id, {"token": of["carillon-token"], "outcome": "success"}
    deadline = parse_time(of["carillon-deadline"])
    if datetime.now(timezone.utc) >= deadline:  # the run is tried again, with another token
        return f"{of['carillon-job']}, attempt {of['carillon-attempt']}: its time was over before it began"
    try:
        body["response"] = done.once(run, payload)
    except Exception as failed:  # whatever it is, the node is told: it tries again by the job's policy
        body.update(outcome="failure", message=f"{type(failed).__name__}: {failed}")
    namespace, job = of["carillon-job"].split("/", 1)
    said = complete(node, namespace, run, body, deadline)
    return f"{job}, attempt {of['carillon-attempt']}, {body['outcome']}: {said}"


def main(broker, queue, node, path="done.db"):
    done = Done(path)
    # The work is done on the thread of the connection, which sends no heartbeats meanwhile: they are off.
    parameters = pika.URLParameters(broker)
    parameters.heartbeat = 0
    channel = pika.BlockingConnection(parameters).channel()
    channel.queue_declare(queue, durable=True)
    channel.basic_qos(prefetch_count=1)
    for method, properties, payload in channel.consume(queue):
        print(answer(node, done, properties, payload), flush=True)
        channel.basic_ack(method.delivery_tag)  # once the node has answered


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: worker.py BROKER QUEUE NODE [DONE.DB]")
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        pass
