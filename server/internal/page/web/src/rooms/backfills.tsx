import { useState } from "preact/hooks";
import { get, jobPath, nsPath, post } from "../api";
import { useAnswer } from "../query";
import { setQuery } from "../router";
import { useCan } from "../session";
import { count, exact } from "../time";
import type { Backfill } from "../types";
import { Acting, Field, JobLink, Loading, Nothing, Outcome, Simple, Trouble, When, type Act } from "../ui";

export function BackfillTable({ ns, all, reload }: { ns: string; all: Backfill[]; reload: () => void }) {
  const can = useCan(ns);
  const [act, ask] = useState<Act>();
  return (
    <>
      <Simple label="Backfills" head={["Backfill", "Status", "From", "To", "Progress", "Failed", "Started", "Ended", "Action"]} rows={all.map((b) => {
        const total = Number(b.total ?? 0), ended = Number(b.succeeded ?? 0) + Number(b.failed ?? 0);
        return {
          key: b.id, cells: [
            <span class="id" title={b.id}>{b.id.length > 12 ? "…" + b.id.slice(-10) : b.id}</span>, <Outcome of={b.status} />,
            b.from && exact(Date.parse(b.from)), b.to && exact(Date.parse(b.to)),
            <><progress max={Math.max(total, 1)} value={ended} aria-label="Ended" /> {count(ended)} of {count(total)}</>,
            <span class={Number(b.failed ?? 0) > 0 ? "number bad" : "number zero"}>{count(b.failed)}</span>,
            <When at={b.create_time} />, <When at={b.finish_time} />,
            can("operate") && b.status === "running" ? <button type="button" class="small danger" aria-label={`Cancel the backfill ${b.id}`} onClick={() => ask({
              title: "Cancel the backfill", button: "Cancel it", danger: true,
              says: <p>No further run of it begins, and those that go on are cancelled: {count(b.begun)} of {count(total)} have begun.</p>,
              run: async () => {
                await post(`${nsPath(ns)}/backfills/${encodeURIComponent(b.id)}:cancel`);
                return "It is cancelled.";
              },
            })}>Cancel…</button> : "",
          ],
        };
      })} />
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) reload();
      }} />}
    </>
  );
}

export function BackfillsRoom({ ns, job }: { ns: string; job: string }) {
  const path = `${jobPath(ns, job)}:backfills`;
  const all = useAnswer(job === "" ? "" : path, async (signal) => job === "" ? { backfills: [] } : get<{ backfills?: Backfill[] }>(path, {}, signal),
    { every: 2000, on: (e) => e.job === job });
  const list = all.data?.backfills ?? [];
  return (
    <>
      <h1>Backfills</h1>
      <div class="filters" role="group" aria-label="Filters">
        <Field name="job" label="Of the job" value={job} set={(v) => setQuery({ job: v })} />
        {job !== "" && <p class="field"><JobLink ns={ns} name={job} /></p>}
      </div>
      <Trouble of={all.problem} retry={all.reload} />
      {!all.data && !all.problem && <Loading of="backfills" />}
      {all.data && (list.length > 0 ? <BackfillTable ns={ns} all={list} reload={all.reload} /> : (
        <Nothing command={`carillon job backfill ${job || "NAME"} --from 2027-01-01T00:00:00Z`}>
          {job === "" ? "Name a job to see its backfills." : "The job has no backfill, or they are no longer kept."} This begins one:
        </Nothing>
      ))}
    </>
  );
}
