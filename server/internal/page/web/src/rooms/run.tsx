import { useState } from "preact/hooks";
import { get, post, runPath } from "../api";
import { useAnswer } from "../query";
import { jobHref, to } from "../router";
import { useCan } from "../session";
import { count, exact, span } from "../time";
import type { Run } from "../types";
import { Acting, Copy, Facts, holdLink, JobLink, Loading, Outcome, Panel, pretty, Simple, Trouble, When, Why, type Act } from "../ui";
import { hasEnded, lateness } from "./runs";

export function RunRoom({ ns, id }: { ns: string; id: string }) {
  const path = runPath(ns, id);
  const run = useAnswer(path, (signal) => get<Run>(path, {}, signal), { every: 2000, on: (e) => e.run === id });
  const [act, ask] = useState<Act>();
  const can = useCan(ns);
  const r = run.data;
  const acts: Act[] = [];
  if (r && can("operate") && !hasEnded(r)) acts.push({
    title: "Cancel", button: "Cancel the run", danger: true,
    says: <p>{r.status === "running" ? "Its attempt is told to stop, and its result no longer counts." : "It ends without another attempt."} The
      job's other runs and its schedule stay.</p>,
    run: async () => {
      const a = await post<{ prevented?: boolean; interrupted?: boolean }>(`${path}:cancel`);
      return a.prevented ? "It is cancelled; it had not begun." : a.interrupted ? "It is cancelled, and its attempt was told to stop." : "It is cancelled.";
    },
  });
  if (r && can("operate") && r.status === "dead") acts.push({
    title: "Redrive", button: "Redrive",
    says: <p>It gets new attempts under its id, numbered on from {r.attempt}. Its errors stay.</p>,
    run: async () => {
      await post(`${path}:redrive`);
      return "It begins again.";
    },
  });
  return (
    <>
      <div class="heading">
        <h1>Run <code class="wrap">{id}</code></h1>
        {r && <Outcome of={r.status} />}
        <Copy text={id} what="the id" />
      </div>
      {acts.length > 0 && <p class="acts">{acts.map((a) => <button key={a.title} type="button" data-act class={a.danger ? "danger" : undefined} onClick={() => ask(a)}>{a.title}…</button>)}</p>}
      <Trouble of={run.problem} retry={run.reload} />
      {!r && !run.problem && <Loading of="the run" />}
      {r && (
        <>
          {r.hold && <p class="why held"><Why of={r.hold} />{" "}
            {holdLink({ ns, job: r.job, hold: r.hold })}</p>}
          {r.progress && (
            <p class="progress"><progress max={100} value={r.progress.percent ?? 0} aria-label="Progress" /> {count(Math.round(r.progress.percent ?? 0))} %{" "}
              <bdi>{r.progress.message}</bdi> <When at={r.progress.at} /></p>
          )}
          <div class="columns">
            <Panel title="Course"><Course run={r} /></Panel>
            <Panel title="Facts">
              <Facts of={[
                ["Job", <JobLink ns={ns} name={r.job} />], ["Why it exists", r.cause], ["Scheduled", <When at={r.scheduled_time} />],
                ["Attempt", r.attempt], ["Queue", r.queue && <a href={to("queues", {}, ns)}><bdi>{r.queue}</bdi></a>],
                ["Worker", r.worker && <bdi>{r.worker}</bdi>], ["Reason", r.reason],
                ["Late", lateness(r) !== undefined && span(lateness(r)!)],
                ["Times it stands for", r.skipped && count(r.skipped)], ["From", r.from_time && <When at={r.from_time} />],
                ["Backfill", r.backfill && <a href={to("backfills", { job: r.job }, ns)}><bdi>{r.backfill}</bdi></a>],
                ["In doubt", r.in_doubt ? `${r.in_doubt}: a consumer may have had so many attempts more than once` : undefined],
                ["Deadline", !hasEnded(r) && r.deadline && <When at={r.deadline} />],
              ]} />
            </Panel>
          </div>
          {(r.errors?.length ?? 0) > 0 && (
            <Panel title="Errors">
              <Simple label="Errors of its attempts" head={["Attempt", "Ended", "Error"]} rows={r.errors!.map((e, i) => ({
                key: String(i), cells: [e.attempt, <When at={e.time} />, <pre class="error"><bdi>{e.message}</bdi>{e.redriven && " (before a redrive)"}</pre>],
              })).reverse()} />
            </Panel>
          )}
          <Content title="Result" text={r.response ?? (r.response_base64 && `base64: ${r.response_base64}`)} />
          <Content title="Data" text={r.data !== undefined ? pretty(r.data) : r.data_base64 ? `base64: ${r.data_base64}` : r.payload} />
          {r.metadata && <Content title="Metadata" text={pretty(r.metadata)} />}
          <p><a href={jobHref(ns, r.job)}>To the job</a> · <a href={to("runs", { prefix: r.job }, ns)}>Runs of the job</a></p>
        </>
      )}
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) run.reload();
      }} />}
    </>
  );
}

function Content({ title, text }: { title: string; text?: string }) {
  if (text === undefined || text === "") return null;
  return <Panel title={title} aside={<Copy text={text} what={title.toLowerCase()} />}><pre tabIndex={0} aria-label={title}><bdi>{text}</bdi></pre></Panel>;
}

// Course is what happened to a run, in order.
function Course({ run }: { run: Run }) {
  const steps: { at: number; what: string; tone?: string }[] = [];
  const add = (text: string | undefined, what: string, tone?: string) => text && steps.push({ at: Date.parse(text), what, tone });
  add(run.scheduled_time, run.cause === "trigger" ? "Triggered" : "Scheduled");
  for (const e of run.errors ?? []) add(e.time, `Attempt ${e.attempt ?? ""} failed`, "bad");
  if (run.due_time && run.due_time !== run.scheduled_time) add(run.due_time, (run.attempt ?? 0) > 1 ? `Attempt ${run.attempt} was due` : "Due");
  add(run.start_time, `Attempt ${run.attempt ?? ""} began`, "busy");
  add(run.finish_time, `Ended: ${run.status}${run.reason ? ", " + run.reason : ""}`, run.status === "succeeded" ? "good" : run.status === "dead" || run.status === "failed" ? "bad" : undefined);
  if (!run.finish_time && run.hold?.until) add(run.hold.until, "Next step");
  steps.sort((a, b) => a.at - b.at);
  return (
    <ol class="course">
      {steps.map((s, i) => (
        <li key={i} class={s.tone}>
          <span class="what">{s.what}</span>
          <time dateTime={new Date(s.at).toISOString()}>{exact(s.at)}</time>
          {i > 0 && <span class="after">+{span(s.at - steps[i - 1]!.at)}</span>}
        </li>
      ))}
    </ol>
  );
}
