// Calls of the REST API, the same that everybody else makes. Nothing is kept but what a call answers: the credential, if there
// is one, is a cookie that scripts cannot read.
import { inPath } from "./router";

// Problem is why a call failed, in the API's own words.
export class Problem extends Error {
  constructor(
    readonly code: string,
    readonly detail: string,
    readonly status = 0,
    readonly field = "",
    readonly unknown = false,
  ) {
    super(detail);
  }
}

export type Query = Record<string, string | string[] | number | undefined>;

export interface Ask {
  query?: Query;
  body?: unknown;
  raw?: string; // JSON, instead of body
  ifMatch?: string;
  signal?: AbortSignal;
  text?: boolean; // the answer as it is written, in place of what it says
}

type Listener = (loggedOut: boolean) => void;
const sessions = new Set<Listener>();

// onSession tells whether the node asks who the reader is.
export function onSession(listener: Listener): () => void {
  sessions.add(listener);
  return () => void sessions.delete(listener);
}

export function session(loggedOut: boolean) {
  for (const listener of [...sessions]) listener(loggedOut);
}

export function address(path: string, query: Query = {}): string {
  const all = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) all.append(key, one);
    else if (value !== undefined && value !== "") all.set(key, String(value));
  }
  const text = all.toString();
  return text === "" ? path : path + "?" + text;
}

// failed is the problem that an answer with an error is.
export async function failed(r: Response): Promise<Problem> {
  if (r.status === 401) session(true);
  try {
    const p = await r.json();
    return new Problem(p.code ?? "unknown", p.detail ?? r.statusText, r.status, p.field ?? "", p.outcome_unknown === true);
  } catch {
    return new Problem("unknown", `The node answered ${r.status} ${r.statusText}, with nothing that says why.`, r.status);
  }
}

export function unreachable(method: string): Problem {
  const reads = method === "GET";
  return new Problem("unreachable", reads ? "The node cannot be reached." :
    "The connection was lost before the node had answered: the change may or may not have been made.", 0, "", !reads);
}

export async function call<T>(method: string, path: string, ask: Ask = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const body = ask.raw ?? (ask.body === undefined ? undefined : JSON.stringify(ask.body));
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (ask.ifMatch !== undefined) headers["If-Match"] = `"${ask.ifMatch}"`;
  let r: Response;
  try {
    r = await fetch(address(path, ask.query), {
      method, headers, credentials: "same-origin", cache: "no-store", redirect: "error",
      body, signal: ask.signal,
    });
  } catch (e) {
    if (ask.signal?.aborted) throw e;
    throw unreachable(method);
  }
  if (!r.ok) throw await failed(r);
  try {
    return (r.status === 204 ? undefined : ask.text ? await r.text() : await r.json()) as T;
  } catch (e) {
    if (ask.signal?.aborted) throw e;
    throw unreachable(method);
  }
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal) => call<T>("GET", path, { query, signal });
export const post = <T>(path: string, body: unknown = {}, signal?: AbortSignal) => call<T>("POST", path, { body, signal });

const enc = encodeURIComponent;
export const nsPath = (ns: string) => `/v1/namespaces/${enc(ns)}`;
export const jobPath = (ns: string, name: string) => `${nsPath(ns)}/jobs/${inPath(name)}`;
export const runPath = (ns: string, id: string) => `${nsPath(ns)}/runs/${enc(id)}`;
export const queuePath = (ns: string, kind: string, name: string) => `${nsPath(ns)}/queues/${enc(kind)}/${inPath(name)}`;
