import { useState } from "preact/hooks";
import { get, nsPath, post, runPath } from "../api";
import { ActingOnMany, type Many } from "../bulk";
import { useAnswer } from "../query";
import { to } from "../router";
import { useCan } from "../session";
import { count, plural } from "../time";
import type { Run } from "../types";
import { JobLink, Loading, Nothing, RunLink, Simple, Trouble, When } from "../ui";
import { lastError } from "./runs";

const most = 5000;

export interface Group { job: string; jobs: string[]; error: string; runs: Run[] }

const ids = /\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{8,}\b/gi;

const lengths = /\b(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+\b/g;

// kind is an error without what differs from one run to the next, such as ids, lengths of time and long numbers. Short ones are codes:
// "exit status 1" is another error than "exit status 137".
function kind(error: string): string {
  return error.replace(ids, "#").replace(lengths, "#").replace(/\d{4,}/g, "#");
}

// family is a job's name without the numbers in which jobs of one kind differ.
function family(name: string): string {
  return name.replace(ids, "#").replace(/\d+/g, "#");
}

export function grouped(runs: Run[]): Group[] {
  const groups = new Map<string, Group>();
  for (const run of runs) {
    const error = lastError(run);
    const key = family(run.job) + "\u0000" + kind(error);
    const group = groups.get(key);
    if (!group) {
      groups.set(key, { job: run.job, jobs: [run.job], error, runs: [run] });
      continue;
    }
    group.runs.push(run);
    if (!group.jobs.includes(run.job)) group.jobs.push(run.job);
  }
  return [...groups.values()].sort((a, b) => b.runs.length - a.runs.length);
}

// only is a filter that finds the runs of a group among the dead ones of its jobs: the longest part of their errors that is the same in
// all. It is undefined where there is none, where it would find some of another group, too, and where not all dead runs are known.
function only(group: Group, groups: Group[], all: boolean): { error: string } | undefined {
  const error = cut(kind(group.error).split("#").reduce((a, b) => (b.trim().length > a.length ? b.trim() : a), ""));
  const has = (run: Run) => error !== "" && failed(run) && lastError(run).includes(error);
  const beside = groups.filter((g) => g !== group && g.jobs.some((job) => group.jobs.includes(job)));
  return all && group.runs.every(has) && !beside.some((g) => g.runs.some(has)) ? { error } : undefined;
}

// failed tells whether a run has errors, which filters look at. What else is shown as why it ended they do not find.
const failed = (run: Run) => (run.errors?.length ?? 0) > 0;

// common is a filter by which the runs of a group are found: their error, or as much of it as they have in common; "" if that is nothing.
export function common(group: Group): string {
  const texts = group.runs.map(lastError), same = texts.every((t) => t === group.error);
  const part = cut(same ? group.error : kind(group.error).split("#").reduce((a, b) => (b.trim().length > a.length ? b.trim() : a), ""));
  return group.runs.every(failed) && texts.every((t) => t.includes(part)) ? part : "";
}

// leadTo is the address of the runs that a group counts: those of its job, or of jobs with a prefix, with its error.
export function leadTo(ns: string, group: Group, status: string, from?: string): string {
  const whose = group.jobs.length === 1 ? { job: group.job } : { prefix: prefixOf(group.jobs) };
  return to("runs", { status, ...whose, error: common(group), from }, ns);
}

// cut is as much of a text as a filter may have: 512 bytes.
export function cut(text: string): string {
  const into = new Uint8Array(512);
  return text.slice(0, new TextEncoder().encodeInto(text, into).read);
}

// Jobs names what a group is about: a job, or the jobs whose names differ in numbers only.
export function Jobs({ ns, of }: { ns: string; of: Group }) {
  if (of.jobs.length === 1) return <JobLink ns={ns} name={of.job} />;
  return <><a class="name" href={to("jobs", { prefix: prefixOf(of.jobs) }, ns)} title={of.jobs.slice(0, 20).join("\n")}><bdi>{prefixOf(of.jobs)}…</bdi></a> <span class="none">{plural(of.jobs.length, "job")}</span></>;
}

// prefixOf is what names have in common at their beginning.
export function prefixOf(names: string[]): string {
  let prefix = names[0]!;
  for (const name of names) while (!name.startsWith(prefix)) prefix = prefix.slice(0, -1);
  return prefix;
}

// listed reads runs until there are enough.
export async function listed(ns: string, query: Record<string, string | string[]>, enough: number, signal: AbortSignal): Promise<{ runs: Run[]; all: boolean }> {
  const runs: Run[] = [];
  for (let token = "", turn = 0; turn < 20; turn++) {
    const a = await get<{ runs?: Run[]; next_page_token?: string }>(`${nsPath(ns)}/runs`, { ...query, page_size: Math.min(1000, enough), page_token: token }, signal);
    runs.push(...(a.runs ?? []));
    token = a.next_page_token ?? "";
    if (token === "") return { runs, all: true };
    if (runs.length >= enough) break;
  }
  return { runs, all: false };
}

export function DeadRoom({ ns }: { ns: string }) {
  const can = useCan(ns);
  const [many, act] = useState<Many>();
  const dead = useAnswer(`dead ${ns}`, (signal) => listed(ns, { status: "dead" }, most, signal),
    { every: 30_000, on: (e) => e.type === "run.dead" || e.type === "run.succeeded" || e.type === "run.cancelled" });
  const groups = grouped(dead.data?.runs ?? []);
  const redrive = (title: string, which: Pick<Many, "about" | "names" | "bodies" | "each">, typed: boolean) => act({
    title, ...which, path: `${nsPath(ns)}/runs:bulk`, noun: "dead run", button: "Redrive",
    does: "Each gets new attempts under its id; its errors stay.", typed,
  });
  const redriveGroup = (g: Group) => {
    const filter = only(g, groups, dead.data?.all ?? false);
    redrive(`Redrive the dead runs of ${g.jobs.length === 1 ? g.job : plural(g.jobs.length, "job")} with this error`, {
      about: g.error, ...(g.jobs.length > 1 ? { names: g.jobs } : {}), ...(filter
        ? { bodies: g.jobs.map((job) => ({ action: "redrive", job, ...filter })) }
        : { each: g.runs.map((run) => ({ name: run.id, run: () => post(`${runPath(ns, run.id)}:redrive`) })) }),
    }, false);
  };
  const total = dead.data?.runs.length ?? 0;
  return (
    <>
      <h1>Dead runs</h1>
      <p class="lead" role="status">{dead.data && (total === 0 ? "" : <>{plural(total, "run")}{dead.data.all ? "" : " or more"} out of attempts, in {plural(groups.length, "group")} of job and error.</>)}
        {total > 0 && can("operate") && <button type="button" data-act onClick={() => redrive("Redrive all dead runs", { bodies: [{ action: "redrive", all: true }] }, true)}>Redrive all…</button>}</p>
      <Trouble of={dead.problem} retry={dead.reload} />
      {!dead.data && !dead.problem && <Loading of="dead runs" />}
      {dead.data && <Simple label="Dead runs by job and error" head={["Runs", "Job", "Error", "Newest", "Run", "Action"]}
        empty={<Nothing>No run is dead. One that has no attempts left, and is to be kept, would be here with its errors, to be redriven.</Nothing>}
        rows={groups.slice(0, 500).map((g) => ({
          key: g.job + g.error, cells: [
            <a class="number" href={leadTo(ns, g, "dead")}>{count(g.runs.length)}</a>,
            <Jobs ns={ns} of={g} />, <span class="error clip" title={g.error}><bdi>{g.error}</bdi></span>,
            <When at={g.runs[0]!.finish_time} />, <RunLink ns={ns} id={g.runs[0]!.id} />,
            can("operate") ? <button type="button" class="small" onClick={() => redriveGroup(g)}
              aria-label={`Redrive the dead runs of ${g.jobs.length === 1 ? g.job : prefixOf(g.jobs) + "…"} with the error ${g.error.slice(0, 60)}`}>Redrive…</button> : "",
          ],
        }))} />}
      {many && <ActingOnMany many={many} close={(done) => {
        act(undefined);
        if (done) dead.reload();
      }} />}
    </>
  );
}
