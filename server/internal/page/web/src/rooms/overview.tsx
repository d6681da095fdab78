import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, jobPath, nsPath, type Problem } from "../api";
import { useAnswer } from "../query";
import { go, runHref, setQuery, to, usePlace } from "../router";
import { clock, count, exact, local, plural, span } from "../time";
import type { Cluster, Job, Queue, Run, Timetable, Worker } from "../types";
import { Amount, Loading, Nothing, Outcome, Panel, Simple, Trouble, When } from "../ui";
import { grouped, Jobs, leadTo, listed } from "./dead";
import { backlog, queuesOf, stateOf, unfinished } from "./queues";
import { lateness } from "./runs";

const minute = 60_000;
const mostRuns = 5000, mostSchedules = 200;

const spans: Record<string, { length: number; step: number; name: string }> = {
  hour: { length: 60 * minute, step: minute, name: "hour" },
  day: { length: 24 * 60 * minute, step: 20 * minute, name: "day" },
};

interface Bucket { from: number; ok: number; bad: number; other: number; names: Map<string, number> }

function buckets(from: number, step: number, n: number): Bucket[] {
  return Array.from({ length: n }, (_, i) => ({ from: from + i * step, ok: 0, bad: 0, other: 0, names: new Map() }));
}

function put(all: Bucket[], at: number, step: number, kind: "ok" | "bad" | "other", name: string, n = 1) {
  const b = all[Math.floor((at - all[0]!.from) / step)];
  if (!b) return;
  b[kind] += n;
  b.names.set(name, (b.names.get(name) ?? 0) + n);
}

// timesOf are the next times of a job until an instant, at most 400. A job may have gone meanwhile.
async function timesOf(ns: string, j: Job, until: number, signal: AbortSignal): Promise<number[]> {
  const a = await get<Timetable>(`${jobPath(ns, j.name)}:times`, { count: 400, until: new Date(until).toISOString() }, signal)
    .catch((e: unknown) => { if ((e as Problem).status === 404) return {} as Timetable; throw e; });
  return (a.times ?? []).map((t) => Date.parse(t.scheduled_time));
}

// coming finds when the jobs of a namespace fire until an instant. Of more schedules than a node should be asked for it says
// less: then whole is false.
async function coming(ns: string, until: number, signal: AbortSignal): Promise<{ times: [number, string, number][]; whole: boolean }> {
  const a = await get<{ jobs?: Job[]; next_page_token?: string }>(`${nsPath(ns)}/jobs`, { page_size: 1000 }, signal);
  const jobs = (a.jobs ?? []).filter((j) => !j.paused && j.status?.next_run_time && Date.parse(j.status.next_run_time) < until);
  let whole = !a.next_page_token;
  const alike = new Map<string, Job[]>();
  for (const j of jobs) {
    // Crons fire at the same times whenever they were put; what else there is depends on the job.
    const shared = j.schedule && !j.repeats && !j.ttl && !/@every|(^|;)\s*(TZ=\S+\s+)?R/i.test(j.schedule);
    const key = JSON.stringify([j.schedule ?? "", j.time_zone, j.dst, j.except, j.only, j.status!.next_run_time, shared ? "" : j.name]);
    alike.set(key, [...(alike.get(key) ?? []), j]);
  }
  const groups = [...alike.values()];
  const times: [number, string, number][] = [];
  let asked = 0;
  const one = async (group: Job[]) => {
    const j = group[0]!;
    const recurs = j.schedule !== undefined && asked++ < mostSchedules;
    if (j.schedule !== undefined && !recurs) whole = false;
    const all = recurs ? await timesOf(ns, j, until, signal) : [Date.parse(j.status!.next_run_time!)];
    for (const name of group.map((g) => g.name)) {
      for (const t of all) if (t < until) times.push([t, name, 1]);
      const last = all[all.length - 1]!;
      if (all.length >= 400 && last < until) { // dense: it goes on as it began
        const rate = all.length / Math.max(last - all[0]!, 1);
        for (let t = last; t < until; t += minute) times.push([t, name, rate * Math.min(minute, until - t)]);
      }
    }
  };
  for (let i = 0; i < groups.length; i += 4) await Promise.all(groups.slice(i, i + 4).map(one));
  return { times, whole };
}

export function Overview({ ns }: { ns: string }) {
  const name = usePlace().query.get("span") === "day" ? "day" : "hour";
  const { length, step } = spans[name]!;
  const past = useAnswer(`past ${ns} ${name}`, (signal) => listed(ns, {
    status: ["succeeded", "failed", "dead", "cancelled", "skipped"], from: new Date(Date.now() - length).toISOString(),
  }, mostRuns, signal), { every: 10_000, on: (e) => e.type.startsWith("run.") });
  const next = useAnswer(`next ${ns} ${name}`, (signal) => coming(ns, Date.now() + length, signal), { every: 60_000, on: (e) => e.type.startsWith("job.") });
  const queues = useAnswer(`queues ${ns}`, (signal) => queuesOf(ns, signal), { every: 3000, on: (e) => e.type.startsWith("queue.") });
  const cluster = useAnswer("cluster", (signal) => get<Cluster>("/v1/cluster", {}, signal), { every: 5000 });
  const workers = useAnswer(`workers ${ns}`, (signal) => get<{ workers?: Worker[]; next_page_token?: string }>("/v1/workers", { namespace: ns, page_size: 1000 }, signal), { every: 5000 });
  const dead = useAnswer(`dead ${ns}`, (signal) => listed(ns, { status: "dead" }, 1000, signal), { every: 30_000, on: (e) => e.type === "run.dead" || e.type === "run.succeeded" || e.type === "run.cancelled" });
  const retrying = useAnswer(`retrying ${ns}`, (signal) => listed(ns, { status: ["retrying"] }, 1000, signal), { every: 5000, on: (e) => e.type === "run.retrying" || e.type === "run.succeeded" });

  const runs = past.data?.runs ?? [];
  const since = new Date(Date.now() - length).toISOString();
  const failures = grouped(runs.filter((r) => r.status === "failed" || r.status === "dead"));
  const ran = runs.filter((r) => r.start_time); // what was skipped, or cancelled before it began, has not run
  const late = runs.filter((r) => r.start_time && (r.attempt ?? 0) <= 1).map((r) => lateness(r)!).sort((a, b) => a - b);
  const waiting = (queues.data?.queues ?? []).filter((q) => backlog(q) > 0 || q.pause).sort((a, b) => Date.parse(a.oldest_due ?? "2200-01-01") - Date.parse(b.oldest_due ?? "2200-01-01"));
  const connected = new Set((workers.data?.workers ?? []).map((w) => w.id)).size;
  return (
    <>
      <h1 class="unseen">Overview</h1>
      <Health ns={ns} waiting={queues.data && waiting} unheard={queues.data?.unheard} problem={queues.problem ?? dead.problem} cluster={cluster.data} hidden={cluster.problem}
        dead={dead.data} retrying={retrying.data?.runs.length ?? 0} />
      <Trouble of={past.problem} retry={past.reload} />
      <Panel title={`The last ${name} and the next`} aside={<span class="switch" role="group" aria-label="Span">
        {Object.keys(spans).map((s) => <button type="button" key={s} class="small" aria-pressed={s === name} onClick={() => setQuery({ span: s === "hour" ? undefined : s })}>{s}</button>)}</span>}>
        <Band ns={ns} runs={runs} times={next.data?.times} length={length} step={step} />
        <p class="small-print">
          {`Times are those of ${local}. `}{past.data && "What ran is counted as far as each job keeps its history. "}
          {past.data && !past.data.all && <>Only the newest {count(runs.length)} runs are counted. </>}
          {next.data && !next.data.whole && <>There are more jobs than are looked at: of some only the next time is shown. </>}
          <Trouble of={next.problem} />
        </p>
      </Panel>
      <div class="columns">
        <Panel title="What failed" aside={<a href={to("runs", { status: "failed,dead", from: since }, ns)}>all runs that failed</a>}>
          {!past.data && !past.problem ? <Loading of="runs" /> : (
            <Simple label="What failed, by job and error" head={["Runs", "Job", "Error", "Newest"]}
              empty={<Nothing>Nothing has failed in the last {name}.</Nothing>}
              rows={failures.slice(0, 12).map((g) => ({
                key: g.job + g.error, cells: [
                  <a class="number bad" href={leadTo(ns, g, "failed,dead", since)}>{count(g.runs.length)}</a>, <Jobs ns={ns} of={g} />,
                  <span class="error clip" title={g.error}><bdi>{g.error}</bdi></span>, <a href={runHref(ns, g.runs[0]!.id)}><When at={g.runs[0]!.finish_time} /></a>,
                ],
              }))} />
          )}
        </Panel>
        <Panel title="Backlog" aside={<a href={to("queues", {}, ns)}>all queues</a>}>
          {!queues.data && !queues.problem ? <Loading of="queues" /> : (
            <Simple label="Backlog by queue" head={["Queue", "State", "Waiting", "Oldest", "Running"]} empty={<Nothing>Nothing waits in a queue.</Nothing>}
              rows={waiting.slice(0, 12).map((q) => {
                const [state, tone] = stateOf(q);
                return {
                  key: q.kind + q.name, cells: [
                    <a class="name" href={to("runs", { queue: q.name, kind: q.kind, status: unfinished }, ns)}><bdi>{q.name}</bdi></a>,
                    <span class={"tone " + tone}>{state}</span>, <Amount of={backlog(q)} tone="warn" />, <When at={q.oldest_due} />, <Amount of={q.in_flight} />,
                  ],
                };
              })} />
          )}
          <Trouble of={queues.problem} />
        </Panel>
      </div>
      <dl class="tiles">
        <Tile name={`Ran in the last ${name}`} value={past.data ? count(ran.length) + (past.data.all ? "" : "+") : "…"} />
        <Tile name="Lateness p50" value={late.length ? span(late[Math.floor(late.length / 2)]!) : "–"} />
        <Tile name="Lateness p99" value={late.length ? span(late[Math.min(late.length - 1, Math.floor(late.length * 0.99))]!) : "–"} />
        <Tile name="Retrying" value={count(retrying.data?.runs.length)} href={to("runs", { status: "retrying" }, ns)} />
        <Tile name="Dead" value={count(dead.data?.runs.length) + (dead.data && !dead.data.all ? "+" : "")} href={to("dead", {}, ns)} />
        <Tile name="Workers" value={workers.data ? count(connected) + (workers.data.next_page_token ? "+" : "") : "…"} href={to("workers", {}, ns)} />
      </dl>
    </>
  );
}

function Tile({ name, value, href }: { name: string; value: string; href?: string }) {
  return <div><dt>{name}</dt><dd>{href ? <a href={href}>{value}</a> : value}</dd></div>;
}

// Health is one line in words: whether all is well, and what is not.
function Health({ ns, waiting, unheard, problem, cluster, hidden, dead, retrying }: {
  ns: string; waiting?: Queue[]; unheard?: string[]; problem?: Problem; cluster?: Cluster; hidden?: Problem; dead?: { runs: Run[]; all: boolean }; retrying: number;
}) {
  if (problem && problem.status !== 401) return <Said tone="bad">Whether all is well is not known: <bdi>{problem.detail}</bdi></Said>;
  if (!waiting || !dead) return <p class="health" role="status">…</p>;
  const old = waiting.filter((q) => !q.pause && backlog(q) > 0 && q.oldest_due && Date.now() - Date.parse(q.oldest_due) > 5000);
  const bad = old.filter((q) => ["nobody serves it", "all silent"].includes(stateOf(q)[0]) ||
    (stateOf(q)[0] !== "limited" && Date.now() - Date.parse(q.oldest_due!) > minute));
  const parts = [];
  const paused = waiting.filter((q) => q.pause), kept = paused.filter((q) => backlog(q) > 0);
  const unowned = (cluster?.partitions ?? []).filter((p) => !p.node).length;
  if (unowned > 0) parts.push(<>{plural(unowned, "partition has", "partitions have")} <a href={to("cluster")}>no owner</a>: their jobs do not fire. </>);
  if (hidden) parts.push(hidden.status === 403 ? "You may not see whether all partitions have owners. " : <>Whether all partitions have owners is not known: <bdi>{hidden.detail}</bdi>. </>);
  if (unheard?.length) parts.push(<>Not heard from <bdi>{unheard.join(", ")}</bdi>: what waits there is not known. </>);
  parts.push(old.length === 0 ? (kept.length > 0 ? "What was due has begun, but for what waits in queues that are paused." : unowned > 0 ? "What was due elsewhere has begun."
    : unheard?.length || hidden ? "As far as is known, everything that was due has begun." : "Everything that was due has begun.") : bad.length === 0 ? "Some runs wait for room or for a limit." : `${plural(bad.length, "queue has", "queues have")} runs that should have begun.`);
  for (const q of [...bad, ...old.filter((q) => !bad.includes(q))].slice(0, 3)) {
    const [state] = stateOf(q);
    parts.push(<> {plural(backlog(q), "run waits", "runs wait")} in <a href={to("runs", { queue: q.name, status: unfinished }, ns)}><bdi>{q.name}</bdi></a>: {state}.</>);
  }
  for (const q of [...kept, ...paused.filter((q) => backlog(q) === 0)].slice(0, 3)) {
    parts.push(<> The queue <a href={to("queues", {}, ns)}><bdi>{q.name}</bdi></a> is paused{backlog(q) > 0 && <>: {plural(backlog(q), "run waits", "runs wait")} in it</>}.</>);
  }
  if (dead.runs.length > 0) parts.push(<> <a href={to("dead", {}, ns)}>{plural(dead.runs.length, "run is", "runs are")} dead{dead.all ? "" : " or more"}</a>.</>);
  if (retrying > 0) parts.push(<> {plural(retrying, "run waits", "runs wait")} for another attempt.</>);
  const tone = bad.length > 0 || unowned > 0 ? "bad" : dead.runs.length > 0 || old.length > 0 || kept.length > 0 || unheard?.length || hidden ? "warn" : "good";
  return <Said tone={tone}>{parts}</Said>;
}

function Said({ tone, children }: { tone: "good" | "warn" | "bad"; children: ComponentChildren }) {
  return <p class={"health " + tone} role="status"><span class="sign" aria-hidden="true">{tone === "good" ? "●" : tone === "warn" ? "◆" : "▲"}</span><span>{children}</span></p>;
}

// Band shows what ran, by outcome, and what will, in outline. A stretch that is dragged over leads to its runs.
function Band({ ns, runs, times, length, step }: { ns: string; runs: Run[]; times?: [number, string, number][]; length: number; step: number }) {
  const [drag, setDrag] = useState<[number, number]>();
  const [over, point] = useState<number>();
  const now = Math.floor(Date.now() / step) * step;
  const n = length / step;
  const all = buckets(now - (n - 1) * step, step, 2 * n);
  for (const r of runs) {
    if (!r.finish_time) continue;
    put(all, Date.parse(r.finish_time), step, r.status === "succeeded" ? "ok" : r.status === "failed" || r.status === "dead" ? "bad" : "other", r.job);
  }
  const ahead = buckets(now - (n - 1) * step, step, 2 * n);
  for (const [at, name, k] of times ?? []) if (at >= Date.now()) put(ahead, at, step, "ok", name, k);
  const sum = (b: Bucket) => b.ok + b.bad + b.other;
  const most = Math.max(1, ...all.map(sum), ...ahead.map(sum));
  const high = 96, w = 1200 / (2 * n);
  const h = (k: number) => (k === 0 ? 0 : Math.max(2, (k / most) * high));
  const index = (e: PointerEvent) => {
    const box = (e.currentTarget as Element).getBoundingClientRect();
    return Math.max(0, Math.min(2 * n - 1, Math.floor(((e.clientX - box.left) / box.width) * 2 * n)));
  };
  const open = (a: number, b: number) => {
    const from = all[Math.min(a, b)]!.from, until = all[Math.max(a, b)]!.from + step;
    const status = from >= Date.now() ? "scheduled" : undefined;
    go(to("runs", { from: new Date(from).toISOString(), until: new Date(until).toISOString(), status }, ns));
  };
  const shown = over === undefined ? undefined : { past: all[over]!, next: ahead[over]! };
  const totals = all.reduce((t, b) => ({ ok: t.ok + b.ok, bad: t.bad + b.bad, other: t.other + b.other }), { ok: 0, bad: 0, other: 0 });
  const come = Math.round(ahead.reduce((t, b) => t + sum(b), 0));
  const text = `${totals.ok} succeeded, ${totals.bad} failed, ${totals.other} skipped or cancelled; ${times ? come : "…"} to come.`;
  const ticks = Array.from({ length: 9 }, (_, i) => Math.round((i * 2 * n) / 8));
  const selected = drag && [Math.min(...drag), Math.max(...drag)];
  return (
    <div class="band">
      <svg viewBox={`0 0 1200 ${high + 4}`} preserveAspectRatio="none" role="img" aria-label={text}
        onPointerDown={(e) => {
          setDrag([index(e), index(e)]);
          e.currentTarget.setPointerCapture(e.pointerId);
        }}
        onPointerMove={(e) => {
          const i = index(e);
          point(i);
          if (drag) setDrag([drag[0], i]);
        }}
        onPointerUp={() => {
          if (drag) open(drag[0], drag[1]);
          setDrag(undefined);
        }}
        onPointerCancel={() => setDrag(undefined)} onPointerLeave={() => point(undefined)}>
        {selected && <rect class="chosen" x={selected[0]! * w} y={0} width={(selected[1]! - selected[0]! + 1) * w} height={high + 4} />}
        {all.map((b, i) => {
          const bad = h(b.bad), ok = h(b.ok), other = h(b.other), x = i * w + 0.75, width = w - 1.5;
          return (
            <g key={i}>
              {b.ok > 0 && <rect class="ok" x={x} y={high - ok} width={width} height={ok} />}
              {b.other > 0 && <rect class="other" x={x} y={high - ok - other} width={width} height={other} />}
              {b.bad > 0 && <rect class="bad" x={x} y={high - ok - other - bad} width={width} height={bad} />}
            </g>
          );
        })}
        {ahead.map((b, i) => sum(b) > 0 && <rect key={i} class="next" x={i * w + 1.5} y={high - h(sum(b)) + 0.75} width={w - 3} height={Math.max(h(sum(b)) - 1.5, 1)} />)}
        <line class="now" x1={n * w - w + ((Date.now() - now) / step) * w} x2={n * w - w + ((Date.now() - now) / step) * w} y1={0} y2={high + 4} />
      </svg>
      <div class="ticks" aria-hidden="true">{ticks.map((t) => <span key={t}>{t === n ? "now" : clock(all[0]!.from + t * step)}</span>)}</div>
      <p class="hover" aria-live="off">{shown ? (
        <>{clock(shown.past.from)}: {count(shown.past.ok)} succeeded, {count(shown.past.bad)} failed{sum(shown.next) > 0 && `, ${count(Math.round(sum(shown.next)))} to come`}.{" "}
          <bdi>{[...new Map([...shown.past.names, ...shown.next.names]).keys()].slice(0, 6).join(", ")}</bdi></>
      ) : <>{text} Point at a stretch to see its jobs, drag over one to see its runs.</>}</p>
      <details><summary>As a table</summary>
        <Simple label="Runs by time" head={["From", "Succeeded", "Failed", "Skipped or cancelled", "To come"]} empty={<p>Nothing ran, and nothing is to come.</p>}
          rows={all.map((b, i) => ({ b, next: sum(ahead[i]!) })).filter(({ b, next }) => sum(b) + next > 0).map(({ b, next }) => ({
            key: String(b.from), cells: [exact(b.from), count(b.ok), count(b.bad), count(b.other), count(Math.round(next))],
          }))} />
      </details>
      <p class="key"><Outcome of="succeeded" /> <Outcome of="failed" /> <Outcome of="skipped" /> <span class="outcome quiet"><span class="sign outline" aria-hidden="true">▯</span>to come</span></p>
    </div>
  );
}
