import { setQuery, to, usePlace } from "../router";
import { useCan } from "../session";
import { local, zones } from "../time";
import { Field, Panel } from "../ui";
import { Preview, usePreview } from "./preview";

const samples: [string, string, string][] = [
  ["30 2 * * *", "Europe/Berlin", "2027-03-26T00:00:00Z"], ["30 2 * * *", "America/New_York", "2027-11-05T00:00:00Z"],
  ["0 9 * * MON-FRI", "Europe/Berlin", ""], ["0 9 * * MON-FRI; 0 12 * * SAT", "UTC", ""], ["0 0 LW * *", "UTC", ""], ["@every 90m", "UTC", ""],
];

const named = (list: string) => list.split(",").map((n) => n.trim()).filter(Boolean);

export function ScheduleRoom({ ns }: { ns: string }) {
  const { query } = usePlace();
  const can = useCan(ns);
  const value = (name: string) => query.get(name) ?? "";
  const asked = { schedule: value("schedule"), time_zone: value("zone"), dst: value("dst"), from: value("from"), except: named(value("except")), only: named(value("only")) };
  const times = usePreview(ns, asked, 20);
  return (
    <>
      <h1>Schedule</h1>
      <p class="lead">When would it fire? Nothing here changes anything.</p>
      <div class="form">
        <Field name="schedule" label="Schedule" value={asked.schedule} set={(v) => setQuery({ schedule: v })} hint="A cron of 5 to 7 fields, @every 90s, @daily, R4/PT15M; or several, with ; between them." />
        <Field name="zone" label="Time zone" value={asked.time_zone} set={(v) => setQuery({ zone: v })} hint={`IANA name, such as Europe/Berlin. Empty: UTC. Yours is ${local}.`} options={zones} />
        <Field name="dst" label="When clocks change" kind="select" options={["safe", "literal"]} value={asked.dst || "safe"} set={(v) => setQuery({ dst: v === "safe" ? "" : v })} hint="safe: once a day whatever the clocks do. literal: what does not exist is left out, what comes twice runs twice." />
        <Field name="from" label="From" value={asked.from} set={(v) => setQuery({ from: v })} hint="A day, such as 2027-03-26, or a time in RFC 3339. Empty: now." />
        <Field name="except" label="Except calendars" value={value("except")} set={(v) => setQuery({ except: v })} hint="Their names, with commas between." />
        <Field name="only" label="Only calendars" value={value("only")} set={(v) => setQuery({ only: v })} hint="Their names, with commas between." />
      </div>
      <p class="samples">Try: {samples.map(([schedule, zone, from]) => (
        <button type="button" class="small" key={schedule + zone} onClick={() => setQuery({ schedule, zone, from })}>{schedule}{zone !== "UTC" && `, ${zone}`}</button>
      ))}</p>
      {asked.schedule !== "" && (
        <Panel title="Times" aside={can("store") && !times.problem && <a data-act href={to("new", {
          schedule: asked.schedule, zone: asked.time_zone, dst: asked.dst, except: value("except"), only: value("only"),
        }, ns)}>Make a job of this</a>}>
          <Preview of={times} />
        </Panel>
      )}
    </>
  );
}
