import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useAnswer } from "../query";
import { setQuery, usePlace } from "../router";
import { local, startOfDay } from "../time";
import { Field, Loading, Panel, Trouble } from "../ui";
import { inWords } from "../words";
import { NextTimes } from "./times";

const zones = Intl.supportedValuesOf("timeZone");

const samples: [string, string, string][] = [
  ["30 2 * * *", "Europe/Berlin", "2027-03-26T00:00:00Z"], ["30 2 * * *", "America/New_York", "2027-11-05T00:00:00Z"],
  ["0 9 * * MON-FRI", "Europe/Berlin", ""], ["0 9 * * MON-FRI; 0 12 * * SAT", "UTC", ""], ["0 0 LW * *", "UTC", ""], ["@every 90m", "UTC", ""],
];

export function ScheduleRoom({ ns }: { ns: string }) {
  const { query } = usePlace();
  const value = (name: string) => query.get(name) ?? "";
  const asked = { schedule: value("schedule"), time_zone: value("zone"), dst: value("dst"), from: value("from"), except: value("except"), only: value("only") };
  const [waited, wait] = useState(asked);
  const text = JSON.stringify(asked);
  useEffect(() => {
    const timer = setTimeout(() => wait(JSON.parse(text)), 250);
    return () => clearTimeout(timer);
  }, [text]);
  const names = (list: string) => list.split(",").map((n) => n.trim()).filter(Boolean);
  const times = useAnswer("preview " + ns + JSON.stringify(waited), async (signal) => {
    if (waited.schedule.trim() === "") return undefined;
    const a = await call<{ times?: string[] }>("POST", "/v1/schedules:preview", {
      signal, body: {
        schedule: waited.schedule, time_zone: waited.time_zone || undefined, dst: waited.dst || undefined, count: 20, namespace: ns,
        from: startOfDay(waited.from, waited.time_zone) || undefined, except: names(waited.except), only: names(waited.only),
      },
    });
    return a.times ?? [];
  });
  const words = asked.schedule ? inWords(asked.schedule, asked.time_zone) : undefined;
  return (
    <>
      <h1>Schedule</h1>
      <p class="lead">When would it fire? Nothing here changes anything.</p>
      <div class="form">
        <Field name="schedule" label="Schedule" value={asked.schedule} set={(v) => setQuery({ schedule: v })} hint="A cron of 5 to 7 fields, @every 90s, @daily, R4/PT15M; or several, with ; between them." />
        <Field name="zone" label="Time zone" value={asked.time_zone} set={(v) => setQuery({ zone: v })} hint={`IANA name, such as Europe/Berlin. Empty: UTC. Yours is ${local}.`} options={zones} />
        <Field name="dst" label="When clocks change" kind="select" options={["safe", "literal"]} value={asked.dst || "safe"} set={(v) => setQuery({ dst: v === "safe" ? "" : v })} hint="safe: once a day whatever the clocks do. literal: what does not exist is left out, what comes twice runs twice." />
        <Field name="from" label="From" value={asked.from} set={(v) => setQuery({ from: v })} hint="A day, such as 2027-03-26, or a time in RFC 3339. Empty: now." />
        <Field name="except" label="Except calendars" value={asked.except} set={(v) => setQuery({ except: v })} hint="Their names, with commas between." />
        <Field name="only" label="Only calendars" value={asked.only} set={(v) => setQuery({ only: v })} hint="Their names, with commas between." />
      </div>
      <p class="samples">Try: {samples.map(([schedule, zone, from]) => (
        <button type="button" class="small" key={schedule + zone} onClick={() => setQuery({ schedule, zone, from })}>{schedule}{zone !== "UTC" && `, ${zone}`}</button>
      ))}</p>
      {asked.schedule !== "" && (
        <Panel title="Times">
          {words && !times.problem && <p class="words">{words[0]!.toUpperCase() + words.slice(1)}</p>}
          <Trouble of={times.problem} />
          {times.loading && !times.data && <Loading of="times" />}
          {times.data && (times.data.length === 0 ? <p>It never fires.</p> : <NextTimes times={times.data} zone={waited.time_zone || "UTC"}
            from={waited.from ? Date.parse(startOfDay(waited.from, waited.time_zone)) : undefined} />)}
        </Panel>
      )}
    </>
  );
}
