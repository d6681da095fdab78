import { useState } from "preact/hooks";
import { call, get, nsPath } from "../api";
import { useAnswer } from "../query";
import { useCan } from "../session";
import { count, plural } from "../time";
import type { Calendar } from "../types";
import { Acting, Loading, Nothing, Panel, Trouble, type Act } from "../ui";

export function CalendarsRoom({ ns }: { ns: string }) {
  const can = useCan(ns);
  const [act, ask] = useState<Act>();
  const all = useAnswer(`calendars ${ns}`, (signal) => get<{ calendars?: Calendar[] }>(`${nsPath(ns)}/calendars`, { page_size: 1000 }, signal), { every: 15_000 });
  const list = all.data?.calendars ?? [];
  const path = (name: string) => `${nsPath(ns)}/calendars/${encodeURIComponent(name)}`;
  const put = (c?: Calendar): Act => ({
    title: c ? `Change ${c.name}` : "New calendar", button: "Store it",
    says: <p>{c ? "What is stored replaces the calendar as a whole, for all jobs that name it, at once." : "Jobs name it in except or only."}</p>,
    fields: [
      ...(c ? [] : [{ name: "name", label: "Name" }]),
      { name: "zone", label: "Time zone", value: c?.time_zone ?? "", hint: "Empty: UTC." },
      { name: "dates", label: "Dates, one a line", kind: "area" as const, value: (c?.dates ?? []).join("\n"), hint: "2026-12-25, 12-25 of every year, 2026-12-24/2027-01-01, or a span between two instants." },
      { name: "note", label: "Note", value: c?.note ?? "" },
    ],
    run: async (v) => {
      await call("PUT", path(c?.name ?? v.name!), {
        ...(c ? { ifMatch: c.generation } : {}),
        body: { time_zone: v.zone || undefined, dates: v.dates!.split("\n").map((d) => d.trim()).filter(Boolean), note: v.note || undefined },
      });
      return "It is stored.";
    },
  });
  const remove = (c: Calendar): Act => ({
    title: `Delete ${c.name}`, button: "Delete it", danger: true, typed: c.name,
    says: <p>For the jobs that name it, it is then as if they did not: times on its dates run.</p>,
    run: async () => {
      await call("DELETE", path(c.name), { ifMatch: c.generation });
      return "It is deleted.";
    },
  });
  return (
    <>
      <h1>Calendars</h1>
      {can("operate") && <p class="acts"><button type="button" data-act onClick={() => ask(put())}>New calendar…</button></p>}
      <Trouble of={all.problem} retry={all.reload} />
      {!all.data && !all.problem && <Loading of="calendars" />}
      {all.data && list.length === 0 && <Nothing command={`carillon calendar put holidays --date 12-25 --date 12-26 --namespace ${ns}`}>There are no calendars in this namespace: sets of dates on which jobs do not run, or run only. This makes one:</Nothing>}
      {list.map((c) => (
        <Panel key={c.name} title={c.name} aside={can("operate") && <>
          <button type="button" class="small" aria-label={`Change ${c.name}`} onClick={() => ask(put(c))}>Change…</button>
          <button type="button" class="small danger" aria-label={`Delete ${c.name}`} onClick={() => ask(remove(c))}>Delete…</button></>}>
          <p>{plural(c.dates?.length ?? 0, "date")} in {c.time_zone || "UTC"}, generation {c.generation}{c.note && <>: <bdi>{c.note}</bdi></>}</p>
          <ul class="dates">{(c.dates ?? []).slice(0, 200).map((d) => <li key={d}>{d}</li>)}{(c.dates?.length ?? 0) > 200 && <li>and {count(c.dates!.length - 200)} more</li>}</ul>
        </Panel>
      ))}
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) all.reload();
      }} />}
    </>
  );
}
