// What happens in a namespace, by one stream of events. It goes on where it was after a connection is lost; if that is too
// long ago, whoever listens is told to ask for everything anew.
import { useEffect, useState } from "preact/hooks";
import { address, failed, nsPath, Problem } from "./api";
import type { Happening } from "./types";

export type Connection =
  | { state: "connecting" | "live" | "hidden" }
  | { state: "lost"; since: number; why: string };

type Hear = (events: Happening[], anew: boolean) => void;

const hearers = new Set<Hear>();
const watchers = new Set<() => void>();
let connection: Connection = { state: "connecting" };
let following = "";
let stop: AbortController | undefined;
let pending: Happening[] = [];
let anew = false;
let frame = 0;

const silence = 40_000; // the node says something every 15 s

function set(next: Connection) {
  if (next.state === connection.state && next.state !== "lost") return;
  if (next.state === "lost" && connection.state === "lost") next.since = connection.since;
  connection = next;
  for (const watcher of [...watchers]) watcher();
}

export function useConnection(): Connection {
  const [, tick] = useState(0);
  useEffect(() => {
    const watcher = () => tick((n) => n + 1);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return connection;
}

// hear has a function called with what happened, at most once for each frame.
export function hear(f: Hear): () => void {
  hearers.add(f);
  return () => void hearers.delete(f);
}

function flush() {
  frame = 0;
  const events = pending, all = anew;
  pending = [];
  anew = false;
  for (const f of [...hearers]) f(events, all);
}

function tell(event: Happening | undefined) {
  if (event) pending.push(event);
  else anew = true;
  if (frame === 0) frame = requestAnimationFrame(flush);
}

// follow listens to a namespace until it is called again. A page that nobody sees listens to nothing.
export function follow(ns: string) {
  if (ns === following) return;
  following = ns;
  restart();
}

function restart() {
  stop?.abort();
  stop = new AbortController();
  pending = [];
  if (document.hidden) {
    set({ state: "hidden" });
    return;
  }
  void run(following, stop.signal);
}

document.addEventListener("visibilitychange", () => {
  if (following !== "") restart();
});
addEventListener("online", () => {
  if (following !== "" && connection.state === "lost") restart();
});

export function reconnect() {
  restart();
}

async function run(ns: string, signal: AbortSignal) {
  let position = "", wait = 500, begun = false;
  while (!signal.aborted) {
    const again = new AbortController();
    const end = () => again.abort();
    signal.addEventListener("abort", end);
    try {
      await read(ns, position, again, (at) => {
        position = at;
        wait = 500;
        set({ state: "live" });
        if (!begun) tell(undefined); // what was asked for before may be out of date
        begun = true;
      });
      throw new Problem("unreachable", "The node ended the stream of events.");
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof Problem && e.code === "failed_precondition") position = "";
      set({ state: "lost", since: Date.now(), why: e instanceof Problem ? e.detail : "The node cannot be reached." });
      begun = false;
    } finally {
      signal.removeEventListener("abort", end);
      again.abort();
    }
    await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random() / 2)));
    wait = Math.min(wait * 2, 10_000);
  }
}

async function read(ns: string, position: string, again: AbortController, at: (position: string) => void) {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (position !== "") headers["Last-Event-ID"] = position;
  const r = await fetch(address(`${nsPath(ns)}/events:watch`), {
    headers, credentials: "same-origin", cache: "no-store", signal: again.signal,
  });
  if (!r.ok || !r.body) throw await failed(r);
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", quiet = setTimeout(() => again.abort(), silence);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(quiet);
      quiet = setTimeout(() => again.abort(), silence);
      rest += value;
      let from = 0;
      for (let to = rest.indexOf("\n\n"); to >= 0; to = rest.indexOf("\n\n", from)) {
        message(rest.slice(from, to), at);
        from = to + 2;
      }
      rest = rest.slice(from);
    }
  } finally {
    clearTimeout(quiet);
  }
}

function message(text: string, at: (position: string) => void) {
  let id = "", type = "", data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) type = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (type === "problem") {
    const p = JSON.parse(data);
    throw new Problem(p.code, p.detail, p.status);
  }
  if (data !== "") tell(JSON.parse(data) as Happening);
  if (id !== "") at(id);
}
