import { useState } from "preact/hooks";
import { get, post, queuePath } from "../api";
import { useAnswer } from "../query";
import { setQuery, to, usePlace } from "../router";
import { useCan } from "../session";
import { plural, relative } from "../time";
import type { Queue } from "../types";
import { Acting, Amount, Field, Loading, Nothing, Simple, Trouble, When, type Act } from "../ui";

// unfinished runs of a queue are those that it counts, and those to come: what waits in memory is not stored as more than scheduled.
export const unfinished = "scheduled,staged,running,retrying";

export interface Queues { queues: Queue[]; unheard: string[] }

export async function queuesOf(ns: string, signal: AbortSignal): Promise<Queues> {
  const all: Queues = { queues: [], unheard: [] };
  for (let token = ""; all.queues.length < 10_000;) {
    const a = await get<{ queues?: Queue[]; unheard?: string[]; next_page_token?: string }>("/v1/queues", { namespace: ns, page_size: 1000, page_token: token }, signal);
    all.queues.push(...(a.queues ?? []));
    all.unheard = a.unheard ?? [];
    token = a.next_page_token ?? "";
    if (token === "") break;
  }
  return all;
}

export const backlog = (q: Queue) => Number(q.ready ?? 0) + Number(q.limited ?? 0) + Number(q.staged ?? 0);

// stateOf says in words how a queue stands.
export function stateOf(q: Queue): [string, string] {
  if (q.pause) return ["paused", "quiet"];
  if (q.unserved) return ["nobody serves it", "bad"];
  if ((q.silent ?? 0) > 0 && q.silent === q.consumers) return ["all silent", "bad"];
  if (backlog(q) > 0 && Number(q.credits ?? 0) === 0) return ["no room", "warn"];
  if (Number(q.limited ?? 0) > 0) return ["limited", "warn"];
  return ["served", "good"];
}

export function QueuesRoom({ ns }: { ns: string }) {
  const can = useCan(ns);
  const filter = usePlace().query.get("prefix") ?? "";
  const [act, ask] = useState<Act>();
  const all = useAnswer(`queues ${ns}`, (signal) => queuesOf(ns, signal), { every: 2000, on: (e) => e.type.startsWith("queue.") });
  const shown = (all.data?.queues ?? []).filter((q) => q.name.includes(filter));
  return (
    <>
      <h1>Queues</h1>
      <div class="filters" role="group" aria-label="Filters">
        <Field name="prefix" label="Name contains" value={filter} set={(v) => setQuery({ prefix: v })} />
      </div>
      <Trouble of={all.problem} retry={all.reload} />
      {(all.data?.unheard.length ?? 0) > 0 && <p class="trouble" role="alert">Not heard from {all.data!.unheard.join(", ")}: what they know is missing here.</p>}
      {!all.data && !all.problem && <Loading of="queues" />}
      {all.data && <Simple label="Queues" head={["Queue", "Kind", "State", "Waiting", "In store", "For a limit", "Oldest", "Running", "Room", "Consumers", "Actions"]}
        empty={<Nothing command="carillon work QUEUE -- ./program">No queue is served, paused, or has runs that wait. This serves one:</Nothing>}
        rows={shown.map((q) => {
          const [state, tone] = stateOf(q);
          return {
            key: q.kind + " " + q.name, cells: [
              <a class="name" href={to("runs", { queue: q.name, kind: q.kind, status: unfinished }, ns)}><bdi>{q.name}</bdi></a>, q.kind,
              <span class={"tone " + tone} title={q.pause?.note}>{state}{q.pause?.note && <>: <bdi>{q.pause.note}</bdi></>}</span>,
              <Amount of={q.ready} tone="warn" />, <Amount of={q.staged} tone="warn" />, <Amount of={q.limited} tone="warn" />,
              <When at={q.oldest_due} />, <Amount of={q.in_flight} />, <Amount of={q.credits} />, <Amount of={q.consumers} />,
              can("operate") ? (
                <span class="acts">
                  {q.pause
                    ? <button type="button" class="small" onClick={() => ask(resume(ns, q))} aria-label={`Resume ${q.name}`}>Resume…</button>
                    : <button type="button" class="small" onClick={() => ask(pause(ns, q))} aria-label={`Pause ${q.name}`}>Pause…</button>}
                  <button type="button" class="small danger" aria-label={`Purge ${q.name}`} onClick={() => void purge(ns, q).then(ask)}>Purge…</button>
                </span>
              ) : "",
            ],
          };
        })} />}
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) all.reload();
      }} />}
    </>
  );
}

const late = (unheard?: string[]) => (unheard?.length ? ` ${unheard.join(", ")} did not confirm it, and will follow within 5 s.` : "");

function pause(ns: string, q: Queue): Act {
  return {
    title: `Pause ${q.name}`, button: "Pause", fields: [{ name: "note", label: "Why, for people" }],
    says: <p>No node hands out attempts of <bdi>{q.name}</bdi> until it is resumed.{Number(q.in_flight ?? 0) > 0 && ` ${plural(Number(q.in_flight), "attempt")} in force will go on.`}</p>,
    run: async (v) => "It is paused." + late((await post<{ unheard?: string[] }>(`${queuePath(ns, q.kind, q.name)}:pause`, v.note ? { note: v.note } : {})).unheard),
  };
}

function resume(ns: string, q: Queue): Act {
  return {
    title: `Resume ${q.name}`, button: "Resume",
    says: <p>{plural(backlog(q), "run that waits is", "runs that wait are")} handed out as there is room.</p>,
    run: async () => "It goes on." + late((await post<{ unheard?: string[] }>(`${queuePath(ns, q.kind, q.name)}:resume`)).unheard),
  };
}

async function purge(ns: string, q: Queue): Promise<Act> {
  const path = `${queuePath(ns, q.kind, q.name)}:purge`;
  let says: string;
  try {
    const a = await post<{ purged?: string }>(path, { dry_run: true });
    says = `${plural(Number(a.purged ?? 0), "due run that waits", "due runs that wait")} would be cancelled.`;
  } catch (e) {
    says = `How many would be cancelled is not known: ${e instanceof Error ? e.message : e}.`;
  }
  return {
    title: `Purge ${q.name}`, button: "Cancel what waits", danger: true, typed: q.name,
    says: <p>{says} The oldest was due {q.oldest_due ? relative(Date.parse(q.oldest_due)) : "just now"}. Attempts in force go on. This cannot be undone.</p>,
    run: async () => {
      let sum = 0;
      for (;;) {
        const a = await post<{ purged?: string; more?: boolean }>(path);
        sum += Number(a.purged ?? 0);
        if (!a.more) return `${plural(sum, "run")} cancelled.`;
      }
    },
  };
}
