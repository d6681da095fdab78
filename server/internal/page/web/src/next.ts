// When a job fires next, as far as it can be known. The API previews a schedule, not a job: what intervals are counted from, how many
// runs are left and when the job's life ends is found here.
import { call } from "./api";
import type { Job } from "./types";
import { exact, plural } from "./time";

export interface Next {
  times: string[];
  more?: string; // why there may be others after them
}

interface Preview { schedule?: string; due_time?: string; from?: string; count: number }

// nextTimes returns the next n times at most: those that are certain.
export async function nextTimes(ns: string, job: Job, n: number, signal: AbortSignal): Promise<Next> {
  const next = job.status?.next_run_time;
  if (!next) return { times: [] };
  if (!job.schedule || n === 1) return { times: [next] };
  const preview = async (p: Preview) => {
    const rules = p.schedule ? { dst: job.dst, namespace: ns, except: job.except, only: job.only } : {};
    const a = await call<{ times?: string[] }>("POST", "/v1/schedules:preview", { signal, body: { time_zone: job.time_zone, ...rules, ...p } });
    return a.times ?? [];
  };
  const now = Date.now(), past = Date.parse(next) < now; // it is due, and waits
  const count = past ? 1000 : n;
  const anchors = new Anchors(job, preview);
  const after = async () => {
    // How many runs are left is counted below: the preview would count those of its own anchor.
    const schedule = job.schedule!.replace(/^R\d+(\/P)/i, "R$1");
    switch (countsFrom(schedule)) {
      case "nothing": case "any of its times": return preview({ schedule, from: next, count });
    }
    for (const anchor of await anchors.all()) {
      const times = await preview({ schedule, due_time: anchor, from: new Date(Date.parse(next) - 1).toISOString(), count });
      if (times[0] === next) return times.slice(1);
    }
    return undefined;
  };
  const later = await after();
  if (!later) return { times: [next], more: "What the times after it are counted from is not known." };
  const all = [next, ...later.filter((t) => Date.parse(t) > (past ? now : Date.parse(next)))];
  const left = runsLeft(job), end = await endOf(job, next, anchors, preview);
  const times = all.slice(0, left?.sure).filter((t) => end === undefined || Date.parse(t) <= end.sure);
  const known = { times: times.slice(0, n) };
  if (times.length >= n || times.length === all.length) return known;
  if (left && times.length >= left.sure) {
    return left.exact ? known : { ...known, more: `The schedule begins ${left.limit} runs at most, and ${plural(left.begun, "run has", "runs have")} begun. ` +
      "Those of triggers and backfills do not count, so more may follow." };
  }
  return end!.sure === end!.latest ? known : { ...known, more: `Its life ends between ${exact(end!.sure)} and ${exact(end!.latest)}, so more may follow.` };
}

type Counting = "nothing" | "any of its times" | "the first";

// countsFrom says what the times of a schedule depend on but for its text.
export function countsFrom(schedule: string): Counting {
  const parts = schedule.split(";").map((part) => part.trim().replace(/^(?:CRON_)?TZ=\S+\s+/, ""));
  const anchored = parts.filter((part) => /^@every\s+[^/]*$/i.test(part) || /^R\d*\/P[^/]*$/i.test(part));
  if (anchored.length === 0) return "nothing";
  // Intervals of fixed length are the same from each of their times; days and months are not, where clocks or months differ.
  return parts.length === 1 && /^(@every\s+(?!.*P)|@every\s+PT|R\d*\/PT)/i.test(parts[0]!) ? "any of its times" : "the first";
}

// Anchors are the times that a job may count from: its due time, or when it was put. The put that counted was the last that changed
// when the job runs, which is not told: it was the first, the last, or one between them.
class Anchors {
  private found?: Promise<string[]>;

  constructor(private readonly job: Job, private readonly preview: (p: Preview) => Promise<string[]>) {}

  all(): Promise<string[]> {
    this.found ??= this.find();
    return this.found;
  }

  private async find(): Promise<string[]> {
    const due = this.job.due_time ?? "", s = this.job.status ?? {};
    if (isInstant(due)) return [due];
    const puts = [...new Set([s.create_time, s.update_time])].filter((t) => t !== undefined);
    if (due === "") return puts;
    const all = await Promise.all(puts.map((put) => this.preview({ due_time: due, from: put, count: 1 })));
    return puts.map((put, i) => all[i]![0] ?? put); // a length of zero ends at its beginning
  }
}

// isInstant tells a point in time from a length of time, as the API does.
function isInstant(text: string): boolean {
  return /^\d.{3}-/.test(text);
}

// runsLeft is how many times the schedule fires for certain; undefined: it has no limit. Of the runs that have begun it is not told
// which ones the schedule has begun.
function runsLeft(job: Job): { sure: number; limit: number; begun: number; exact: boolean } | undefined {
  const written = Number(/^R(\d+)\/P/i.exec(job.schedule ?? "")?.[1] ?? 0), set = Number(job.repeats ?? 0);
  const limit = written > 0 && set > 0 ? Math.min(written, set) : written || set;
  if (limit === 0) return undefined;
  const s = job.status ?? {};
  const waiting = [s.current_run, ...(s.pending_runs ?? [])].filter((r) => r?.id && !r.attempt && r.cause === "schedule").length;
  const begun = Number(s.counters?.fired ?? 0) + waiting;
  return { sure: Math.max(1, limit - begun), limit, begun, exact: begun === 0 };
}

// endOf is when the job's life ends: not before sure, and not after latest. undefined: it does not end.
async function endOf(job: Job, next: string, anchors: Anchors, preview: (p: Preview) => Promise<string[]>): Promise<{ sure: number; latest: number } | undefined> {
  const ttl = job.ttl ?? "";
  if (ttl === "") return undefined;
  if (isInstant(ttl)) return { sure: Date.parse(ttl), latest: Date.parse(ttl) };
  const ends: number[] = [];
  for (const anchor of await anchors.all()) {
    const [end] = await preview({ due_time: ttl, from: anchor, count: 1 });
    if (end) ends.push(Date.parse(end));
  }
  if (ends.length === 0) return { sure: Date.parse(next), latest: Infinity };
  return { sure: Math.max(Math.min(...ends), Date.parse(next)), latest: Math.max(...ends) };
}
