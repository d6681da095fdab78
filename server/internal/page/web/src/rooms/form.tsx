// A job in a form: a new one, a copy of one, or one that is changed over what was read of it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, get, jobPath, nsPath, Problem } from "../api";
import { useAnswer } from "../query";
import { go, jobHref, place, to, usePlace } from "../router";
import { useCan } from "../session";
import { afterwards, arrived, bodyOf, changesOf, differing, dropped, effectOf, kept, more, policies, rebased, source, state, targets, times, valuesOf, wholeOf, wrongOf, type Item, type Source, type Values } from "../spec";
import { local, zones } from "../time";
import type { Job, Namespace } from "../types";
import { Field, Loading, Nothing, Panel, Trouble } from "../ui";
import { inZone } from "../words";
import { Preview, usePreview } from "./preview";
import { queuesOf } from "./queues";

type Mode = "new" | "copy" | "edit";

// What was typed into a form that was left stays until the page is closed, by its address.
const drafts = new Map<string, { now: Values; before: Values }>();

export function NewRoom({ ns }: { ns: string }) {
  const from = usePlace().query.get("from") ?? "";
  return from === "" ? <Allowed ns={ns}><Form ns={ns} mode="new" name="" /></Allowed> : <Read ns={ns} name={from} mode="copy" />;
}

export function EditRoom({ ns }: { ns: string }) {
  return <Read ns={ns} name={usePlace().query.get("job") ?? ""} mode="edit" />;
}

function Allowed({ ns, children }: { ns: string; children: ComponentChildren }) {
  const can = useCan(ns);
  return can("store") ? <>{children}</> : <><h1>Jobs of {ns}</h1><Nothing>Your roles do not let you put jobs into this namespace.</Nothing></>;
}

// Read fills the form from a job.
function Read({ ns, name, mode }: { ns: string; name: string; mode: Mode }) {
  const path = jobPath(ns, name);
  const [read, set] = useState<{ path: string; from?: Source; problem?: Problem }>();
  const [turn, again] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    readJob(path, stop.signal).then((from) => set({ path, from }), (e) => stop.signal.aborted || set({ path, problem: asProblem(e) }));
    return () => stop.abort();
  }, [path, turn]);
  const fresh = read?.path === path ? read : undefined;
  return (
    <Allowed ns={ns}>
      {fresh?.from ? <Form key={path + mode} ns={ns} mode={mode} name={name} from={fresh.from} /> : (
        <>
          <h1>{mode === "edit" ? "Edit" : "Copy"} <bdi>{name}</bdi></h1>
          <Trouble of={fresh?.problem} retry={() => again(turn + 1)} />
          {!fresh?.problem && <Loading of="the job" />}
        </>
      )}
    </Allowed>
  );
}

const readJob = async (path: string, signal?: AbortSignal) => source(await call<string>("GET", path, { text: true, signal }));

function asProblem(e: unknown): Problem {
  return e instanceof Problem ? e : new Problem("internal", e instanceof Error ? e.message : String(e));
}

// begin is what a form begins with: of a new job what the address says.
function begin(ns: string, mode: Mode, name: string, from?: Source): Values {
  const v: Values = { ...valuesOf(from), namespace: ns, name: mode === "copy" ? "" : name };
  const { query } = place();
  if (mode !== "new") return v;
  const listed = (key: string) => (query.get(key) ?? "").split(",").map((n) => n.trim()).filter(Boolean).join("\n");
  return { ...v, schedule: query.get("schedule") ?? "", time_zone: query.get("zone") ?? "", dst: query.get("dst") || v.dst!, except: listed("except"), only: listed("only") };
}

const formNames: [string, string][] = [["drop", "drop: one attempt, no retry"], ["constant", "constant: after the same delay"], ["exponential", "exponential: after growing delays"],
  ["schedule", "schedule: at the times of a cron"]];
const targetNames: [string, string][] = [["worker", "workers, by a queue"], ["http", "an HTTP endpoint"], ["kafka", "a topic of Kafka"], ["amqp", "an exchange of RabbitMQ"], ["nats", "a subject of NATS"], ["redis", "a stream of Redis"]];

interface Conflict { newer: Source; fields: string[] }

function Form({ ns, mode, name, from: first }: { ns: string; mode: Mode; name: string; from?: Source }) {
  const address = useRef(place().href).current;
  const [from, setFrom] = useState(first);
  const start = (source?: Source) => begin(ns, mode, name, source);
  const [back, setBack] = useState(() => drafts.has(address));
  const [now, set] = useState<Values>(() => {
    const draft = drafts.get(address);
    return draft ? rebased(draft.now, draft.before, start(first)) : start(first);
  });
  const [problem, fail] = useState<Problem>();
  const [conflict, meet] = useState<Conflict>();
  const [busy, work] = useState(false);
  const [stored, end] = useState<{ job: Job; warnings: string[] }>();
  const [open, unfold] = useState(false);
  const [tried, attempt] = useState(false);
  const [inForce, arrive] = useState(false); // an answer was lost, and the changes are there
  const madeUp = useRef("");
  const lost = useRef(false); // the answer to an earlier try
  const before = start(from);
  const space = now.namespace!.trim();
  const spaces = useAnswer("spaces of a form", async (signal) => (await get<{ namespaces?: Namespace[] }>("/v1/namespaces", { page_size: 1000 }, signal)).namespaces?.map((n) => n.name) ?? []);
  const can = useCan(space);

  const hidden = from ? kept(from) : [];
  const shown = (i: Item) => !hidden.includes(i.path) && (!i.only || now.when === "schedule");
  const once = now.when === "once";
  const form = now.failure_policy!, kind = now.target!, as = now["data.as"]!;
  const inTimes = times.filter(shown), inTarget = (targets[kind] ?? []).filter(shown), inMore = more.filter(shown);
  const inPolicy = [...policies[form]!, ...afterwards].filter((i) => shown(i) && !dropped(i, now)), inState = state.filter(shown);
  const items = [...inTimes, ...inTarget, ...inPolicy, ...inState, ...inMore];
  const keys = ["name", "namespace", "when", "target", "data.as", "data", "content_type", "failure_policy", ...items.map((i) => i.path)];

  const changes = changesOf(now, from || mode === "new" ? valuesOf(from) : now, from);
  const retimed = mode !== "edit" || inTimes.some((i) => now[i.path] !== before[i.path]) || now.when !== before.when;
  const preview = usePreview(space, {
    schedule: once ? "" : now.schedule!, time_zone: now.time_zone!, dst: now.dst!, due_time: once || now.schedule!.trim() !== "" ? now.due_time! : "",
    except: once ? [] : now.except!.split("\n").filter(Boolean), only: once ? [] : now.only!.split("\n").filter(Boolean),
  }, 5);

  const comma = (list: string) => list.split("\n").map((n) => n.trim()).filter(Boolean).join(",");
  const around = (from: string) => to("schedule", {
    schedule: now.schedule!, zone: now.time_zone!, dst: now.dst === "safe" ? "" : now.dst!, except: comma(now.except!), only: comma(now.only!), from,
  }, space);

  const typed = wrongOf(now, items);
  // That a new job has no schedule yet is no news until it is sent.
  const wrong = (key: string): string | undefined => (key !== "schedule" || tried || mode === "edit" ? typed[key] : undefined)
    ?? (problem?.field && fieldOf(problem.field, keys) === key ? problem.detail : undefined)
    ?? (retimed && preview.problem?.field && fieldOf(preview.problem.field, keys) === key ? preview.problem.detail : undefined);
  const change = (key: string) => (value: string) => {
    if (problem?.field && fieldOf(problem.field, keys) === key) fail(undefined);
    const next = { ...now, [key]: value };
    set(next);
    if (Object.keys(next).some((k) => next[k] !== before[k])) drafts.set(address, { now: next, before });
    else drafts.delete(address);
  };
  const forget = () => {
    drafts.delete(address);
    setBack(false);
    fail(undefined);
    set(start(from));
  };
  // What the API refuses is shown where it is.
  const refused = problem?.field ? fieldOf(problem.field, keys) : undefined;
  const unfolded = open || inMore.some((i) => wrong(i.path));
  useEffect(() => {
    if (refused) document.getElementById("f-" + refused)?.focus();
  }, [problem]);
  useEffect(() => {
    if (mode !== "edit") document.getElementById("f-name")?.focus();
  }, []);

  const submit = async (e: Event) => {
    e.preventDefault();
    if (busy) return;
    attempt(true);
    const bad = Object.keys(typed)[0];
    if (bad !== undefined) {
      document.getElementById("f-" + bad)?.focus();
      return;
    }
    work(true);
    fail(undefined);
    // A name that is made up stays the same over retries: an answer that was lost makes no second job.
    const named = now.name!.trim() || (madeUp.current ||= freshName());
    try {
      const a = mode === "edit"
        ? await call<{ job: Job; warnings?: string[] }>("PATCH", jobPath(ns, name), { raw: bodyOf(changes), ifMatch: from!.job.status?.generation })
        : await call<{ job: Job; warnings?: string[] }>("POST", `${nsPath(space)}/jobs`, { raw: wholeOf(named, { ...changes, ...needed(changes, now) }, from) });
      drafts.delete(address);
      if (a.warnings?.length) end({ job: a.job, warnings: a.warnings });
      else go(jobHref(space, a.job.name));
    } catch (e) {
      const p = asProblem(e);
      if (mode !== "edit" && p.unknown) change("name")(named); // so that it can be looked up, and what is wrong with it be told
      if (mode === "edit" && (p.status === 412 || p.unknown)) await compare(p);
      else fail(p);
      lost.current ||= p.unknown;
    }
    work(false);
  };
  const compare = async (p: Problem) => {
    try {
      const newer = await readJob(jobPath(ns, name));
      if ((p.unknown || lost.current) && arrived(now, before, newer)) {
        drafts.delete(address);
        arrive(true);
        return;
      }
      if (p.unknown) {
        fail(p);
        return;
      }
      meet({ newer, fields: differing(from!, newer) });
    } catch (e) {
      fail(e instanceof Problem && e.status === 404 ? e : p);
    }
  };
  const goOn = (c: Conflict) => {
    const after = start(c.newer), next = rebased(now, before, after);
    drafts.set(address, { now: next, before: after });
    setFrom(c.newer);
    set(next);
    meet(undefined);
  };

  const field = (i: Item, options?: (string | [string, string])[]) => (
    <Field key={i.path} name={i.path} label={i.label} kind={i.kind} rows={i.rows} options={options ?? i.options} empty={i.empty} value={now[i.path]!}
      set={change(i.path)} hint={i.path === "time_zone" ? <>{i.hint} Yours is {local}. {mode === "new" && now.time_zone !== local &&
        <button type="button" class="small" onClick={() => change("time_zone")(local)}>Use {local}</button>}</> : i.hint} wrong={wrong(i.path)} />
  );
  const title = mode === "edit" ? "Edit" : mode === "copy" ? "Copy" : "New job";
  if (stored) return <Stored job={stored.job} warnings={stored.warnings} edited={mode === "edit"} />;
  const list = mode === "edit" ? changed(now, before, items) : [];
  if (inForce) return <InForce ns={ns} name={name} />;
  return (
    <form class="job" onSubmit={submit} noValidate aria-label={mode === "new" ? title : `${title} ${name}`}>
      <h1>{title}{mode !== "new" && <> <bdi>{name}</bdi></>}</h1>
      {back && <p class="changes" role="status">What you had typed in is here again. <button type="button" onClick={forget}>Begin again</button></p>}
      {mode !== "edit" && (
        <Panel title="Job">
          <div class="form">
            <Field name="name" label="Name" value={now.name!} set={change("name")} wrong={wrong("name")} hint="Levels with / between, such as reports/nightly. Empty: one is made up." />
            <Field name="namespace" label="Namespace" value={now.namespace!} set={change("namespace")} wrong={wrong("namespace")} options={spaces.data ?? []} hint="A new one begins with its first job." />
          </div>
          {!can("store") && <p class="warn">Your roles do not let you put jobs into {space}.</p>}
        </Panel>
      )}
      <Panel title="When">
        <div class="form">
          <Field name="when" label="Runs" kind="select" options={[["schedule", "by a schedule"], ["once", "once"]]} value={now.when!} set={change("when")} wrong={wrong("when")} />
          {inTimes.map((i) => i.path === "due_time" && once ? field({ ...i, label: "Due", hint: "A time in RFC 3339, or a length from now, such as 10m. Empty: at once." })
            : field(i, i.path === "time_zone" ? zones : undefined))}
        </div>
        <div class="preview">
          {!retimed ? <Unchanged schedule={now.schedule!} zone={now.time_zone!} />
            : once && now.due_time!.trim() === "" ? <p>It runs once, as soon as it is stored.</p>
            : <Preview of={preview} around={once ? undefined : around} quiet={preview.problem !== undefined && fieldOf(preview.problem.field, keys) !== undefined} />}
        </div>
      </Panel>
      <Panel title="Where to">
        <div class="form">
          <Field name="target" label="Target" kind="select" value={kind} set={change("target")} wrong={wrong("target")}
            options={[...targetNames, ...(targets[before.target!] ? [] : [[before.target!, `${before.target}, as it is`] as [string, string]])]} />
          {inTarget.map((i) => i.path === "target.worker.queue" ? <QueueField key={i.path} ns={mode === "edit" || space === ns || spaces.data?.includes(space) ? space : ""} item={i} value={now[i.path]!} set={change(i.path)} wrong={wrong(i.path)} /> : field(i))}
        </div>
      </Panel>
      <Panel title="Payload">
        <div class="form">
          <Field name="data.as" label="Payload" kind="select" value={as} set={change("data.as")} wrong={wrong("data.as")}
            options={[["none", "none"], ["json", "JSON"], ["text", "text"], ...(before["data.as"] === "keep" ? [["keep", "as it is"] as [string, string]] : [])]} />
          {(as === "json" || as === "text") && <Field name="content_type" label="Content type" value={now.content_type!} set={change("content_type")} wrong={wrong("content_type")}
            hint={as === "json" ? "Empty: application/json." : "Empty: text/plain; charset=utf-8."} />}
          {as === "keep" && <p class="none">{keptPayload(from!.job)}</p>}
        </div>
        {(as === "json" || as === "text") && <Field name="data" label={as === "json" ? "Data, as JSON" : "Data, as text"} kind="area" value={now.data!} set={change("data")} wrong={wrong("data")} />}
      </Panel>
      <Panel title="When an attempt fails">
        <div class="form">
          <Field name="failure_policy" label="Retries" kind="select" value={form} set={change("failure_policy")} wrong={wrong("failure_policy")}
            options={[["", once ? "default: 4, after 2 s and growing" : "default: 3, 1 s apart"], ...formNames]} />
          {inPolicy.map((i) => field(i))}
        </div>
      </Panel>
      <Panel title="State"><div class="form">{inState.map((i) => field(i))}</div></Panel>
      <section class="panel" aria-label="More">
        <details open={unfolded} onToggle={(e) => unfold(e.currentTarget.open)}>
          <summary>More: labels, what it waits for, limits, timeout, overlap, history</summary>
          <div class="form">{inMore.map((i) => field(i))}</div>
        </details>
      </section>
      {hidden.length > 0 && <p class="small-print">Not in this form, and kept as it is: {hidden.join(", ")}.</p>}
      {mode === "edit" && (
        <div class="summary">
          {list.length === 0 ? <p class="none">Nothing is changed yet.</p> : (
            <>
              <p>What changes:</p>
              <ul class="plain">{list.map(([label, old, is]) => <li key={label}>{label}: <del><bdi>{old}</bdi></del> <span class="unseen">becomes</span><span aria-hidden="true">→</span> <ins><bdi>{is}</bdi></ins></li>)}</ul>
              {effectOf(changes, from!.job).map((says) => <p key={says} class="warn">{says}</p>)}
            </>
          )}
        </div>
      )}
      {conflict && <Met conflict={conflict} mine={Object.keys(changes)} goOn={() => goOn(conflict)} leave={() => {
        drafts.delete(address);
        go(jobHref(ns, name));
      }} />}
      {problem && <Trouble of={problem} />}
      <div class="buttons">
        <a class="button" href={mode === "new" ? to("jobs", {}, ns) : jobHref(ns, name)} onClick={() => drafts.delete(address)}>Cancel</a>
        <button type="submit" class="primary" disabled={busy || conflict !== undefined || !can("store") || (mode === "edit" && list.length === 0)}>
          {busy ? "…" : mode === "edit" ? "Store the changes" : "Make the job"}</button>
      </div>
    </form>
  );
}

// needed are fields that a new job has although they are as the form began: who gets it.
function needed(changes: Record<string, string>, now: Values): Record<string, string> {
  return now.target === "worker" && !changes.target && now["target.worker.queue"] === "" ? { target: `{"worker":{"queue":""}}` } : {};
}

// fieldOf is the field of the form that a field of the API is: itself, what it is within, or what is within it.
function fieldOf(path: string, keys: string[]): string | undefined {
  const known = { data_base64: "data", payload: "data.as" }[path] ?? path;
  if (keys.includes(known)) return known;
  const around = keys.filter((key) => known.startsWith(key + ".") || known.startsWith(key + "[")).sort((a, b) => b.length - a.length)[0];
  return around ?? keys.find((key) => key.startsWith(known + "."));
}

const others: Record<string, string> = { when: "Runs", target: "Target", "data.as": "Payload", data: "Data", content_type: "Content type", failure_policy: "Retries" };

// changed lists what the reader has changed: what it was, and is.
function changed(typed: Values, before: Values, shown: Item[]): [string, string, string][] {
  const out = afterwards.filter((i) => dropped(i, typed));
  const now = { ...typed, ...Object.fromEntries(out.map((i) => [i.path, ""])) };
  const text = (value: string) => (value === "" ? "none" : value === "true" ? "yes" : value.length > 80 ? value.slice(0, 80) + "…" : value);
  const labels = [...Object.entries(others), ...[...shown, ...out].map((i) => [i.path, i.label] as const)];
  return labels.filter(([path]) => now[path] !== before[path] && !(path === "data" && !["json", "text"].includes(now["data.as"]!)))
    .map(([path, label]) => [label, text(before[path]!), text(now[path]!)]);
}

// Unchanged says what the schedule is: when it fires next the job's own page knows, as that depends on when it was put.
function Unchanged({ schedule, zone }: { schedule: string; zone: string }) {
  const words = schedule === "" ? undefined : inZone(schedule, zone);
  return <>{words && <p class="words">{words[0]!.toUpperCase() + words.slice(1)}</p>}<p class="none">Its times stay as they are.</p></>;
}

function keptPayload(job: Job): string {
  if (job.payload) return `It is in the payload store, as ${job.payload}.`;
  return `It is ${Math.floor(((job.data_base64 ?? "").replace(/=+$/, "").length * 3) / 4)} bytes of ${job.content_type || "application/octet-stream"}, which are no text.`;
}

// Met says that somebody else was faster: nothing is stored over what the reader has not seen.
function Met({ conflict, mine, goOn, leave }: { conflict: Conflict; mine: string[]; goOn: () => void; leave: () => void }) {
  const both = conflict.fields.filter((f) => mine.includes(f));
  return (
    <div class="trouble" role="alert">
      <div>
        {conflict.fields.length > 0 ? <p>Somebody has changed the job since this form was filled: <bdi>{conflict.fields.join(", ")}</bdi>. Nothing was stored.</p>
          : <p>The job was put since this form was filled, and all its fields are as they were. Nothing was stored.</p>}
        {both.length > 0 && <p>You have changed <bdi>{both.join(", ")}</bdi>, too: yours would replace what is there now.</p>}
      </div>
      <div class="buttons">
        <button type="button" onClick={leave}>Drop my changes</button>
        <button type="button" class="primary" onClick={goOn}>Go on over what is there now</button>
      </div>
    </div>
  );
}

function Stored({ job, warnings, edited }: { job: Job; warnings: string[]; edited: boolean }) {
  return (
    <div role="status">
      <h1>{edited ? "It is stored" : "It is made"}: <bdi>{job.name}</bdi></h1>
      <p>The node has something to say about it:</p>
      <ul class="plain">{warnings.map((w) => <li key={w} class="warn"><bdi>{w}</bdi></li>)}</ul>
      <p class="acts"><a class="button primary" href={jobHref(job.namespace, job.name)}>To the job</a>
        <a class="button" href={to("edit", { job: job.name }, job.namespace)}>Edit it again</a></p>
    </div>
  );
}

// InForce says what became of changes whose answer was lost.
function InForce({ ns, name }: { ns: string; name: string }) {
  return (
    <div role="status">
      <h1>Your changes are there: <bdi>{name}</bdi></h1>
      <p>The answer of the node was lost. The job was read again, and it has what you changed.</p>
      <p class="acts"><a class="button primary" href={jobHref(ns, name)}>To the job</a></p>
    </div>
  );
}

// freshName is a name for a job that is given none: a ULID, as a node makes them.
function freshName(): string {
  const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  let name = "";
  for (let i = 0, ms = Date.now(); i < 10; i++, ms = Math.floor(ms / 32)) name = digits[ms % 32]! + name;
  for (const b of crypto.getRandomValues(new Uint8Array(16))) name += digits[b % 32]!;
  return name;
}

// QueueField offers the queues that there are; of no namespace there are none.
function QueueField({ ns, item, value, set, wrong }: { ns: string; item: Item; value: string; set: (v: string) => void; wrong?: string }) {
  const all = useAnswer(`queues of a form ${ns}`, async (signal) => ns === "" ? [] : (await queuesOf(ns, signal)).queues.filter((q) => q.kind === "worker").map((q) => q.name));
  return <Field name={item.path} label={item.label} value={value} set={set} wrong={wrong} options={all.data ?? []} hint={item.hint} />;
}
