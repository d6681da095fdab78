import { useEffect, useState } from "preact/hooks";
import { get, jobPath, nsPath, runPath, post } from "../api";
import { ActingOnMany, type Many } from "../bulk";
import { usePages } from "../query";
import { runHref, setQuery, usePlace } from "../router";
import { useCan } from "../session";
import { Table, type Column } from "../table";
import { count, exact, ofDuration, plural, span } from "../time";
import type { Run } from "../types";
import { Field, JobLink, Loading, Nothing, Outcome, RunLink, Trouble, When } from "../ui";
import { Changes, summed } from "./jobs";

export const statuses = ["scheduled", "staged", "running", "retrying", "succeeded", "failed", "dead", "cancelled", "skipped"];
const ended = new Set(["succeeded", "failed", "dead", "cancelled", "skipped"]);

export const hasEnded = (run: Run) => ended.has(run.status);

// lateness is how long after it was due the last attempt began, in ms.
export function lateness(run: Run): number | undefined {
  if (!run.start_time || !run.due_time) return undefined;
  return Math.max(0, Date.parse(run.start_time) - Date.parse(run.due_time));
}

export function lastError(run: Run): string {
  return run.errors?.[run.errors.length - 1]?.message ?? run.reason ?? "";
}

export function took(run: Run): string {
  if (!run.start_time || !run.finish_time) return "";
  return span(Date.parse(run.finish_time) - Date.parse(run.start_time));
}

export const columns: Record<string, Column<Run>> = {
  run: { name: "Run", class: "c-id", cell: (r) => r.id ? <RunLink ns={r.namespace} id={r.id} /> : <span class="none">{plural(Number(r.skipped ?? 0), "time")}</span> },
  job: { name: "Job", class: "c-name", cell: (r) => <JobLink ns={r.namespace} name={r.job} /> },
  status: { name: "Status", class: "c-state", cell: (r) => <><Outcome of={r.status} /><span class="under"><When at={r.finish_time ?? r.due_time ?? r.scheduled_time} /></span></> },
  due: { name: "Due", class: "c-time wide", cell: (r) => <When at={r.scheduled_time ?? r.due_time} /> },
  ended: { name: "Ended", class: "c-time wide", cell: (r) => <When at={r.finish_time} /> },
  late: {
    name: "Late", class: "c-short wide", cell: (r) => {
      const ms = lateness(r);
      return <span class={ms !== undefined && ms > 1000 ? "number warn" : "number"}>{ms === undefined ? "" : span(ms)}</span>;
    },
  },
  took: { name: "Took", class: "c-short wide", cell: (r) => <span class="number">{took(r)}</span> },
  attempt: { name: "Attempt", class: "c-short wide", cell: (r) => <span class="number">{r.attempt || ""}</span> },
  error: { name: "Error", class: "c-why wide", cell: (r) => <bdi title={lastError(r)}>{lastError(r)}</bdi> },
};

export function keyOfRun(r: Run): string {
  return r.id || `${r.job} ${r.scheduled_time} ${r.finish_time}`;
}

export function RunsRoom({ ns }: { ns: string }) {
  const { query } = usePlace();
  const can = useCan(ns);
  const value = (name: string) => query.get(name) ?? "";
  const filter = {
    status: value("status").split(",").filter(Boolean), prefix: value("prefix"), queue: value("queue"), kind: value("kind"),
    label: value("label"), job: value("job"), error: value("error"), from: value("from"), until: value("until"),
  };
  const late = value("late") === "" ? NaN : ofDuration(value("late"));
  const key = `runs ${ns} ${JSON.stringify(filter)} ${late}`;
  const pages = usePages<Run>(key, async (token, signal) => {
    const { job, ...query } = filter;
    const a = await get<{ runs?: Run[]; next_page_token?: string }>(job ? `${jobPath(ns, job)}:runs` : `${nsPath(ns)}/runs`, { ...query, page_size: 500, page_token: token }, signal);
    const runs = a.runs ?? [];
    return { items: Number.isNaN(late) ? runs : runs.filter((r) => (lateness(r) ?? 0) > late), next: a.next_page_token ?? "" };
  }, (e) => e.type.startsWith("run."));
  const [selected, setSelected] = useState<Set<string>>(new Set());
  useEffect(() => setSelected((old) => old.size === 0 ? old : new Set()), [key]); // of another list
  const [many, act] = useState<Many>();
  const select = (id: string) => setSelected((old) => {
    const next = new Set(old);
    if (!next.delete(id)) next.add(id);
    return next;
  });
  const toggle = (status: string) => {
    const next = new Set(filter.status);
    if (!next.delete(status)) next.add(status);
    setQuery({ status: statuses.filter((s) => next.has(s)).join(",") });
  };
  const ask = (action: "cancel" | "redrive") => {
    const button = action === "cancel" ? "Cancel runs" : "Redrive";
    const does = action === "cancel" ? "Attempts in force are told to stop, and what waits does not begin." :
      "Each dead run gets new attempts under its id; its errors stay.";
    if (selected.size > 0) {
      act({
        title: `${button}: the selected runs`, noun: "run", does, button, typed: action === "cancel",
        each: [...selected].map((id) => ({ name: id, run: () => post(`${runPath(ns, id)}:${action}`) })),
      });
      return;
    }
    const possible = action === "cancel" ? ["staged", "running", "retrying"] : ["dead"];
    const { status, ...others } = filter;
    const wanted = status.length === 0 ? possible : possible.filter((s) => status.includes(s));
    const selects = Object.values(others).some((v) => v !== "") || (action === "cancel" && status.length > 0);
    act({
      title: `${button}: the runs of this list`, noun: "run", does, button, typed: action === "cancel", path: `${nsPath(ns)}/runs:bulk`,
      bodies: [{ action, ...nonEmpty(others), ...(action === "cancel" && status.length > 0 ? { status: wanted } : {}), ...(selects ? {} : { all: true }) }],
    });
  };
  const filtered = Object.values(filter).some((v) => v.length > 0) || !Number.isNaN(late);
  const cancels = filter.status.length === 0 || filter.status.some((s) => ["staged", "running", "retrying"].includes(s));
  const redrives = filter.status.length === 0 || filter.status.includes("dead");
  const which = selected.size > 0 ? `${count(selected.size)} selected` : "all";
  const acts = selected.size > 0 || value("late") === ""; // the API knows no lateness: all would be more than the list shows
  return (
    <>
      <h1>Runs</h1>
      <div class="chips" role="group" aria-label="Status">
        {statuses.map((s) => (
          <button type="button" key={s} aria-pressed={filter.status.includes(s)} onClick={() => toggle(s)}><Outcome of={s} /></button>
        ))}
      </div>
      <div class="filters" role="group" aria-label="Filters">
        <Field name="prefix" label="Job begins with" value={filter.prefix} set={(v) => setQuery({ prefix: v, job: undefined })} />
        <Field name="queue" label="Queue" value={filter.queue} set={(v) => setQuery({ queue: v })} />
        <Field name="error" label="Error contains" value={filter.error} set={(v) => setQuery({ error: v })} />
        <Field name="label" label="Label" value={filter.label} set={(v) => setQuery({ label: v })} />
        <Field name="late" label="Later than" value={value("late")} set={(v) => setQuery({ late: v })} />
        <span class="sum" role="status">{summed(pages, "run")}</span>
        <span class="acts">
          {can("operate") && acts && redrives && <button type="button" data-act onClick={() => ask("redrive")}>Redrive {which}…</button>}
          {can("operate") && acts && cancels && <button type="button" class="danger" onClick={() => ask("cancel")}>Cancel {which}…</button>}
        </span>
      </div>
      {filter.job && <p class="changes">Only of the job <JobLink ns={ns} name={filter.job} /> <button type="button" onClick={() => setQuery({ job: undefined })}>Any job</button></p>}
      {(filter.from || filter.until) && (
        <p class="changes">{filter.from && `From ${exactOf(filter.from)}`} {filter.until && `until ${exactOf(filter.until)}`}{" "}
          <button type="button" onClick={() => setQuery({ from: undefined, until: undefined })}>Any time</button></p>
      )}
      {value("late") !== "" && Number.isNaN(late) && <p class="trouble">“{value("late")}” is no duration: 5s and 1m30s are.</p>}
      <Trouble of={pages.problem} retry={pages.reload} />
      {pages.changes > 0 && <Changes n={pages.changes} reload={pages.reload} />}
      {pages.items.length === 0 ? (
        pages.loading ? <Loading of="runs" /> : !pages.problem && (
          <Nothing command={filtered ? undefined : `carillon job trigger NAME --namespace ${ns}`}>
            {filtered ? "No run is like that." : "Nothing has run in this namespace yet. This runs a job now:"}
          </Nothing>
        )
      ) : (
        <Table label="Runs" rows={pages.items} keyOf={keyOfRun} href={(r) => runHref(ns, r.id)} more={pages.more} done={pages.done}
          selected={selected} select={select}
          columns={[columns.status!, columns.job!, columns.run!, columns.due!, columns.ended!, columns.late!, columns.took!, columns.attempt!, columns.error!]} />
      )}
      {!pages.done && !pages.loading && <button type="button" onClick={pages.more}>Look at more</button>}
      {many && <ActingOnMany many={many} close={(done) => {
        act(undefined);
        setSelected(new Set());
        if (done) pages.reload();
      }} />}
    </>
  );
}

function nonEmpty(of: Record<string, string | string[]>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(of).filter(([, v]) => v.length > 0));
}

function exactOf(text: string): string {
  const at = Date.parse(text);
  return Number.isNaN(at) ? text : exact(at);
}
