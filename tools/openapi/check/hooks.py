"""What schemathesis must know to send what a node takes.

The formats of the document, and what its schemas cannot say: which fields of one request fit together. Only requests that are
meant to be right are mended; those that are meant to be wrong go out as they were made.
"""

import schemathesis
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode

word = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_ ß日", min_size=1, max_size=8)
number = st.integers(1, 300)

FORMATS = {
    "job-name": st.lists(word, min_size=1, max_size=3).map("/".join),
    "printable": word,
    "label-key": word,
    "header-name": word.map(lambda w: "X-" + "".join(c for c in w if c.isascii() and c.isalnum())),
    "span": st.builds("{}{}".format, number, st.sampled_from("smh")) | number.map("PT{}S".format),
    "moment": number.map("{}h".format) | st.integers(2027, 2100).map("{}-01-02T03:04:05Z".format),
    "cron": st.builds("{} {} * * {}".format, st.integers(0, 59), st.integers(0, 23), st.sampled_from(["*", "1-5", "SUN"])),
    "schedule": number.map("@every {}h".format) | st.sampled_from(
        ["@daily", "*/5 * * * *", "0 30 2 * * MON-FRI", "R5/PT400H", "R/2027-01-01T00:00:00Z/P40D"]),
    "calendar-dates": st.builds("2026-{:02}-{:02}".format, st.integers(1, 12), st.integers(1, 28))
    | st.sampled_from(["12-25", "12-24/01-01", "2026-12-24T12:00:00Z/2026-12-24T18:00:00Z"]),
    "time-zone": st.sampled_from(["UTC", "Europe/London", "America/New_York", "Asia/Kathmandu"]),
    "media-type": st.sampled_from(["application/json", "text/plain; charset=utf-8"]),
    "http-url": number.map("http://127.0.0.1:1/{}".format),
    "kafka-topic": word.map(lambda w: "t" + "".join(c for c in w if c.isascii() and c.isalnum())),
    "nats-subject": st.integers(1, 9).map("runs.{}".format),
    "node-name": st.just("tested"),
    "page-token": st.just(""),
    "event-types": st.sampled_from(["run.dead", "run.failed", "job.created"]),
    "webhook-name": st.uuids().map(lambda u: u.hex),
    "unserved-after": st.sampled_from(["", "1m", "90s", "PT1H", "24h"]),
    "overlap-of-secrets": st.sampled_from(["", "0", "0s", "90m", "PT24H", "720h"]),
    "rate-period": st.sampled_from(["", "1s", "90s", "PT1H", "24h"]),
    "generation-tag": number.map('"{}"'.format),
    # Well formed, and of nothing that is there.
    "run-id": st.just("0401fp3dgas40j7natdukbtmg9jfrcgot9u3hjlgmk6020o"),
    "payload": st.just("2026-01-02/" + 64 * "0" + "/5"),
    "backfill-id": st.just("0401tvkrjhn19t2l3p1a9g2hb0sck6o0000000000000408"),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)

BROKERS = ["kafka", "amqp", "nats", "redis"]
RECURRING = ["time_zone", "dst", "repeats", "overlap", "misfire", "catch_up_limit", "catch_up_window", "jitter"]


def fitting_job(job, path):
    """Takes out of a job what does not fit the rest of it."""
    for field in ("namespace", "name"):
        if field in path:
            job.pop(field, None)
    for field in ("ttl", "depends_on", "except", "only", "payload"):  # the node has no payload store
        job.pop(field, None)
    if not job.get("schedule"):
        for field in RECURRING:
            job.pop(field, None)
        if not job.get("due_time"):
            job["due_time"] = "1h"  # one that runs at once may be done, and gone, before it is looked at
    target = job.get("target")
    if isinstance(target, dict):
        fitting_amqp(target.get("amqp"))
        if target.get("dapr") is not None:  # its jobs have names of their own
            job["target"] = target = {"worker": {"queue": "q"}}
        if any(target.get(kind) is not None for kind in ("http", *BROKERS)):
            job.pop("lease", None)
        if target.get("http") is not None:
            headers = target["http"].get("headers")
            if headers:
                target["http"]["headers"] = {k: "".join(c for c in v if " " <= c <= "~").strip() for k, v in headers.items()}
    elif "target" in job or "lease" in job:  # a patch
        job.pop("target", None)
        job.pop("lease", None)
    for field, least in (("lease", "1m"), ("timeout", "1m"), ("jitter", "1s")):
        if job.get(field) is not None:
            job[field] = least
    fitting_policy(job.get("failure_policy"))


def fitting_amqp(target):
    """The default exchange needs a routing key."""
    if isinstance(target, dict) and not target.get("exchange") and not target.get("routing_key"):
        target["routing_key"] = "q"


def fitting_policy(policy):
    """Takes out of a failure policy what does not fit the rest of it."""
    if not isinstance(policy, dict):
        return
    if policy.get("drop") is not None:
        policy.pop("on_exhausted", None)
    constant = policy.get("constant")
    if isinstance(constant, dict):
        constant["interval"] = "1s"
    exponential = policy.get("exponential")
    if isinstance(exponential, dict):
        exponential.pop("max", None)
        exponential["initial"] = "2s"
        exponential["factor"] = max(1, min(exponential.get("factor") or 1, 10))


def one_condition(case):
    """A put is over a job that is there, or where there is none."""
    given = [(where, name) for where, name in ((case.headers, "If-Match"), (case.headers, "If-None-Match"),
                                               (case.query, "if_absent"), (case.query, "if_generation")) if where and name in where]
    for where, name in given[1:]:
        del where[name]


def one_generation(case, kwargs):
    """A condition is given once: as a header, or in the query or the body."""
    body = case.body if isinstance(case.body, dict) else {}
    if (case.query or {}).get("if_generation") or body.get("generation"):
        for where in (case.headers, kwargs.get("headers")):
            if where and "If-Match" in where:
                del where["If-Match"]


def fitting_times(body):
    """Times that a job can have; a stretch of the past."""
    for field, at in (("from", "2026-01-01T00:00:00Z"), ("to", "2026-01-02T00:00:00Z"), ("until", "2026-01-02T00:00:00Z"),
                      ("at", "2030-01-01T00:00:00Z")):
        if isinstance(body.get(field), str):
            body[field] = at


def fitting_webhooks(body):
    """Webhooks of different names, with headers that may be sent."""
    for i, hook in enumerate(body.get("webhooks") or []):
        hook["name"] = f"w{i}"
        fitting_amqp(hook.get("amqp"))
        if not hook.get("url"):
            hook.pop("headers", None)  # a broker gets none
        if hook.get("headers"):
            hook["headers"] = {k: "".join(c for c in v if " " <= c <= "~").strip() for k, v in hook["headers"].items()}


def fitting_rates(body):
    """Rates say how many; a namespace may have quotas without them."""
    quotas = body.get("quotas") or {}
    for rate in (*(body.get("rate_limits") or {}).values(), quotas.get("puts"), quotas.get("runs")):
        if isinstance(rate, dict):
            rate["count"] = "7"
            if rate.get("burst") in (0, "0"):
                del rate["burst"]


def fitting_bulk(body):
    """A filter that goes with every action; nothing is changed."""
    for field in [f for f in body if f not in ("action", "page_size")]:
        del body[field]
    body["prefix"], body["dry_run"] = "a/", True


@schemathesis.hook
def before_call(context, case, kwargs):
    meta = case.meta
    if meta is None or meta.generation.mode != GenerationMode.POSITIVE:
        return
    one_generation(case, kwargs)
    if case.query:
        fitting_times(case.query)
    operation = case.operation.definition.raw.get("operationId")
    if operation in ("PauseQueue", "ResumeQueue", "PurgeQueue"):
        kind = case.path_parameters.get("kind")
        if kind == "dapr":
            case.path_parameters["name"] = "app/a"
        elif kind in BROKERS:
            case.path_parameters["name"] = "broker/a"
    if not isinstance(case.body, dict):
        return
    path, body = case.path_parameters or {}, case.body
    if operation == "PutNamespace":
        fitting_webhooks(body)
        fitting_rates(body)
    if operation in ("PutJob", "CreateJob", "PatchJob"):
        fitting_job(body, path)
        if operation == "PutJob":
            one_condition(case)
        if operation == "PatchJob":  # what fits depends on the job that is there
            for field in ("schedule", "due_time", "data", "data_base64", "content_type", *RECURRING):
                body.pop(field, None)
    elif operation == "BatchPutJobs":
        names = set()
        for job in body.get("jobs") or []:
            fitting_job(job, path)
            job.pop("namespace", None)
            if job.get("name") in names:
                job.pop("name", None)
            names.add(job.get("name"))
    elif operation == "TriggerJob":
        body.pop("payload", None)
    elif operation in ("BulkRuns", "BulkJobs"):
        fitting_bulk(body)
    fitting_times(body)
