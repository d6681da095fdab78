import { get } from "../api";
import { useAnswer } from "../query";
import { setQuery, usePlace } from "../router";
import type { Worker } from "../types";
import { Amount, Field, Labels, Loading, Nothing, Simple, Trouble, When } from "../ui";

export function WorkersRoom({ ns }: { ns: string }) {
  const queue = usePlace().query.get("queue") ?? "";
  const all = useAnswer(`workers ${ns} ${queue}`, async (signal) => {
    const workers: Worker[] = [];
    let unheard: string[] = [];
    for (let token = ""; workers.length < 10_000;) {
      const a = await get<{ workers?: Worker[]; unheard?: string[]; next_page_token?: string }>("/v1/workers", { namespace: ns, queue, page_size: 1000, page_token: token }, signal);
      workers.push(...(a.workers ?? []));
      unheard = a.unheard ?? [];
      token = a.next_page_token ?? "";
      if (token === "") break;
    }
    return { workers, unheard };
  }, { every: 2000 });
  return (
    <>
      <h1>Workers</h1>
      <div class="filters" role="group" aria-label="Filters">
        <Field name="queue" label="Serves the queue" value={queue} set={(v) => setQuery({ queue: v })} />
      </div>
      <Trouble of={all.problem} retry={all.reload} />
      {(all.data?.unheard.length ?? 0) > 0 && <p class="trouble" role="alert">Not heard from {all.data!.unheard.join(", ")}: what they know is missing here.</p>}
      {!all.data && !all.problem && <Loading of="workers" />}
      {all.data && <Simple label="Workers" head={["Worker", "Kind", "Queues", "Node", "Running", "Room", "Connected", "Last seen", "Version"]}
        empty={<Nothing command="carillon work QUEUE -- ./program">{queue ? "Nobody serves that queue." : "No worker is connected for this namespace."} This connects one:</Nothing>}
        rows={all.data.workers.map((w, i) => ({
          key: `${w.kind} ${w.id} ${w.node} ${i}`, cells: [
            <><bdi class="name">{w.id}</bdi>{w.silent && <span class="tone bad"> silent</span>}<Labels of={w.labels} /></>, w.kind,
            <bdi>{(w.queues ?? []).join(", ")}</bdi>, <bdi>{w.node}</bdi>, <Amount of={w.in_flight} />, <Amount of={w.credits} />,
            <When at={w.since} />, <When at={w.last_seen} />, <bdi>{w.version}</bdi>,
          ],
        }))} />}
    </>
  );
}
