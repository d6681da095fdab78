// The page: what is around the rooms, and which room is shown.
import { render } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";
import { Keys, rooms } from "./keys";
import { follow, reconnect, useConnection } from "./live";
import { useAnswer } from "./query";
import { go, namespace, to, usePlace } from "./router";
import { BackfillsRoom } from "./rooms/backfills";
import { CalendarsRoom } from "./rooms/calendars";
import { ClusterRoom } from "./rooms/cluster";
import { DeadRoom } from "./rooms/dead";
import { EditRoom, NewRoom } from "./rooms/form";
import { GraphRoom } from "./rooms/graph";
import { IngestsRoom } from "./rooms/ingests";
import { JobRoom } from "./rooms/job";
import { JobsRoom } from "./rooms/jobs";
import { Overview } from "./rooms/overview";
import { QueuesRoom } from "./rooms/queues";
import { RunRoom } from "./rooms/run";
import { RunsRoom } from "./rooms/runs";
import { ScheduleRoom } from "./rooms/schedule";
import { SettingsRoom } from "./rooms/settings";
import { WorkersRoom } from "./rooms/workers";
import { where } from "./search";
import { askReader, Login, useLoggedOut, Who } from "./session";
import { ThemeSwitch } from "./theme";
import { span, useTick } from "./time";
import type { Namespace } from "./types";
import { Nothing } from "./ui";

function Room() {
  const at = usePlace();
  const ns = namespace(at);
  const [room, , ...name] = at.path;
  switch (room ?? "") {
    case "": return <Overview ns={ns} />;
    case "jobs": return at.path.length > 2 ? <JobRoom key={at.path.join("/")} ns={ns} name={name.join("/")} /> : <JobsRoom ns={ns} />;
    case "runs": return at.path.length > 2 ? <RunRoom key={at.path.join("/")} ns={ns} id={name.join("/")} /> : <RunsRoom ns={ns} />;
    case "dead": return <DeadRoom ns={ns} />;
    case "queues": return <QueuesRoom ns={ns} />;
    case "workers": return <WorkersRoom ns={ns} />;
    case "ingests": return <IngestsRoom ns={ns} />;
    case "graph": return <GraphRoom ns={ns} />;
    case "calendars": return <CalendarsRoom ns={ns} />;
    case "schedule": return <ScheduleRoom ns={ns} />;
    case "cluster": return <ClusterRoom />;
    case "settings": return <SettingsRoom ns={ns} />;
    case "new": return <NewRoom key={at.href} ns={ns} />;
    case "edit": return <EditRoom key={at.href} ns={ns} />;
    case "backfills": return <BackfillsRoom ns={ns} job={at.query.get("job") ?? ""} />;
    default: return <><h1>Nothing here</h1><Nothing>There is no room at <code><bdi>{at.href}</bdi></code>.</Nothing></>;
  }
}

// Namespaces leads to the same room of another namespace.
function Namespaces({ ns }: { ns: string }) {
  const all = useAnswer("namespaces", async (signal) => {
    const names: string[] = [];
    for (let token = ""; names.length < 5000;) {
      const page = await get<{ namespaces?: Namespace[]; next_page_token?: string }>("/v1/namespaces", { page_size: 1000, page_token: token }, signal);
      names.push(...(page.namespaces ?? []).map((n) => n.name));
      token = page.next_page_token ?? "";
      if (token === "") break;
    }
    return names;
  }, { every: 60_000 });
  const names = all.data ?? [];
  const shown = names.includes(ns) ? names : [...names, ns].sort();
  return (
    <label class="namespace"><span class="unseen">Namespace</span>
      <select value={ns} onChange={(e) => {
        const [room] = location.pathname.split("/").filter(Boolean);
        go(to(room ?? "", {}, e.currentTarget.value));
      }}>
        {shown.map((n) => <option key={n} value={n}>{n}</option>)}
      </select>
    </label>
  );
}

// Lost says that the page is not what is now.
function Lost() {
  const c = useConnection();
  useTick();
  if (c.state !== "lost" || Date.now() - c.since < 1500) return null;
  return (
    <div class="lost" role="alert">
      <p>Not connected for {span(Date.now() - c.since)}: what is shown may be out of date. {c.why}</p>
      <button type="button" onClick={reconnect}>Try now</button>
    </div>
  );
}

function Live() {
  const c = useConnection();
  const words = { live: "live", connecting: "connecting", hidden: "paused", lost: "not connected" }[c.state];
  return <span class={"live " + c.state} title={`Events: ${words}`}><span aria-hidden="true">●</span> <span class="wide">{words}</span></span>;
}

function App() {
  const at = usePlace();
  const ns = namespace(at);
  const out = useLoggedOut();
  const search = useRef<HTMLInputElement>(null);
  const [text, type] = useState("");
  const [menu, open] = useState(false);
  const toSearch = useCallback(() => search.current?.focus(), []);
  useEffect(() => void askReader(), []);
  useEffect(() => {
    if (!out) follow(ns);
  }, [ns, out]);
  const room = rooms.find((r) => r.name === (at.path[0] ?? ""));
  const beside: Record<string, string> = { new: "New job", edit: `Edit ${at.query.get("job")}`, backfills: "Backfills" };
  const title = at.path.length > 2 ? at.path.slice(2).join("/") : room?.title ?? beside[at.path[0]!] ?? "Carillon";
  useEffect(() => {
    document.title = `${title} – Carillon`;
    open(false);
  }, [title, at.path.join("/")]);
  return (
    <>
      <a class="skip" href="#room">Skip to the content</a>
      <header class="top">
        <a class="home" href={to("")}><span class="mark" aria-hidden="true" />Carillon</a>
        <Namespaces ns={ns} />
        <form role="search" class="search" onSubmit={(e) => {
          e.preventDefault();
          if (text.trim() !== "") go(where(text, ns));
        }}>
          <label class="unseen" for="search">Search</label>
          <input id="search" ref={search} type="search" value={text} onInput={(e) => type(e.currentTarget.value)} autocomplete="off"
            spellcheck={false} placeholder="Job, run id, status:dead queue:mail   /"
            onKeyDown={(e) => e.key === "Escape" && e.currentTarget.blur()} />
        </form>
        <Live />
        <Who />
        <ThemeSwitch />
        <Keys search={toSearch} />
        <button type="button" class="small menu" aria-expanded={menu} aria-controls="rooms" onClick={() => open(!menu)}>Rooms</button>
      </header>
      <nav id="rooms" aria-label="Rooms" class={menu ? "open" : ""}>
        {rooms.map((r) => (
          <a key={r.name} href={to(r.name)} aria-current={(at.path[0] ?? "") === r.name || (r.name === "jobs" && ["new", "edit"].includes(at.path[0] ?? "")) ? "page" : undefined}>{r.title}</a>
        ))}
      </nav>
      <Lost />
      {out ? <Login /> : <main id="room" tabIndex={-1}><Room /></main>}
    </>
  );
}

// Links within the page change the address and load nothing.
document.addEventListener("click", (e) => {
  if (e.defaultPrevented || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
  const a = e.target instanceof Element ? e.target.closest("a") : null;
  const href = a?.getAttribute("href");
  if (!a || !href || a.getAttribute("target") || a.hasAttribute("download")) return;
  const url = new URL(href, location.href);
  if (url.origin !== location.origin) return;
  e.preventDefault();
  if (href.startsWith("#")) document.getElementById(href.slice(1))?.focus();
  else go(url.pathname + url.search);
});

render(<App />, document.getElementById("page")!);
