import { get, nsPath } from "../api";
import { useAnswer } from "../query";
import { jobHref, setQuery, usePlace } from "../router";
import { plural } from "../time";
import type { Job } from "../types";
import { Field, JobLink, Loading, Nothing, Trouble } from "../ui";

const most = 5000, shown = 400;

interface Box { name: string; job?: Job; layer: number; row: number }

// reach is the jobs that are joined with one by dependencies, whichever way.
function reach(edges: [string, string][], around: string): Set<string> {
  const next = new Map<string, string[]>();
  for (const [a, b] of edges) {
    next.set(a, [...(next.get(a) ?? []), b]);
    next.set(b, [...(next.get(b) ?? []), a]);
  }
  const seen = new Set([around]), queue = [around];
  for (let name = queue.pop(); name !== undefined; name = queue.pop()) {
    for (const other of next.get(name) ?? []) if (!seen.has(other)) {
      seen.add(other);
      queue.push(other);
    }
  }
  return seen;
}

// layout puts each job to the right of those that it waits for. Circles are cut where they are found.
function layout(names: string[], edges: [string, string][], jobs: Map<string, Job>): Box[] {
  const before = new Map<string, string[]>();
  for (const [from, to] of edges) before.set(to, [...(before.get(to) ?? []), from]);
  const layer = new Map<string, number>(), open = new Set<string>();
  const depth = (name: string): number => {
    const known = layer.get(name);
    if (known !== undefined) return known;
    if (open.has(name)) return 0;
    open.add(name);
    let d = 0;
    for (const b of before.get(name) ?? []) d = Math.max(d, depth(b) + 1);
    open.delete(name);
    layer.set(name, d);
    return d;
  };
  for (const name of names) depth(name);
  // What waits for nothing stands right before the first that waits for it.
  for (const name of names) {
    const after = edges.filter(([from]) => from === name).map(([, to]) => layer.get(to) ?? 1);
    if (!before.has(name) && after.length > 0) layer.set(name, Math.max(0, Math.min(...after) - 1));
  }
  const layers: string[][] = [];
  for (const name of [...names].sort()) (layers[layer.get(name)!] ??= []).push(name);
  const row = new Map<string, number>();
  for (let i = 0; i < layers.length; i++) {
    const here = layers[i] ?? [];
    const weight = (name: string) => {
      const rows = (before.get(name) ?? []).map((b) => row.get(b)).filter((r) => r !== undefined);
      return rows.length === 0 ? 0 : rows.reduce((a, b) => a + b, 0) / rows.length;
    };
    if (i > 0) here.sort((a, b) => weight(a) - weight(b));
    here.forEach((name, at) => row.set(name, at));
  }
  return names.map((name) => ({ name, job: jobs.get(name), layer: layer.get(name)!, row: row.get(name)! }));
}

const wide = 208, high = 30, gapX = 56, gapY = 14;

export function Graph({ ns, around }: { ns: string; around?: string }) {
  const all = useAnswer(`graph ${ns}`, async (signal) => {
    const jobs: Job[] = [];
    let token = "";
    do {
      const a = await get<{ jobs?: Job[]; next_page_token?: string }>(`${nsPath(ns)}/jobs`, { page_size: 1000, page_token: token }, signal);
      jobs.push(...(a.jobs ?? []));
      token = a.next_page_token ?? "";
    } while (token !== "" && jobs.length < most);
    return { jobs, all: token === "" };
  }, { every: 10_000, on: (e) => e.type.startsWith("job.") });
  if (!all.data) return all.problem ? <Trouble of={all.problem} retry={all.reload} /> : <Loading of="the graph" />;
  const jobs = new Map(all.data.jobs.map((j) => [j.name, j]));
  const edges: [string, string][] = all.data.jobs.flatMap((j) => (j.depends_on ?? []).map((d): [string, string] => [d, j.name]));
  let names = [...new Set(edges.flat())];
  if (around) {
    const near = reach(edges, around);
    names = names.filter((n) => near.has(n));
  }
  if (names.length === 0) {
    return <Nothing command="carillon job put b --depends-on a …">{around ? "That job waits for none, and none waits for it." : "No job waits for another."} This makes one that does:</Nothing>;
  }
  const cut = names.length > shown;
  const boxes = layout(cut ? names.slice(0, shown) : names, edges, jobs);
  const at = new Map(boxes.map((b) => [b.name, b]));
  const x = (b: Box) => b.layer * (wide + gapX) + 4, y = (b: Box) => b.row * (high + gapY) + 4;
  const width = Math.max(...boxes.map(x)) + wide + 8, height = Math.max(...boxes.map(y)) + high + 8;
  const lines = edges.filter(([a, b]) => at.has(a) && at.has(b));
  return (
    <>
      {cut && <p class="trouble">{plural(names.length, "job")} are joined: {shown} are drawn. Name one to see what is around it.</p>}
      {!all.data.all && <p class="trouble">There are more than {most} jobs: those beyond are not looked at.</p>}
      <div class="scroll graph" tabIndex={0} role="group" aria-label="Graph of dependencies">
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Jobs, each to the right of those it waits for">
          {lines.map(([a, b]) => {
            const from = at.get(a)!, to = at.get(b)!;
            const x1 = x(from) + wide, y1 = y(from) + high / 2, x2 = x(to), y2 = y(to) + high / 2;
            const waits = to.job?.status?.waiting?.includes(a);
            return <path key={a + "\u0000" + b} class={waits ? "edge waits" : "edge"} d={`M${x1} ${y1}C${x1 + gapX / 2} ${y1} ${x2 - gapX / 2} ${y2} ${x2} ${y2}`} />;
          })}
          {boxes.map((b) => (
            <a key={b.name} href={jobHref(ns, b.name)} aria-label={`${b.name}: ${b.job?.status?.phase ?? "there is no such job"}`}>
              <title>{`${b.name}: ${b.job?.status?.phase ?? "there is no such job"}`}</title>
              <rect class={`box ${b.job?.status?.phase ?? "absent"} ${b.job?.status?.last_run?.status ?? ""} ${b.name === around ? "here" : ""}`} x={x(b)} y={y(b)} width={wide} height={high} rx={4} />
              <text x={x(b) + 10} y={y(b) + high / 2 + 4}>{b.name.length > 27 ? "…" + b.name.slice(-26) : b.name}</text>
            </a>
          ))}
        </svg>
      </div>
      <details><summary>As a list</summary>
        <ul class="plain">{boxes.filter((b) => b.job?.depends_on?.length).map((b) => (
          <li key={b.name}><JobLink ns={ns} name={b.name} /> waits for {b.job!.depends_on!.map((d, i) => <>{i > 0 && ", "}<JobLink ns={ns} name={d} /></>)}</li>
        ))}</ul>
      </details>
    </>
  );
}

export function GraphRoom({ ns }: { ns: string }) {
  const around = usePlace().query.get("job") ?? "";
  return (
    <>
      <h1>Graph</h1>
      <p class="lead">What waits for what. A dashed line is a success that has yet to come.</p>
      <div class="filters" role="group" aria-label="Filters">
        <Field name="job" label="Around the job" value={around} set={(v) => setQuery({ job: v })} />
      </div>
      <Graph ns={ns} around={around || undefined} />
    </>
  );
}
