import { useState } from "preact/hooks";
import { call, get, nsPath, Problem } from "../api";
import { useAnswer } from "../query";
import { to } from "../router";
import { useCan } from "../session";
import { count, ofDuration } from "../time";
import type { Namespace } from "../types";
import { exactly, rateInWords } from "../words";
import { Acting, Amount, cls, Facts, Loading, Nothing, Panel, Simple, Trouble, type Act } from "../ui";

// quotasOf are the quotas that a namespace has: of what, how much, how much of it is used if that is told, and whether it is all.
function quotasOf({ quotas: q = {}, used }: Namespace): [string, string, string, boolean][] {
  const amount = (of: string, most?: string, has?: string): [string, string, string, boolean][] =>
    Number(most ?? 0) === 0 ? [] : [[of, count(most), has === undefined ? "" : count(has), Number(has ?? 0) >= Number(most)]];
  return [
    ...amount("Jobs", q.jobs, used && (used.jobs ?? "0")), ...amount("Bytes of data", q.payload_bytes, used && (used.payload_bytes ?? "0")),
    ...amount("Attempts at a time", q.concurrent_runs),
    ...(q.runs ? [["Attempts that may begin", rateInWords(q.runs), "", false] as [string, string, string, boolean]] : []),
    ...(q.puts ? [["Puts of jobs", rateInWords(q.puts), "", false] as [string, string, string, boolean]] : []),
  ];
}

// By says how what the page only shows is changed.
function By({ command }: { command: string }) {
  return <p class="small-print by">Set by <code>{command}</code></p>;
}

export function SettingsRoom({ ns }: { ns: string }) {
  const can = useCan(ns);
  const [act, ask] = useState<Act>();
  const all = useAnswer(`settings ${ns}`, (signal) => get<Namespace>(nsPath(ns), {}, signal), { every: 15_000 });
  const spaces = useAnswer("spaces", (signal) => get<{ namespaces?: Namespace[] }>("/v1/namespaces", { page_size: 1000 }, signal), { every: 30_000 });
  const n = all.data;
  // A put replaces all settings, so it is made of those that were read, and only over their generation. What is used is told, not set.
  const put = (change: Partial<Namespace>) => {
    const { name: _, used: _used, generation, ...settings } = n!;
    return call(`PUT`, nsPath(ns), { ifMatch: generation, body: { ...settings, ...change } });
  };
  const limit = (key?: string, now?: number): Act => ({
    title: key === undefined ? "New limit" : `Limit of ${key}`, button: "Set it",
    says: <p>How many attempts of jobs with the key may be in force at a time, across the cluster. 0 lets nothing run.</p>,
    fields: [...(key === undefined ? [{ name: "key", label: "Concurrency key" }] : []), { name: "limit", label: "Attempts", value: String(now ?? "") }],
    run: async (v) => {
      if (!/^\d+$/.test(v.limit!.trim())) throw new Problem("invalid_argument", "a number of attempts, 0 or more, is needed", 400, "limit");
      await put({ concurrency_limits: { ...n!.concurrency_limits, [key ?? v.key!]: Number(v.limit) } });
      return "It is in force.";
    },
  });
  return (
    <>
      <h1>Settings of {ns}</h1>
      <Trouble of={all.problem} retry={all.reload} />
      {!n && !all.problem && <Loading of="the settings" />}
      {n && (
        <>
          <Panel title="Limits" aside={can("administer") && <button type="button" data-act class="small" onClick={() => ask(limit())}>New limit…</button>}>
            <Simple label="Limits" head={["Concurrency key", "Attempts at a time", "Actions"]}
              empty={<Nothing command={`carillon namespace set ${ns} --concurrency-limit KEY=10`}>No concurrency key is limited in this namespace. This limits one:</Nothing>}
              rows={Object.entries(n.concurrency_limits ?? {}).sort().map(([key, value]) => ({
                key, cells: [<bdi class="name">{key}</bdi>, <Amount of={value} />, can("administer") ? (
                  <span class="acts">
                    <button type="button" class="small" aria-label={`Change the limit of ${key}`} onClick={() => ask(limit(key, value))}>Change…</button>
                    <button type="button" class="small danger" aria-label={`Remove the limit of ${key}`} onClick={() => ask({
                      title: `Remove the limit of ${key}`, button: "Remove it", danger: true,
                      says: <p>Jobs with the key run without a limit: what waits for a permit begins at once.</p>,
                      run: async () => {
                        const { [key]: _, ...rest } = n.concurrency_limits!;
                        await put({ concurrency_limits: rest });
                        return "It is removed.";
                      },
                    })}>Remove…</button>
                  </span>
                ) : ""],
              }))} />
          </Panel>
          <Panel title="Rates">
            <Simple label="Rates" head={["Concurrency key", "Attempts that may begin"]}
              empty={<Nothing command={`carillon namespace set ${ns} --rate-limit KEY=100/1m`}>No concurrency key has a rate in this namespace. This gives one a rate:</Nothing>}
              rows={Object.entries(n.rate_limits ?? {}).sort().map(([key, rate]) => ({ key, cells: [<bdi class="name">{key}</bdi>, rateInWords(rate)] }))} />
            {n.rate_limits && Object.keys(n.rate_limits).length > 0 && can("administer") && <By command={`carillon namespace set ${ns} --rate-limit KEY=100/1m`} />}
          </Panel>
          <Panel title="Quotas">
            <Simple label="Quotas" head={["Of", "Used", "Quota"]}
              empty={<Nothing command={`carillon namespace set ${ns} --quota-jobs 10000`}>The namespace has no quotas. This sets one:</Nothing>}
              rows={quotasOf(n).map(([of, quota, used, full]) => ({ key: of, cells: [of, used && <span class={cls("number", full && "bad")}>{used}</span>, <span class="number">{quota}</span>] }))} />
            {quotasOf(n).length > 0 && can("administer") && <By command={`carillon namespace set ${ns} --quota-jobs 10000`} />}
          </Panel>
          <Panel title="Webhooks">
            <Simple label="Webhooks" head={["Name", "To", "Types", "Jobs that begin with"]}
              empty={<Nothing command="carillon webhook put ops --url https://example.com/hook --type run.dead">Events of this namespace are sent nowhere. This sends some:</Nothing>}
              rows={(n.webhooks ?? []).map((w) => ({ key: w.name, cells: [<bdi>{w.name}</bdi>, <bdi>{w.url ?? Object.keys(w).find((k) => ["kafka", "amqp", "nats", "redis"].includes(k))}</bdi>, (w.types ?? []).join(", "), <bdi>{w.prefix}</bdi>] }))} />
          </Panel>
          <Panel title="Other">
            <Facts of={[
              ["Strict", n.strict ? "yes: jobs whose retries can take as long as their interval are refused" : "no"],
              ["A queue is unserved after", exactly(ofDuration(n.unserved_after || "5m"))], ["Generation", n.generation],
            ]} />
          </Panel>
        </>
      )}
      <Panel title="Namespaces">
        <Trouble of={spaces.problem} />
        <Simple label="Namespaces" head={["Namespace", "Limits", "Rates", "Quotas", "Webhooks", "Generation"]} rows={(spaces.data?.namespaces ?? []).map((s) => ({
          key: s.name, cells: [<a class="name" href={to("", {}, s.name)}>{s.name}</a>, <Amount of={Object.keys(s.concurrency_limits ?? {}).length} />,
            <Amount of={Object.keys(s.rate_limits ?? {}).length} />, quotasOf(s).map(([of, quota]) => `${of}: ${quota}`).join("; "), <Amount of={s.webhooks?.length} />, s.generation],
        }))} />
      </Panel>
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) all.reload();
      }} />}
    </>
  );
}
