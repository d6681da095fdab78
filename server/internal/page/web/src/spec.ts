// What a form shows of a job, and what is sent of it. Only fields that the reader has changed are sent, in the text that the API
// wrote where it is kept, so nothing is lost that the form does not show.
import { ofDuration } from "./time";
import type { Job } from "./types";

// Values are what stands in the form, by the path of the field in the API.
export type Values = Record<string, string>;

interface Codec {
  show: (value: unknown) => string;
  make: (text: string) => unknown; // undefined: the field is left out
  wrong?: (text: string) => string; // what is wrong with a text, before it is sent
}

export interface Item {
  path: string;
  label: string;
  codec: Codec;
  kind?: "text" | "check" | "area" | "select";
  options?: string[];
  empty?: string; // what no choice means
  hint?: string;
  rows?: number;
  only?: "schedule"; // it belongs to jobs with a schedule
}

const text: Codec = { show: (v) => (v === undefined ? "" : String(v)), make: (t) => (t === "" ? undefined : t) };
// What is no number is sent as it is, for the API to refuse by its name.
// choice is one of some words; the API writes the default, too.
const choice = (otherwise: string): Codec => ({ show: (v) => text.show(v) || otherwise, make: (t) => (t === otherwise ? undefined : t) });
const number: Codec = { show: text.show, make: (t) => (t.trim() === "" ? undefined : /^-?\d+(\.\d+)?$/.test(t.trim()) ? Number(t) : t) };
const length: Codec = { show: (v) => brief(text.show(v)), make: (t) => (t.trim() === "" ? undefined : t.trim()) };
const check: Codec = { show: (v) => (v ? "true" : ""), make: (t) => t === "true" || undefined };
const lines: Codec = {
  show: (v) => ((v as string[] | undefined) ?? []).join("\n"),
  make: (t) => (split(t).length > 0 ? split(t) : undefined),
};

function split(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

function pairs(mark: "=" | ":"): Codec {
  const cut = (line: string) => [line.slice(0, line.indexOf(mark)).trim(), line.slice(line.indexOf(mark) + 1).trim()] as const;
  return {
    show: (v) => Object.entries((v as Record<string, string> | undefined) ?? {}).map(([key, value]) => key + (mark === ":" ? ": " : "=") + value).join("\n"),
    make: (t) => (split(t).length > 0 ? Object.fromEntries(split(t).map(cut)) : undefined),
    wrong: (t) => {
      const all = split(t), bad = all.find((line) => line.indexOf(mark) < 1);
      if (bad !== undefined) return `“${bad}” has no “${mark}”: one ${mark === "=" ? "key=value" : "Name: value"} a line`;
      const keys = all.map((line) => cut(line)[0]), twice = keys.find((key, i) => keys.indexOf(key) !== i);
      return twice === undefined ? "" : `“${twice}” is there twice`;
    },
  };
}

// brief writes a Go duration without what is zero in it.
export function brief(duration: string): string {
  return duration.replace(/m0s$/, "m").replace(/h0m$/, "h");
}

const item = (path: string, label: string, codec: Codec = text, more: Partial<Item> = {}): Item => ({ path, label, codec, ...more });
const area = (rows: number): Partial<Item> => ({ kind: "area", rows });

export const times: Item[] = [
  item("schedule", "Schedule", text, { only: "schedule", hint: "A cron of 5 to 7 fields, @every 90s, @daily, R4/PT15M; or several, with ; between them." }),
  item("due_time", "First run", text, { hint: "A time in RFC 3339, or a length from now, such as 10m. Empty: as the schedule says." }),
  item("time_zone", "Time zone", text, { hint: "IANA name, such as Europe/Berlin. Empty: UTC." }),
  item("dst", "When clocks change", choice("safe"), { kind: "select", options: ["safe", "literal"], only: "schedule", hint: "safe: once a day whatever the clocks do. literal: what does not exist is left out, what comes twice runs twice." }),
  item("except", "Except calendars", lines, { ...area(2), only: "schedule", hint: "Their names, one a line: on their dates it does not run." }),
  item("only", "Only calendars", lines, { ...area(2), only: "schedule", hint: "Their names, one a line: it runs on their dates alone." }),
];

const awaits = (kind: string) => item(`target.${kind}.await_completion`, "Await completion", check, { kind: "check", hint: "The run goes on until a consumer completes it by its token." });
const names = "Its name in the servers' configuration.";

// targets are the kinds that the form knows, with their fields. A job with another one keeps it.
export const targets: Record<string, Item[]> = {
  worker: [item("target.worker.queue", "Queue", text, { hint: "Workers that are connected for the queue get the runs." })],
  http: [
    item("target.http.url", "URL", text, { hint: "http or https. The payload is the request's body." }),
    item("target.http.method", "Method", text, { kind: "select", options: ["", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"], empty: "POST (default)" }),
    item("target.http.headers", "Headers", pairs(":"), { ...area(3), hint: "Name: value, one a line. A value may be a secret of the node, as secret://NAME." }),
  ],
  kafka: [item("target.kafka.cluster", "Cluster", text, { hint: names }), item("target.kafka.topic", "Topic"),
    item("target.kafka.key", "Key", text, { hint: "Empty: the job's name." }), awaits("kafka")],
  amqp: [item("target.amqp.broker", "Broker", text, { hint: names }), item("target.amqp.exchange", "Exchange", text, { hint: "Empty: the default one, for which the routing key names a queue." }),
    item("target.amqp.routing_key", "Routing key"), awaits("amqp")],
  nats: [item("target.nats.server", "Server", text, { hint: names }), item("target.nats.subject", "Subject"), awaits("nats")],
  redis: [item("target.redis.server", "Server", text, { hint: names }), item("target.redis.stream", "Stream"), awaits("redis")],
};

const retries = (form: string, otherwise: string) => item(`failure_policy.${form}.max_retries`, "Most retries", number, { hint: `After the first attempt. Empty: ${otherwise}.` });

// policies are the forms of failure policies, with their fields.
export const policies: Record<string, Item[]> = {
  "": [],
  drop: [],
  constant: [item("failure_policy.constant.interval", "Interval", length, { hint: "Between an attempt and the next, such as 30s." }), retries("constant", "no limit")],
  exponential: [
    item("failure_policy.exponential.initial", "First delay", length, { hint: "Empty: 2s." }), item("failure_policy.exponential.factor", "Factor", number, { hint: "Empty: 2." }),
    item("failure_policy.exponential.max", "Longest delay", length, { hint: "Empty: 1h." }),
    item("failure_policy.exponential.jitter", "Jitter of delays", length, { hint: "Up to so much is added." }), retries("exponential", "4"),
  ],
  schedule: [item("failure_policy.schedule.cron", "Cron of the retries", text, { hint: "Retries run at its times." }), retries("schedule", "no limit")],
};

export const afterwards: Item[] = [
  item("failure_policy.on_exhausted", "When no attempts are left", text, { kind: "select", options: ["", "dead", "drop"], empty: "default", hint: "dead: kept for a redrive; the default of a job that runs once. drop: in the history alone; the default of a schedule." }),
  item("failure_policy.pause_after", "Pause the job after", number, { hint: "So many failed runs in a row. Empty: never." }),
];

// dropped tells a field that a job without retries cannot have: what happens to its run is said already.
export const dropped = (i: Item, now: Values) => i.path === "failure_policy.on_exhausted" && now.failure_policy === "drop";

export const state: Item[] = [
  item("paused", "Paused", check, { kind: "check", hint: "It keeps its schedule and fires nothing." }),
  item("note", "Note", text, { ...area(2), hint: "For people: why it is paused, for example." }),
];

export const more: Item[] = [
  item("labels", "Labels", pairs("="), { ...area(3), hint: "key=value, one a line. Jobs can be listed by them." }),
  item("metadata", "Metadata", pairs("="), { ...area(3), hint: "key=value, one a line. It is handed to the consumer." }),
  item("depends_on", "Waits for", lines, { ...area(3), hint: "Names of jobs, one a line: each must succeed before a run begins." }),
  item("concurrency_key", "Concurrency key", text, { hint: "Runs that share it are limited by the namespace's settings." }),
  item("priority", "Priority", choice("normal"), { kind: "select", options: ["critical", "high", "normal", "low"] }),
  item("timeout", "Timeout", length, { hint: "Of one attempt. Empty: 30s of http and brokers, 24h of workers." }),
  item("lease", "Lease", length, { hint: "How long an attempt lives without a heartbeat; of workers. Empty: 2m." }),
  item("overlap", "If the run before goes on", choice("serial"), { kind: "select", options: ["serial", "skip", "allow", "replace"], only: "schedule", hint: "serial: the next one waits. skip: it is left out. allow: both run. replace: the one before is cancelled." }),
  item("misfire", "Times that were missed", choice("latest"), { kind: "select", options: ["latest", "all", "skip"], only: "schedule", hint: "latest: one run for all of them. all: each in order. skip: none." }),
  item("catch_up_limit", "Most that are made up for", number, { only: "schedule", hint: "Where all are. Empty: 1000." }),
  item("catch_up_window", "Made up for if younger than", length, { only: "schedule" }),
  item("jitter", "Jitter", length, { hint: "Each run is later by less than this." }),
  item("repeats", "Most runs", text, { only: "schedule", hint: "Then the job ends. Empty: no limit." }),
  item("ttl", "Ends", text, { hint: "A time, or a length from its first run on. Empty: never." }),
  item("history.runs", "Finished runs that are kept", number, { hint: "Empty: 20; -1: none." }),
  item("history.keep", "Kept for", length, { hint: "Empty: 72h." }),
  item("history.no_results", "Without results", check, { kind: "check" }),
];

const all: Item[] = [...times, ...Object.values(targets).flat(), ...Object.values(policies).flat(), ...afterwards, ...state, ...more];

function at(job: Job, path: string): unknown {
  let value: unknown = job;
  for (const key of path.split(".")) value = (value as Record<string, unknown> | undefined)?.[key];
  return value;
}

// Source is a job as the API wrote it.
export interface Source { job: Job; members: Record<string, string> }

// source reads an answer of the API.
export function source(answer: string): Source {
  return { job: JSON.parse(answer) as Job, members: members(answer) };
}

// indented is JSON with its members on lines of their own, and each value as it is written.
export function indented(json: string): string {
  let out = "", deep = 0;
  const line = () => "\n" + "  ".repeat(deep);
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  tokens.forEach((t, i) => {
    if (t === "{" || t === "[") {
      out += t;
      if (/[}\]]/.test(tokens[i + 1] ?? "")) return;
      deep++;
      out += line();
    } else if (t === "}" || t === "]") {
      if (!/^[{[]$/.test(tokens[i - 1] ?? "")) {
        deep--;
        out += line();
      }
      out += t;
    } else out += t === "," ? "," + line() : t === ":" ? ": " : t;
  });
  return out;
}

// members are those of a JSON object, each as it is written: numbers may be larger than this language knows.
export function members(object: string): Record<string, string> {
  const found: Record<string, string> = {};
  let depth = 0, key = "", from = -1;
  for (let i = 0; i < object.length; i++) {
    const c = object[i]!;
    if (c === '"') {
      const start = i;
      for (i++; object[i] !== '"'; i++) if (object[i] === "\\") i++;
      if (depth === 1 && from < 0) {
        key = JSON.parse(object.slice(start, i + 1)) as string;
        i = object.indexOf(":", i);
        from = i + 1;
      }
    } else if (c === "{" || c === "[") depth++;
    else if (c === "," || c === "}" || c === "]") {
      if (depth === 1 && from >= 0) {
        found[key] = object.slice(from, i).trim();
        from = -1;
      }
      if (c !== ",") depth--;
    }
  }
  return found;
}

const isJSON = (type: string) => /^application\/json\b|\+json\b/.test(type);

// valuesOf is what stands in the form of a job, or of a new one.
export function valuesOf(from?: Source): Values {
  const job = from?.job ?? ({} as Job);
  const v: Values = { when: !from || job.schedule ? "schedule" : "once", content_type: from?.job.content_type ?? "" };
  for (const i of all) v[i.path] = i.codec.show(at(job, i.path));
  v.target = Object.keys(job.target ?? {})[0] ?? "worker";
  v.failure_policy = Object.keys(policies).find((form) => form !== "" && at(job, "failure_policy." + form) !== undefined) ?? "";
  v["data.as"] = from?.members.data !== undefined ? "json" : job.payload ? "keep" : job.data_base64 ? (asText(job.data_base64) === undefined ? "keep" : "text") : "none";
  v.data = from?.members.data ?? asText(job.data_base64) ?? "";
  return v;
}

// asText is what bytes say, if they are text.
function asText(base64?: string): string | undefined {
  if (!base64) return undefined;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
    return /[\0-\x08\x0e-\x1f\r]/.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function toBase64(text: string): string {
  let bytes = "";
  for (const b of new TextEncoder().encode(text)) bytes += String.fromCharCode(b);
  return btoa(bytes);
}

// kept says what of a job the form cannot show: it stays.
export function kept(from: Source): string[] {
  const hidden = all.filter((i) => {
    const value = at(from.job, i.path);
    return value !== undefined && value !== i.codec.show(undefined) && JSON.stringify(i.codec.make(i.codec.show(value))) !== JSON.stringify(typeof value === "string" ? i.codec.show(value) : value) && value !== false;
  }).map((i) => i.path);
  const target = Object.keys(from.job.target ?? {})[0];
  if (target && !targets[target]) hidden.push("target." + target);
  const known = new Set([...all.map((i) => i.path.split(".")[0]!), "name", "namespace", "status", "target", "failure_policy", "data", "data_base64", "payload", "content_type"]);
  return [...hidden, ...Object.keys(from.members).filter((name) => !known.has(name))];
}

// Changes are fields with their new values as JSON; "null" is none.
export type Changes = Record<string, string>;

// changesOf is what the reader has changed since the form was filled from a job, as a PATCH says it.
export function changesOf(now: Values, before: Values, from?: Source): Changes {
  const out: Changes = {};
  // What the form hides is not sent: a job that ran once before stays as it was.
  const value = (i: Item) => i.only && now.when === "once" ? (before.when === "once" ? before[i.path]! : i.codec.show(undefined))
    : dropped(i, now) ? "" : now[i.path]!;
  const changed = (i: Item) => value(i) !== before[i.path];
  const made = (i: Item) => i.codec.make(value(i)) ?? null;
  const last = (i: Item) => i.path.slice(i.path.lastIndexOf(".") + 1);
  for (const i of all) if (!i.path.includes(".") && changed(i)) out[i.path] = JSON.stringify(made(i));

  const kind = now.target!, same = kind === before.target, fields = targets[kind] ?? [];
  if ((!same || fields.some(changed)) && targets[kind]) {
    const inner: Record<string, unknown> = same ? { ...from?.job.target?.[kind] } : {};
    for (const i of fields) {
      if (same && !changed(i)) continue;
      const v = made(i);
      if (v === null) delete inner[last(i)];
      else inner[last(i)] = v;
    }
    out.target = JSON.stringify({ [kind]: inner });
  }

  const policy: Record<string, unknown> = {};
  const form = now.failure_policy!;
  if (form !== before.failure_policy) policy[form || before.failure_policy!] = form === "" ? null : Object.fromEntries(policies[form]!.map((i) => [last(i), made(i)]));
  else {
    const inner = (policies[form] ?? []).filter(changed).map((i) => [last(i), made(i)]);
    if (inner.length > 0) policy[form] = Object.fromEntries(inner);
  }
  for (const i of afterwards) if (changed(i)) policy[last(i)] = made(i);
  if (Object.keys(policy).length > 0) out.failure_policy = JSON.stringify(policy);

  const history = more.filter((i) => i.path.startsWith("history.") && changed(i)).map((i) => [last(i), made(i)]);
  if (history.length > 0) out.history = JSON.stringify(Object.fromEntries(history));

  const as = now["data.as"]!;
  const otherData = as !== before["data.as"] || ((as === "json" || as === "text") && now.data !== before.data);
  if (as === "keep") return out;
  if (otherData) {
    if (as === "none") out.data_base64 = "null"; // data that are null are JSON
    if (as === "json") out.data = now.data!.trim();
    if (as === "text") out.data_base64 = JSON.stringify(toBase64(now.data!));
  }
  if (otherData || (as !== "none" && now.content_type !== before.content_type)) {
    const other = as === "json" ? "application/json" : "text/plain; charset=utf-8";
    const type = now.content_type!.trim();
    const fits = as === before["data.as"] || now.content_type !== before.content_type || isJSON(type) === (as === "json");
    out.content_type = as === "none" ? "null" : JSON.stringify(type !== "" && fits ? type : other);
  }
  return out;
}

// wrongOf is what is wrong with what stands in the form, by field, as far as that can be told before it is sent.
export function wrongOf(now: Values, shown: Item[]): Record<string, string> {
  const wrong: Record<string, string> = {};
  for (const i of shown) {
    const why = i.codec.wrong?.(now[i.path]!);
    if (why) wrong[i.path] = why;
  }
  if (now.namespace?.trim() === "") wrong.namespace = "a namespace is missing";
  if (now.when === "schedule" && now.schedule!.trim() === "") wrong.schedule = "a schedule is missing; choose once to run it once";
  if (now["data.as"] === "json") {
    try {
      JSON.parse(now.data!);
    } catch (e) {
      wrong.data = now.data!.trim() === "" ? "JSON is missing; none is a payload of its own kind" : `it is no JSON: ${e instanceof Error ? e.message : e}`;
    }
  }
  return wrong;
}

// bodyOf writes fields as a JSON object.
export function bodyOf(fields: Changes): string {
  return "{" + Object.entries(fields).map(([name, value]) => JSON.stringify(name) + ":" + value).join(",") + "}";
}

// wholeOf is a new job: what it is a copy of, with the changes.
export function wholeOf(name: string, changes: Changes, from?: Source): string {
  const fields = { ...from?.members };
  for (const own of ["name", "namespace", "status"]) delete fields[own];
  if (changes.data || changes.data_base64) for (const old of ["data", "data_base64", "payload", "content_type"]) delete fields[old];
  for (const [field, value] of Object.entries(changes)) {
    if (value === "null" && field !== "data") delete fields[field];
    else fields[field] = field === "failure_policy" || field === "history" ? merged(field, fields[field], value) : value;
  }
  if (name !== "") fields.name = JSON.stringify(name);
  return bodyOf(fields);
}

// merged applies a JSON merge patch. Of a failure policy only one form stays: that of the patch, if it has one.
function merged(field: string, before: string | undefined, patch: string): string {
  const apply = (to: unknown, by: unknown): unknown => {
    if (typeof by !== "object" || by === null) return by;
    const out: Record<string, unknown> = typeof to === "object" ? { ...to } : {};
    for (const [key, value] of Object.entries(by)) {
      if (value === null) delete out[key];
      else out[key] = apply(out[key], value);
    }
    return out;
  };
  const old = JSON.parse(before ?? "{}") as Record<string, unknown>, by = JSON.parse(patch) as Record<string, unknown>;
  if (field === "failure_policy" && Object.keys(policies).some((form) => by[form])) for (const form of Object.keys(policies)) if (!(form in by)) delete old[form];
  return JSON.stringify(apply(old, by));
}

// arrived tells whether a job has what the reader has changed: then storing it again would change nothing.
export function arrived(now: Values, before: Values, newer: Source): boolean {
  const is = valuesOf(newer), alike = { ...now };
  for (const i of all) if (now[i.path] !== before[i.path] && same(i, now[i.path]!, is[i.path]!)) alike[i.path] = is[i.path]!;
  for (const path of Object.keys(is)) if (now[path] === before[path]) alike[path] = is[path]!;
  return Object.keys(changesOf(alike, is, newer)).length === 0;
}

// same tells whether two texts of a field mean the same.
function same(i: Item, a: string, b: string): boolean {
  if (i.codec === length && a.trim() !== "" && ofDuration(a.trim()) === ofDuration(b)) return true;
  const made = [a, b].map((text) => i.codec.make(text));
  const [one, other] = made.map((v) => JSON.stringify(typeof v === "object" && v !== null && !Array.isArray(v) ? Object.entries(v).sort() : v));
  return one === other;
}

// rebased is what stands in the form, over another version of the job: what the reader has changed stays.
export function rebased(now: Values, before: Values, after: Values): Values {
  const out: Values = { ...after };
  for (const [path, value] of Object.entries(now)) if (value !== before[path]) out[path] = value;
  // What the payload is, and its text, are one thing.
  if (now["data.as"] !== before["data.as"] || now.data !== before.data) for (const path of ["data.as", "data", "content_type"]) out[path] = now[path]!;
  return out;
}

// differing are the fields of a job that two versions have different values of.
export function differing(a: Source, b: Source): string[] {
  const names = new Set([...Object.keys(a.members), ...Object.keys(b.members)]);
  names.delete("status");
  return [...names].filter((name) => a.members[name] !== b.members[name]);
}

// What a change does to a run that is under way, as docs/api.md has it.
const content = new Set(["target", "data", "data_base64", "payload", "content_type", "metadata", "failure_policy", "timeout", "lease", "jitter", "overlap", "misfire", "catch_up_limit", "catch_up_window", "concurrency_key"]);
const restarts = new Set(["schedule", "time_zone", "due_time", "ttl"]);

// effectOf says what storing the changes does.
export function effectOf(changes: Changes, job: Job): string[] {
  const names = Object.keys(changes);
  const run = job.status?.current_run, running = job.status?.phase === "running";
  const says: string[] = [];
  const scheduled = "schedule" in changes ? changes.schedule !== "null" : !!job.schedule; // the job that is made of it
  if (names.some((n) => restarts.has(n))) {
    says.push("Its times count from now on, as those of a new job do.");
    if (run && !scheduled) says.push("Its unfinished run is cancelled if the time of it changes: it runs at its new time.");
    else if (running) says.push("The attempt in force is told to stop; the next one begins at once.");
  } else if (running && (names.includes("dst") || names.includes("repeats") || names.some((n) => content.has(n)))) {
    says.push("The attempt in force is told to stop; the next one begins at once, with what is stored.");
  }
  if (changes.paused === "true") says.push("It fires nothing until it is resumed.");
  if (changes.paused === "null") says.push("It is resumed: it goes on from now.");
  return says;
}
