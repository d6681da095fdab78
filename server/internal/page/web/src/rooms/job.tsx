import { useEffect, useState } from "preact/hooks";
import { call, get, jobPath, nsPath, post, Problem, runPath } from "../api";
import { hear } from "../live";
import { useAnswer, usePages, type Answer } from "../query";
import { go, jobHref, runHref, to } from "../router";
import { useCan } from "../session";
import { Table } from "../table";
import { count, exact, known, local, plural, span } from "../time";
import type { Backfill, Job, Run, Timetable } from "../types";
import { Acting, Copy, Facts, holdLink, JobLink, Labels, Loading, Nothing, Outcome, Panel, sentence, Trouble, When, Why, type Act } from "../ui";
import { inZone } from "../words";
import { indented, members } from "../spec";
import { BackfillTable } from "./backfills";
import { Graph } from "./graph";
import { targetOf } from "./jobs";
import { unfinished } from "./queues";
import { columns, hasEnded, keyOfRun, lastError, took } from "./runs";
import { NextTimes } from "./times";

export function JobRoom({ ns, name }: { ns: string; name: string }) {
  const path = jobPath(ns, name);
  const ours = (e: { job?: string }) => e.job === name;
  const job = useAnswer(path, (signal) => get<Job>(path, {}, signal), { every: 3000, on: ours });
  const [act, ask] = useState<Act>();
  const [deleted, told] = useState<string>();
  useEffect(() => hear((events) => {
    const last = events.filter((e) => e.job === name && (e.type === "job.deleted" || e.type === "job.created")).pop();
    if (last) told(last.type === "job.deleted" ? last.time : undefined);
  }), [name]);
  const can = useCan(ns);
  const gone = job.problem?.status === 404;
  const j = gone ? undefined : job.data;
  const acts = j ? actsOf(ns, j, can) : [];
  const button = (a: Act) => (
    <button key={a.title} type="button" class={a.danger ? "danger" : undefined} onClick={() => ask(a)} {...(a === acts[0] ? { "data-act": true } : {})}>{a.title}…</button>
  );
  return (
    <>
      <div class="heading">
        <h1><bdi>{name}</bdi></h1>
        {j && <Outcome of={j.status?.phase} />}
        <Copy text={name} what="the name" />
      </div>
      {j && <p class="acts">
        {acts.filter((a) => !a.danger).map(button)}
        {can("store") && <><a class="button" href={to("edit", { job: name }, ns)}>Edit</a><a class="button" href={to("new", { from: name }, ns)}>Make a copy</a></>}
        {acts.filter((a) => a.danger).map(button)}
      </p>}
      {gone ? <Gone ns={ns} name={name} says={job.problem!.detail} deleted={deleted} />
        : <Trouble of={job.problem} retry={job.reload} />}
      {!j && !job.problem && <Loading of="the job" />}
      {j && <About ns={ns} job={j} />}
      <History ns={ns} name={name} pending={j?.status?.pending_runs?.length ?? 0} />
      {j && (
        <>
          <Backfills ns={ns} name={name} />
          <Depends ns={ns} job={j} />
          <Spec ns={ns} job={j} />
        </>
      )}
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) job.reload();
      }} />}
    </>
  );
}

interface Entry { time?: string; principal?: string; action?: string; resource?: string; outcome?: string }

// Gone says what became of a job that is not there any more, as far as anything tells: an event, a run that its deletion ended, the record
// of who did what.
function Gone({ ns, name, says, deleted }: { ns: string; name: string; says: string; deleted?: string }) {
  const can = useCan(ns);
  const path = `${jobPath(ns, name)}:runs`;
  const last = useAnswer(`last ${path} ${deleted}`, async (signal) => (await get<{ runs?: Run[] }>(path, { page_size: 20 }, signal)).runs ?? []);
  const record = useAnswer(`deletions ${path} ${deleted} ${can("administer")}`, async (signal) => {
    if (!can("administer")) return undefined;
    const found: Entry[] = [];
    for (const action of ["DeleteJob", "DeleteJobs"]) {
      const a = await get<{ entries?: Entry[] }>("/v1/audit", { namespace: ns, action, outcome: "ok", page_size: 1000 }, signal);
      found.push(...(a.entries ?? []).filter((e) => action === "DeleteJob" ? e.resource === name : e.resource && name.startsWith(e.resource)));
    }
    return found.sort((a, b) => Date.parse(b.time ?? "") - Date.parse(a.time ?? ""))[0];
  });
  const newest = last.data?.[0];
  const run = newest?.finish_time ?? newest?.scheduled_time;
  // What was recorded or cancelled before its newest run was about an earlier job of the name.
  const entry = record.data?.time && !(run && Date.parse(record.data.time) < Date.parse(run) - 1000) ? record.data : undefined;
  const by = entry?.principal && entry.principal !== "anonymous" ? entry.principal : undefined;
  const when = entry?.time ?? deleted ?? (newest?.reason === "deleted" ? newest.finish_time : undefined);
  const history = newest ? "Its history, as far as it is kept, is below." : "";
  return (
    <div class="trouble" role="alert"><p>
      {when ? <><strong>Deleted</strong>{by && <> by <bdi>{by}</bdi></>} <When at={when} />. {history}</>
        : newest?.reason === "expired" ? <><strong>Ended</strong>: its life (ttl) was over. {history}</>
        : <><bdi>{sentence(says)}</bdi> {newest
          ? <>Its last run: {newest.status}, <When at={run} />. It has ended, or was deleted: nothing tells which.
            {ranOnce(last.data!) && <> If it was to run once, most likely it has <strong>ended</strong> with this run.</>} {history}</>
          : "No run of it is kept: it has never been, was deleted before it ran, or its history is no longer kept."}</>}
    </p></div>
  );
}

// ranOnce tells whether a history may be that of a job that runs once, and has.
const ranOnce = (runs: Run[]) => runs.length === 1 && runs[0]!.cause === "schedule" && ["succeeded", "failed", "dead"].includes(runs[0]!.status);

function About({ ns, job }: { ns: string; job: Job }) {
  const s = job.status ?? {};
  const zone = job.time_zone || "UTC";
  const words = job.schedule ? inZone(job.schedule, zone) : "once";
  const c = s.counters ?? {};
  return (
    <>
      <p class={"why" + (s.hold && !["not_due", "starting"].includes(s.hold.code) ? " held" : "")}>
        {s.hold?.code === "not_due" && s.next_run_time ? <><NotDue ns={ns} job={job} next={s.next_run_time} /><Besides ns={ns} job={job} /></>
          : s.hold ? <><Why of={s.hold} />{" "}
          <JobHold ns={ns} job={job} /></>
          : s.phase === "running" ? <>An attempt is in force{s.current_run?.id && <>: <a href={runHref(ns, s.current_run.id)}>see the run</a></>}.</>
          : s.next_run_time ? "It waits for its next time." : "Nothing is to come."}
      </p>
      <div class="columns">
        <Panel title="Schedule">
          <p class="words">{words ? words[0]!.toUpperCase() + words.slice(1) : <><code>{job.schedule}</code>, {zone}</>}</p>
          {job.schedule && <p class="source"><code><bdi>{job.schedule}</bdi></code>{job.dst && job.dst !== "safe" && <> dst: {job.dst}</>}</p>}
          {(job.except?.length || job.only?.length) ? (
            <p>{job.except?.length ? <>Not on <a href={to("calendars", {}, ns)}>{job.except.join(", ")}</a>. </> : null}
              {job.only?.length ? <>Only on <a href={to("calendars", {}, ns)}>{job.only.join(", ")}</a>.</> : null}</p>
          ) : null}
          {s.missing_calendars?.length ? <p class="warn">No such calendar: {s.missing_calendars.join(", ")}.</p> : null}
          <Next ns={ns} job={job} />
        </Panel>
        <Panel title="State">
          <Facts of={[
            ["To", <bdi>{targetOf(job)}</bdi>],
            ["Labels", Object.keys(job.labels ?? {}).length > 0 && <Labels of={job.labels} />],
            ["Note", job.note && <bdi>{job.note}</bdi>],
            ["Limited with", job.concurrency_key && <bdi>{job.concurrency_key}</bdi>],
            ["Priority", job.priority !== "normal" && job.priority],
            ["Generation", s.generation],
            ["Created", <When at={s.create_time} />],
            ["Changed", <When at={s.update_time} />],
            ["Begun", count(c.fired)], ["Succeeded", some(c.succeeded)], ["Dropped", some(c.dropped)],
            ["Dead", some(c.dead) && <a href={to("runs", { status: "dead", job: job.name }, ns)}>{count(c.dead)}</a>],
            ["Cancelled", some(c.cancelled)], ["Skipped", some(c.skipped)], ["Late", some(c.late)], ["Failed attempts", some(c.failed)],
            ["Failures in a row", s.failures ? <span class="bad">{s.failures}</span> : undefined],
            ["Pending runs", s.pending_runs?.length ? plural(s.pending_runs.length, "run") : undefined],
          ]} />
        </Panel>
      </div>
    </>
  );
}

// NotDue says when a job is due, and whether calendars are why that is not sooner.
function NotDue({ ns, job, next }: { ns: string; job: Job; next: string }) {
  const zone = !job.schedule ? local : job.time_zone && known(job.time_zone) ? job.time_zone : "UTC";
  const excluded = useTimes(ns, job).data?.excluded_time;
  const calendars = [...(job.except ?? []).map((c) => `not on ${c}`), ...(job.only ?? []).map((c) => `only on ${c}`)];
  return (
    <>Its next time is <When at={next} />, {exact(Date.parse(next), zone)}.
      {excluded && <> It would be sooner without its calendars: <a href={to("calendars", {}, ns)}><bdi>{calendars.join(", ")}</bdi></a>.</>}</>
  );
}

// useTimes asks for the next ten times, again when anything has happened to the job that they may depend on.
function useTimes(ns: string, job: Job): Answer<Timetable> {
  const s = job.status ?? {};
  return useAnswer(`times ${ns} ${job.name} ${s.generation} ${s.next_run_time} ${s.counters?.fired} ${s.counters?.skipped} ${job.paused}`,
    (signal) => get<Timetable>(`${jobPath(ns, job.name)}:times`, {}, signal), { every: 60_000 });
}

// Besides says which runs there are beside the schedule's own, as of a trigger, and what keeps the oldest that waits.
function Besides({ ns, job }: { ns: string; job: Job }) {
  const all = job.status?.pending_runs ?? [], waits = all.filter((r) => r.status !== "running");
  const first = waits[0] ?? all[0];
  const path = first?.id ? runPath(ns, first.id) : "";
  const hold = useAnswer(`besides ${path}`, async (signal) => path === "" ? undefined : (await get<Run>(path, {}, signal)).hold, { every: 3000, on: (e) => e.job === job.name }).data;
  if (!first) return null;
  const n = waits.length || all.length;
  const href = n === 1 && first.id ? runHref(ns, first.id) : to("runs", { job: job.name, status: unfinished }, ns);
  return <> {waits.length > 0 ? plural(n, "run waits", "runs wait") : plural(n, "run goes on", "runs go on")} besides: <a href={href}>see {n === 1 ? "it" : "them"}</a>.
    {hold && <> <Why of={hold} /> {holdLink({ ns, job: job.name, hold })}</>}</>;
}

// some is a count that is not none.
const some = (n?: string) => (Number(n ?? 0) > 0 ? count(n) : undefined);

// JobHold leads to what keeps the job.
function JobHold({ ns, job }: { ns: string; job: Job }) {
  const known = holdLink({ ns, job: job.name, hold: job.status?.hold });
  if (known) return known;
  if (job.status?.current_run?.id) return <a href={runHref(ns, job.status.current_run.id)}>See the run</a>;
  return null;
}

// Next shows the next ten times, and why there are no more.
function Next({ ns, job }: { ns: string; job: Job }) {
  const times = useTimes(ns, job);
  const list = times.data?.times ?? [];
  if (!job.schedule) {
    const next = list[0]?.due_time;
    return <><Trouble of={times.problem} />{next ? <p>Due <When at={next} />, {exact(Date.parse(next))}.</p> : times.data && <p class="none">No next time.</p>}</>;
  }
  const around = (from: string) => to("schedule", {
    schedule: job.schedule!, zone: job.time_zone, dst: job.dst === "safe" ? "" : job.dst, except: job.except?.join(","), only: job.only?.join(","), from,
  }, ns);
  const most = Math.max(0, ...list.map((t) => Date.parse(t.due_time) - Date.parse(t.scheduled_time)));
  return <><Trouble of={times.problem} />
    {list.length > 0 ? <NextTimes times={list.map((t) => t.scheduled_time)} zone={job.time_zone || "UTC"} around={around} /> : times.data && <p class="none">No next time.</p>}
    {most > 0 && <p class="small-print">By its jitter each run is due up to {span(most)} later than its time.</p>}
    {times.data?.end && <p class="small-print">{times.data.end_text}</p>}</>;
}

function History({ ns, name, pending }: { ns: string; name: string; pending: number }) {
  const path = `${jobPath(ns, name)}:runs`;
  const pages = usePages<Run>(path, async (token, signal) => {
    const a = await get<{ runs?: Run[]; next_page_token?: string }>(path, { page_size: 200, page_token: token }, signal);
    return { items: a.runs ?? [], next: a.next_page_token ?? "" };
  }, (e) => e.job === name);
  const strip = pages.items.filter(hasEnded).slice(0, 60).reverse();
  return (
    <Panel title="Runs">
      <Trouble of={pages.problem} retry={pages.reload} />
      {strip.length > 0 && <Strip ns={ns} runs={strip} />}
      {pages.items.length === 0 ? (pages.loading ? <Loading of="runs" /> : !pages.problem && <Nothing>
        {pending > 0 ? `${plural(pending, "run is", "runs are")} unfinished, and none that has ended is kept.` : "It has not run yet, or its history is no longer kept."}</Nothing>) : (
        <Table label="Runs of the job" rows={pages.items} keyOf={keyOfRun} href={(r) => runHref(ns, r.id)} more={pages.more} done={pages.done}
          columns={[columns.status!, columns.run!, columns.due!, columns.ended!, columns.late!, columns.took!, columns.attempt!, columns.error!]} />
      )}
    </Panel>
  );
}

// Strip is the last runs, oldest first: colour and form are the outcome, height how long it took.
export function Strip({ ns, runs }: { ns: string; runs: Run[] }) {
  const long = runs.map((r) => (r.start_time && r.finish_time ? Date.parse(r.finish_time) - Date.parse(r.start_time) : 0));
  const most = Math.max(...long, 1);
  return (
    <ol class="strip" aria-label="The last runs, oldest first">
      {runs.map((r, i) => {
        const text = `${r.status}, ${r.finish_time ? exact(Date.parse(r.finish_time)) : ""}${took(r) && ", took " + took(r)}${lastError(r) && ": " + lastError(r)}`;
        const size = 1 + Math.round((4 * Math.sqrt(long[i]!)) / Math.sqrt(most));
        const bar = <span class={`bar ${r.status} h${size}`} />;
        return <li key={keyOfRun(r) + i}>{r.id ? <a href={runHref(ns, r.id)} title={text} aria-label={text}>{bar}</a> : <span class="space" title={text}>{bar}</span>}</li>;
      })}
    </ol>
  );
}

function Backfills({ ns, name }: { ns: string; name: string }) {
  const path = `${jobPath(ns, name)}:backfills`;
  const all = useAnswer(path, (signal) => get<{ backfills?: Backfill[] }>(path, {}, signal), { every: 5000, on: (e) => e.job === name });
  const list = all.data?.backfills ?? [];
  if (list.length === 0) return null;
  return <Panel title="Backfills"><BackfillTable ns={ns} all={list} reload={all.reload} /></Panel>;
}

function Depends({ ns, job }: { ns: string; job: Job }) {
  if (!job.depends_on?.length) return null;
  const waiting = job.status?.waiting ?? [], missing = job.status?.missing ?? [];
  return (
    <Panel title="Waits for" aside={<a href={to("graph", { job: job.name }, ns)}>as a graph</a>}>
      <ul class="plain">
        {job.depends_on.map((d) => <li key={d}><JobLink ns={ns} name={d} />{" "}
          {missing.includes(d) ? <span class="bad">there is no such job</span> : waiting.includes(d) ? <><span class="warn">has yet to succeed.</span> <StateOf ns={ns} name={d} /></> : <span class="good">has succeeded</span>}</li>)}
      </ul>
      <Graph ns={ns} around={job.name} />
    </Panel>
  );
}

// StateOf is what a job is doing, and what keeps it.
function StateOf({ ns, name }: { ns: string; name: string }) {
  const path = jobPath(ns, name);
  const s = useAnswer(path, (signal) => get<Job>(path, {}, signal), { every: 5000, on: (e) => e.job === name }).data?.status;
  if (!s) return null;
  if (s.hold && s.hold.code !== "not_due") return <bdi>{sentence(s.hold.text)}</bdi>;
  return <>It is {s.phase}{s.next_run_time && <>, <When at={s.next_run_time} due /></>}.</>;
}

// Spec shows the job as the API writes it: to read its numbers would round large ones.
function Spec({ ns, job }: { ns: string; job: Job }) {
  const path = jobPath(ns, job.name);
  const spec = useAnswer(`spec ${path} ${job.status?.generation} ${job.paused} ${job.note}`, async (signal) => {
    const { status: _, ...parts } = members(await call<string>("GET", path, { signal, text: true }));
    return indented("{" + Object.entries(parts).map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",") + "}");
  });
  const text = spec.data;
  if (text === undefined) return <Panel title="Spec">{spec.problem ? <Trouble of={spec.problem} retry={spec.reload} /> : <Loading of="the spec" />}</Panel>;
  return (
    <Panel title="Spec" aside={<Copy text={text} what="the spec" />}>
      <pre tabIndex={0} aria-label="The spec as JSON"><bdi>{text}</bdi></pre>
    </Panel>
  );
}

function actsOf(ns: string, job: Job, can: ReturnType<typeof useCan>): Act[] {
  const path = jobPath(ns, job.name);
  const unfinished = (job.status?.current_run ? 1 : 0) + (job.status?.pending_runs?.length ?? 0);
  const acts: Act[] = [];
  if (can("store")) acts.push({
    title: "Trigger", button: "Run it now",
    says: <p>Begins a run now, beside the schedule{job.paused ? ", although the job is paused" : ""}. {unfinished > 0 ? `${plural(unfinished, "run is", "runs are")} unfinished.` : "None is unfinished."}</p>,
    fields: [
      { name: "overlap", label: "If a run is unfinished", kind: "select", options: ["allow", "skip", "replace"], value: "allow" },
      { name: "data", label: "Data, as JSON, in place of the job's", kind: "area", hint: "Empty: the job's own." },
    ],
    run: async (v) => {
      json("data", v.data!);
      const raw = v.data!.trim() === "" ? "" : `,"data":${v.data}`;
      const run = await call<Run>("POST", `${path}:trigger`, { raw: `{"overlap":${JSON.stringify(v.overlap)}${raw}}` });
      return <p>It is due now: <a href={runHref(ns, run.id)}>the run</a>.</p>;
    },
  });
  if (can("operate") && !job.paused) acts.push({
    title: "Pause", button: "Pause",
    says: <p>It fires nothing until it is resumed. A run that has been handed out goes on, with its retries.</p>,
    fields: [{ name: "note", label: "Why, for people" }],
    run: async (v) => {
      await post(`${path}:pause`, v.note ? { note: v.note } : {});
      return "It is paused.";
    },
  });
  if (can("operate") && job.paused) acts.push({
    title: "Resume", button: "Resume",
    says: <p>It goes on from now.</p>,
    fields: [{ name: "catch_up", label: "Catch up", kind: "check", hint: `Times that passed are treated by its misfire rule (${String((job as unknown as { misfire?: string }).misfire ?? "latest")}).` }],
    run: async (v) => {
      await post(`${path}:resume`, v.catch_up ? { catch_up: true } : {});
      return "It goes on.";
    },
  });
  if (can("operate") && job.schedule) {
    acts.push({
      title: "Skip the next", button: "Skip",
      says: <p>Passes over its next time{job.status?.next_run_time && <>, {exact(Date.parse(job.status.next_run_time))}</>}. It stays in the history as skipped.</p>,
      run: async () => {
        const a = await post<{ time?: string }>(`${path}:skip`);
        return <p>Skipped: {a.time && exact(Date.parse(a.time))}.</p>;
      },
    });
    acts.push({
      title: "Backfill", button: "Begin the backfill",
      says: <p>Runs the job at each past time of its schedule in a stretch, up to 1,000,000 times, also while it is paused. Times are those of where you are.</p>,
      fields: [
        { name: "from", label: "From", kind: "time" }, { name: "to", label: "To", kind: "time", hint: "Empty: now." },
        { name: "overlap", label: "Overlap", kind: "select", options: ["serial", "allow"], value: "serial" },
        { name: "rate", label: "Most runs begun in a second", hint: "Empty: no limit." },
      ],
      run: async (v) => {
        const rate = v.rate ? { rate: Number(v.rate) } : {};
        const b = await post<Backfill>(`${path}:backfill`, { ...stretch("from", v.from!), ...stretch("to", v.to!), overlap: v.overlap, ...rate });
        return <p>{plural(Number(b.total ?? 0), "run")}: <a href={to("backfills", { job: job.name }, ns)}>its progress</a>.</p>;
      },
    });
  }
  if (can("operate") && Number(job.status?.counters?.dead ?? 0) > 0) acts.push({
    title: "Redrive the dead", button: "Redrive",
    says: <p>{plural(Number(job.status!.counters!.dead), "dead run")} of the job: each gets new attempts under its id.</p>,
    run: async () => {
      const a = await post<{ redriven?: number }>(`${path}:redrive`);
      return <p>{plural(a.redriven ?? 0, "run")} redriven.</p>;
    },
  });
  if (can("store")) acts.push({
    title: "Delete", button: "Delete the job", danger: true, typed: job.name,
    says: (
      <>
        <p>The job is removed{job.schedule ? ", and does not fire again" : ""}. {unfinished > 0 ? `${plural(unfinished, "unfinished run is", "unfinished runs are")} cancelled.` : "No run is unfinished."} Its
          history stays as long as it is kept.</p>
        <Needed ns={ns} name={job.name} />
      </>
    ),
    run: async () => {
      const a = await call<{ interrupted?: boolean }>("DELETE", path, { ifMatch: job.status?.generation });
      setTimeout(() => go(jobHref(ns, job.name), true), 0);
      return a.interrupted ? "It is deleted, and an attempt in force was told to stop." : "It is deleted.";
    },
  });
  return acts;
}

// json refuses what is no JSON, before it is sent as a part of a body.
function json(field: string, text: string) {
  if (text.trim() === "") return;
  try {
    JSON.parse(text);
  } catch (e) {
    throw new Problem("invalid_argument", e instanceof Error ? e.message : String(e), 400, field);
  }
}

function stretch(name: string, value: string): Record<string, string> {
  return value === "" ? {} : { [name]: new Date(value).toISOString() };
}

// Needed says which jobs wait for one that is about to go.
function Needed({ ns, name }: { ns: string; name: string }) {
  const all = useAnswer(`needed ${ns} ${name}`, async (signal) => {
    const a = await get<{ jobs?: Job[] }>(`${nsPath(ns)}/jobs`, { page_size: 1000 }, signal);
    return (a.jobs ?? []).filter((j) => j.depends_on?.includes(name)).map((j) => j.name);
  });
  if (!all.data?.length) return null;
  return <p class="warn">{plural(all.data.length, "job waits", "jobs wait")} for it, and would wait on: {all.data.slice(0, 10).join(", ")}.</p>;
}
