import { get } from "../api";
import { useAnswer } from "../query";
import type { Ingest, IngestReader } from "../types";
import { Amount, Loading, Nothing, Simple, Trouble, When } from "../ui";

// stateOf says in words how a topic stands.
function stateOf(i: Ingest): [string, string] {
  const readers = i.readers ?? [], connected = readers.filter((r) => r.connected).length;
  if (readers.some((r) => r.retrying)) return ["retrying", "warn"];
  if (connected === readers.length) return ["connected", "good"];
  if (connected > 0) return [`${connected} of ${readers.length} connected`, "warn"];
  return readers.some((r) => r.error) ? ["not connected", "bad"] : ["connecting", "quiet"];
}

// Reader is a node that reads, and what keeps it.
function Reader({ of: r }: { of: IngestReader }) {
  return (
    <li>
      <bdi class="name">{r.node}</bdi>
      {r.error && <span class="bad">: takes no messages, <When at={r.error_since} />: <bdi>{r.error}</bdi></span>}
      {r.retrying && <span class="warn">: tries again: <bdi>{r.retrying}</bdi></span>}
    </li>
  );
}

export function IngestsRoom({ ns }: { ns: string }) {
  const all = useAnswer(`ingests ${ns}`, async (signal) => {
    const ingests: Ingest[] = [];
    let unheard: string[] = [];
    for (let token = ""; ingests.length < 10_000;) {
      const a = await get<{ ingests?: Ingest[]; unheard?: string[]; next_page_token?: string }>("/v1/ingests", { namespace: ns, page_size: 1000, page_token: token }, signal);
      ingests.push(...(a.ingests ?? []));
      unheard = a.unheard ?? [];
      token = a.next_page_token ?? "";
      if (token === "") break;
    }
    return { ingests, unheard };
  }, { every: 2000 });
  return (
    <>
      <h1>Ingests</h1>
      <Trouble of={all.problem} retry={all.reload} />
      {(all.data?.unheard.length ?? 0) > 0 && <p class="trouble" role="alert">Not heard from {all.data!.unheard.join(", ")}: what they know is missing here.</p>}
      {!all.data && !all.problem && <Loading of="ingests" />}
      {all.data && <Simple label="Ingests" head={["Ingest", "Topic", "Broker", "State", "Lag", "In flight", "Last message", "Done", "Repeated", "Dead", "Retried", "Nodes"]}
        empty={<Nothing command="carillon serve --brokers brokers.yaml">No commands are taken from a broker for this namespace. An ingest in the file of the brokers does it:</Nothing>}
        rows={all.data.ingests.map((i) => {
          const [state, tone] = stateOf(i), counts = i.counts ?? {};
          return {
            key: `${i.name} ${i.topic}`, cells: [
              <bdi class="name">{i.name}</bdi>, <bdi>{i.topic}</bdi>, <><bdi>{i.broker}</bdi> ({i.kind})</>,
              <span class={"tone " + tone}>{state}</span>,
              i.lag === undefined ? <span class="none" title="The broker has not said it">not known</span> : <Amount of={i.lag} tone="warn" />,
              <Amount of={i.in_flight} />, <When at={i.last_message_time} />, <Amount of={counts.done} />, <Amount of={counts.repeated} />,
              counts.dead ? <span title={i.dead_letter ? `They are in ${i.dead_letter}` : undefined}><Amount of={counts.dead} tone="bad" /></span> : <Amount />,
              <Amount of={counts.retried} tone="warn" />,
              <ul>{(i.readers ?? []).map((r) => <Reader key={r.node} of={r} />)}</ul>,
            ],
          };
        })} />}
    </>
  );
}
