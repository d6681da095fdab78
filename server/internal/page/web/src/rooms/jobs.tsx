import { useEffect, useState } from "preact/hooks";
import { call, get, jobPath, nsPath, Problem, runPath } from "../api";
import { ActingOnMany, type Many } from "../bulk";
import { useAnswer, usePages } from "../query";
import { jobHref, setQuery, to, usePlace } from "../router";
import { useCan } from "../session";
import { Table } from "../table";
import { count, plural, useTick } from "../time";
import type { Hold, Job, Run } from "../types";
import { Field, JobLink, Labels, Loading, Nothing, Outcome, sentence, Trouble, When } from "../ui";
import { inWords } from "../words";

export const phases = ["", "scheduled", "ready", "staged", "running", "retrying", "waiting", "paused"];

export function targetOf(job: Job): string {
  for (const [kind, t] of Object.entries(job.target ?? {})) {
    const name = t.queue ?? (typeof t.url === "string" ? t.url.replace(/^https?:\/\//, "") : undefined) ?? t.topic ?? t.subject ?? t.stream ?? t.routing_key ?? t.app_id ?? "";
    return kind === "worker" ? String(name) : `${kind} ${String(name)}`;
  }
  return "";
}

export function Times({ of }: { of: Job }) {
  if (!of.schedule) return <span class="none">once</span>;
  const words = inWords(of.schedule, of.time_zone);
  const zone = of.time_zone && of.time_zone !== "UTC" ? ` (${of.time_zone})` : "";
  return <span title={of.schedule + zone}>{words ?? <code>{of.schedule}</code>}{zone}</span>;
}

export function JobsRoom({ ns }: { ns: string }) {
  const { query } = usePlace();
  const can = useCan(ns);
  const filter = { prefix: query.get("prefix") ?? "", label: query.get("label") ?? "", phase: query.get("phase") ?? "" };
  const key = `jobs ${ns} ${JSON.stringify(filter)}`;
  const pages = usePages<Job>(key, async (token, signal) => {
    const a = await get<{ jobs?: Job[]; next_page_token?: string }>(`${nsPath(ns)}/jobs`, { ...filter, page_size: 500, page_token: token }, signal);
    return { items: a.jobs ?? [], next: a.next_page_token ?? "" };
  }, (e) => e.type.startsWith("job.") || e.type.startsWith("run."));
  const [selected, setSelected] = useState<Set<string>>(new Set());
  useEffect(() => setSelected((old) => old.size === 0 ? old : new Set()), [key]); // of another list
  const [many, act] = useState<Many>();
  const select = (name: string) => setSelected((old) => {
    const next = new Set(old);
    if (!next.delete(name)) next.add(name);
    return next;
  });
  const filtered = filter.prefix !== "" || filter.label !== "" || filter.phase !== "";
  const ask = (action: "pause" | "resume" | "trigger" | "delete", does: string, typed = false) => {
    const button = action[0]!.toUpperCase() + action.slice(1);
    if (selected.size > 0) {
      const method = action === "delete" ? "DELETE" : "POST";
      act({
        title: `${button} the selected jobs`, noun: "job", does, typed, button,
        each: [...selected].map((name) => ({
          name, run: () => call(method, jobPath(ns, name) + (action === "delete" ? "" : ":" + action), action === "delete" ? {} : { body: {} }),
        })),
      });
      return;
    }
    act({
      title: `${button} the jobs of this list`, path: `${nsPath(ns)}/jobs:bulk`, noun: "job", does, typed, button,
      bodies: [{ action, prefix: filter.prefix, label: filter.label, ...(filter.phase ? { phase: filter.phase } : {}), ...(filtered ? {} : { all: true }) }],
    });
  };
  const which = selected.size > 0 ? `${count(selected.size)} selected` : "all";
  return (
    <>
      <div class="heading"><h1>Jobs</h1>{can("store") && <a class="button" href={to("new", {}, ns)}>New job</a>}</div>
      <div class="filters" role="group" aria-label="Filters">
        <Field name="prefix" label="Name begins with" value={filter.prefix} set={(v) => setQuery({ prefix: v })} />
        <Field name="label" label="Label" value={filter.label} set={(v) => setQuery({ label: v })} />
        <Field name="phase" label="Phase" kind="select" options={phases} value={filter.phase} set={(v) => setQuery({ phase: v })} />
        <span class="sum" role="status">{summed(pages, "job")}</span>
        <span class="acts">
          {can("operate") && <button type="button" data-act onClick={() => ask("pause", "They keep their schedules and fire nothing until they are resumed.")}>Pause {which}…</button>}
          {can("operate") && <button type="button" onClick={() => ask("resume", "Each goes on from now; times that passed are left out.")}>Resume {which}…</button>}
          {can("store") && <button type="button" onClick={() => ask("trigger", "Each begins a run now, beside its schedule.")}>Trigger {which}…</button>}
          {can("store") && <button type="button" class="danger" onClick={() => ask("delete", "Their runs in force are cancelled. Finished runs stay in the history.", true)}>Delete {which}…</button>}
        </span>
      </div>
      <Trouble of={pages.problem} retry={pages.reload} />
      {pages.changes > 0 && <Changes n={pages.changes} reload={pages.reload} />}
      {pages.items.length === 0 ? (
        pages.loading ? <Loading of="jobs" /> : !pages.problem && (
          <Nothing command={filtered ? undefined : `carillon job put hello --schedule '@every 1m' --worker mail --namespace ${ns}`}>
            {filtered ? <>No job is like that.{filter.prefix && <Before ns={ns} prefix={filter.prefix} />}</>
              : <>There are no jobs in this namespace yet. {can("store") && <><a href={to("new", {}, ns)}>Make one in a form</a>, or </>}by this command:</>}
          </Nothing>
        )
      ) : (
        <Table label="Jobs" rows={pages.items} keyOf={(j) => j.name} href={(j) => jobHref(ns, j.name)} more={pages.more} done={pages.done}
          selected={selected} select={select} columns={[
            { name: "Job", class: "c-name", cell: (j) => <><JobLink ns={ns} name={j.name} /><span class="under"><WhyNot of={j} /></span></> },
            { name: "Phase", class: "c-state", cell: (j) => <><Outcome of={j.status?.phase} /><span class="under"><When at={j.paused ? undefined : j.status?.next_run_time} due /></span></> },
            { name: "Schedule", class: "c-words wide", cell: (j) => <Times of={j} /> },
            { name: "Next", class: "c-time wide", cell: (j) => <When at={j.paused ? undefined : j.status?.next_run_time} due /> },
            { name: "Last", class: "c-last wide", cell: (j) => j.status?.last_run ? <><Outcome of={j.status.last_run.status} /> <When at={j.status.last_run.finish_time} /></> : <span class="none">–</span> },
            { name: "To", class: "c-target wide", cell: (j) => <bdi title={targetOf(j)}>{targetOf(j)}</bdi> },
            { name: "Labels", class: "c-labels wide", cell: (j) => <Labels of={j.labels} /> },
            { name: "Why not now", class: "c-why wide", cell: (j) => <WhyNot of={j} /> },
          ]} />
      )}
      {!pages.done && !pages.loading && pages.items.length > 0 && <button type="button" onClick={pages.more}>Look at more</button>}
      {many && <ActingOnMany many={many} close={(done) => {
        act(undefined);
        setSelected(new Set());
        if (done) pages.reload();
      }} />}
    </>
  );
}

// summed is how many of a list have been read.
export function summed(pages: { items: unknown[]; done: boolean }, noun: string): string {
  return pages.done ? plural(pages.items.length, noun) : `${count(pages.items.length)}+ ${noun}s`;
}

// WhyNot is what keeps a job. A list says what the store knows; what keeps one that is due and has not begun, such as a limit, its node is
// asked for, for the rows in sight.
function WhyNot({ of: job }: { of: Job }) {
  useTick(); // it may become late
  const s = job.status ?? {};
  const late = !s.hold && !job.paused && s.phase === "scheduled" && s.next_run_time !== undefined && Date.parse(s.next_run_time) < Date.now() - 3000;
  return late || s.pending_count ? <AskedWhy of={job} /> : <WhyText hold={s.hold} note={job.note} />;
}

function AskedWhy({ of: job }: { of: Job }) {
  const path = jobPath(job.namespace, job.name);
  const asked = useAnswer(`why ${path}`, () => askedOnce(path), { every: 10_000, on: (e) => e.job === job.name });
  const { own, besides } = asked.data ?? {};
  if (!besides) return <WhyText hold={own} note={job.note} />;
  const said = own && own.code !== "not_due" ? sentence(own.text) + " " : "";
  return <bdi title={said + besides}>{said}{besides}</bdi>;
}

interface Asked { own?: Hold; besides?: string }

const underWay = new Map<string, Promise<Asked>>();

// askedOnce shares an answer between the two places of a row where it is shown.
function askedOnce(path: string): Promise<Asked> {
  let answer = underWay.get(path);
  if (!answer) {
    answer = whyOf(path).finally(() => underWay.delete(path));
    underWay.set(path, answer);
  }
  return answer;
}

// whyOf asks what keeps a job, and the oldest that waits of the runs beside its own, as of a trigger.
async function whyOf(path: string): Promise<Asked> {
  const job = await get<Job>(path), own = job.status?.hold;
  const waits = (job.status?.pending_runs ?? []).filter((r) => r.status !== "running");
  if (!waits[0]?.id) return { own };
  const run = await get<Run>(runPath(job.namespace, waits[0].id)).catch((e: unknown) => { // it may have ended meanwhile
    if (e instanceof Problem && e.status === 404) return undefined;
    throw e;
  });
  return { own, besides: run?.hold && `${plural(waits.length, "run waits", "runs wait")} besides: ${sentence(run.hold.text)}` };
}

function WhyText({ hold, note }: { hold?: Hold; note?: string }) {
  return <bdi title={hold?.text ?? note}>{hold ? sentence(hold.text) : note}</bdi>;
}

// Before leads to the runs of jobs that are not there any more, if some are kept.
function Before({ ns, prefix }: { ns: string; prefix: string }) {
  const kept = useAnswer(`before ${ns} ${prefix}`, (signal) => get<{ runs?: Run[] }>(`${nsPath(ns)}/runs`, { prefix, page_size: 1 }, signal));
  if (!kept.data?.runs?.length) return null;
  return <> A job that has ended is removed, but <a href={to("runs", { prefix }, ns)}>runs of such jobs</a> are kept.</>;
}

// Changes says that a long list is not what is now.
export function Changes({ n, reload }: { n: number; reload: () => void }) {
  return <p class="changes" role="status">{plural(n, "change")} since this list was read. <button type="button" onClick={reload}>Read it again</button></p>;
}
