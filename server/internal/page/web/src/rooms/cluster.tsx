import { useState } from "preact/hooks";
import { get, post } from "../api";
import { useAnswer } from "../query";
import { useCan } from "../session";
import { plural } from "../time";
import type { Cluster } from "../types";
import { Acting, Amount, Loading, Panel, Simple, Trouble, When, type Act } from "../ui";

export function ClusterRoom() {
  const can = useCan("*");
  const [act, ask] = useState<Act>();
  const cluster = useAnswer("cluster", (signal) => get<Cluster>("/v1/cluster", {}, signal), { every: 2000 });
  const c = cluster.data;
  const nodes = c?.nodes ?? [], partitions = c?.partitions ?? [];
  const without = partitions.filter((p) => !p.node).length;
  const letter = new Map(nodes.map((n, i) => [n.id, i]));
  return (
    <>
      <h1>Cluster</h1>
      <Trouble of={cluster.problem} retry={cluster.reload} />
      {!c && !cluster.problem && <Loading of="the cluster" />}
      {c && (
        <>
          <p class="lead" role="status">{plural(nodes.length, "node")}, {plural(partitions.length, "partition")}
            {without > 0 ? <strong class="bad">; {without} without an owner</strong> : ", each with an owner"}.
            {can("administer") && nodes.length > 1 && <button type="button" data-act onClick={() => ask({
              title: "Rebalance", button: "Rebalance", says: <p>Ends all drains, and has every node look at once who should own what.</p>,
              run: async () => {
                await post("/v1/cluster:rebalance");
                return "The nodes have been told.";
              },
            })}>Rebalance…</button>}</p>
          {(c.warnings ?? []).map((w) => <p key={w} class="trouble" role="alert"><bdi>{w}</bdi></p>)}
          <Simple label="Nodes" head={["Node", "State", "Partitions", "gRPC", "REST", "Clock ahead", "Actions"]} rows={nodes.map((n) => ({
            key: n.id, cells: [
              <><span class={`square n${letter.get(n.id)! % 8}`} aria-hidden="true" /> <bdi class="name">{n.id}</bdi></>,
              <span class={"tone " + (n.draining ? "warn" : n.state && n.state !== "fit" ? "bad" : "good")}>{n.draining ? "drained" : n.state || "unknown"}{n.reason && <>: <bdi>{n.reason}</bdi></>}</span>,
              <Amount of={n.owns} />, <code>{n.address}</code>, <code>{n.http_address}</code>, n.skew ?? "",
              can("administer") && nodes.length > 1 && !n.draining ? <button type="button" class="small" aria-label={`Drain ${n.id}`} onClick={() => ask({
                title: `Drain ${n.id}`, button: "Drain", typed: n.id, danger: true,
                says: <p>It hands its {plural(n.owns ?? 0, "partition")} over to others, and owns none until it starts again or the cluster is
                  rebalanced. It goes on to take calls and workers.</p>,
                run: async () => {
                  await post(`/v1/cluster/nodes/${encodeURIComponent(n.id)}:drain`);
                  return "It has been told.";
                },
              })}>Drain…</button> : "",
            ],
          }))} />
          <Panel title="Partitions">
            <ul class="partitions" aria-label="Partitions by owner">
              {partitions.map((p) => (
                <li key={p.partition ?? 0} class={p.node ? `n${(letter.get(p.node) ?? 0) % 8}` : "none"}
                  title={`Partition ${p.partition ?? 0}: ${p.node || "no owner"}, epoch ${p.epoch ?? 0}`}>{p.partition ?? 0}</li>
              ))}
            </ul>
            <details><summary>As a table</summary>
              <Simple label="Partitions" head={["Partition", "Owner", "Epoch", "Lease until"]} rows={partitions.map((p) => ({
                key: String(p.partition ?? 0), cells: [p.partition ?? 0, <bdi>{p.node || "nobody"}</bdi>, p.epoch, <When at={p.lease_until} />],
              }))} />
            </details>
          </Panel>
        </>
      )}
      {act && <Acting act={act} close={(done) => {
        ask(undefined);
        if (done) cluster.reload();
      }} />}
    </>
  );
}
