// Where the reader is. All that is on screen follows from the address, so that it can be sent to somebody else.
import { useEffect, useState } from "preact/hooks";

export interface Place {
  path: string[]; // decoded segments
  query: URLSearchParams;
  href: string;
}

const listeners = new Set<() => void>();
let current = read();

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function read(): Place {
  return {
    path: location.pathname.split("/").slice(1).filter((part) => part !== "").map(decode),
    query: new URLSearchParams(location.search),
    href: location.pathname + location.search,
  };
}

function changed() {
  current = read();
  for (const listener of [...listeners]) listener();
}

addEventListener("popstate", changed);

export function place(): Place {
  return current;
}

export function usePlace(): Place {
  const [, set] = useState(0);
  useEffect(() => {
    const listener = () => set((n) => n + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return current;
}

// go shows another place; within a place, replace keeps it one step of the browser's history.
export function go(href: string, replace = false) {
  if (href === current.href) return;
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  const room = current.path[0];
  changed();
  if (!replace && current.path[0] !== room) scrollTo(0, 0);
}

// withQuery returns the address of this place with some parameters changed; undefined and "" take one away.
export function withQuery(changes: Record<string, string | undefined>): string {
  const query = new URLSearchParams(current.query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined || value === "") query.delete(key);
    else query.set(key, value);
  }
  return location.pathname + suffix(query);
}

function suffix(query: URLSearchParams): string {
  const text = query.toString();
  return text === "" ? "" : "?" + text;
}

export function setQuery(changes: Record<string, string | undefined>) {
  go(withQuery(changes), true);
}

export const defaultNamespace = "default";

// namespace is that of the reader: in the path of a job and of a run, elsewhere a parameter.
export function namespace(at: Place = current): string {
  if ((at.path[0] === "jobs" || at.path[0] === "runs") && at.path.length > 2) return at.path[1]!;
  return at.query.get("ns") ?? defaultNamespace;
}

// to is the address of a room in a namespace.
export function to(room: string, query: Record<string, string | undefined> = {}, ns: string = namespace()): string {
  const all = new URLSearchParams();
  if (ns !== defaultNamespace) all.set("ns", ns);
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== "") all.set(key, value);
  return "/" + room + suffix(all);
}

// inPath writes a name, whose levels are separated by "/", as part of a path.
export function inPath(name: string): string {
  return name.split("/").map(encodeURIComponent).join("/");
}

export function jobHref(ns: string, name: string): string {
  return `/jobs/${encodeURIComponent(ns)}/${inPath(name)}`;
}

export function runHref(ns: string, id: string): string {
  return `/runs/${encodeURIComponent(ns)}/${encodeURIComponent(id)}`;
}
