// Who the reader is. A key goes to the node and nowhere else: the node keeps a cookie that scripts cannot read.
import { useEffect, useState } from "preact/hooks";
import { call, onSession, Problem, session } from "./api";
import { reconnect } from "./live";
import { exact } from "./time";
import { cls, Trouble } from "./ui";

interface Grant { role: string; namespaces?: string[] }

// Reader is who makes the page's calls, as GET /v1/session says it.
export interface Reader { authentication?: string; kind?: string; id?: string; grants?: Grant[]; expire_time?: string }

// The roles that may do an action, as docs/security.md has them.
const may = {
  store: ["producer", "operator", "admin"],
  operate: ["operator", "admin"],
  administer: ["admin"],
};

let reader: Reader | undefined;
const watchers = new Set<() => void>();

function set(next: Reader | undefined) {
  reader = next;
  for (const watcher of [...watchers]) watcher();
}

// useCan says what the reader may do in a namespace. Without word from the node everything is shown, and the node refuses.
export function useCan(ns: string): (action: keyof typeof may) => boolean {
  useReader();
  return (action) => {
    if (!reader?.grants?.length) return true;
    return reader.grants.some((g) => may[action].includes(g.role) && (g.namespaces ?? []).some((pattern) => covers(pattern, ns)));
  };
}

function covers(pattern: string, ns: string): boolean {
  const p = pattern.toLowerCase(), n = ns.toLowerCase();
  return p.endsWith("*") ? n.startsWith(p.slice(0, -1)) : p === n;
}

export function useReader(): Reader | undefined {
  const [, tick] = useState(0);
  useEffect(() => {
    const watcher = () => tick((n) => n + 1);
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return reader;
}

// askReader asks who the reader is. A node that does not know answers 401, on which the page asks for a key.
export async function askReader() {
  try {
    set(await call<Reader>("GET", "/v1/session"));
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
  }
}

let ended = false; // there was a session, and it is over although nobody has logged out

onSession((loggedOut) => {
  ended = loggedOut && (ended || reader !== undefined);
  if (loggedOut) set(undefined);
});

export function useLoggedOut(): boolean {
  const [out, setOut] = useState(false);
  useEffect(() => onSession(setOut), []);
  return out;
}

// logOut ends the session. Who shows something else, such as a certificate, is known all the same.
export async function logOut() {
  await call("DELETE", "/v1/session");
  set(undefined);
  await askReader();
}

// Who shows the reader, where the node knows one.
export function Who() {
  const who = useReader();
  const [problem, fail] = useState<Problem>();
  if (!who?.id || who.authentication === "none") return null;
  const until = who.expire_time ? `, until ${exact(Date.parse(who.expire_time))}` : "";
  const roles = (who.grants ?? []).map((g) => `${g.role} on ${(g.namespaces ?? []).join(", ")}`).join("; ");
  return (
    <span class={cls("reader", problem && "wrong")} title={`${who.kind} ${who.id}: ${roles}${until}`}>
      <bdi class="wide">{who.kind} {who.id}</bdi>
      {who.kind === "key" && <button type="button" class="small" onClick={() => {
        fail(undefined);
        logOut().catch((e) => fail(e instanceof Problem ? e : new Problem("internal", String(e))));
      }}>Log out</button>}
      {problem && <span class="bad" role="alert">Not logged out: {problem.detail}</span>}
    </span>
  );
}

// Login asks for a key. The field is emptied as soon as it is sent.
export function Login() {
  const [key, type] = useState("");
  const [problem, fail] = useState<Problem>();
  const submit = async (e: Event) => {
    e.preventDefault();
    fail(undefined);
    try {
      const body = { key: key.trim() };
      type("");
      set(await call<Reader>("POST", "/v1/session", { body }));
      session(false);
      reconnect();
    } catch (e) {
      fail(e instanceof Problem ? new Problem(e.code, e.detail, 0, e.field) : new Problem("internal", String(e)));
    }
  };
  return (
    <main class="login" id="room" tabIndex={-1}>
      <h1>Log in</h1>
      {ended && <p role="status">The session has ended: it was too old, or its key is no longer valid.</p>}
      {!isSecureContext ? <Insecure /> : (
        <form onSubmit={submit}>
          <p>This node asks who you are. The key is sent to the node, which remembers this browser; the page does not keep it.</p>
          <p class="field">
            <label for="f-key">API key</label>
            <input id="f-key" type="password" autocomplete="off" value={key} onInput={(e) => type(e.currentTarget.value)}
              placeholder="ck_…" required />
          </p>
          <Trouble of={problem} />
          <div class="buttons"><button class="primary" type="submit">Log in</button></div>
        </form>
      )}
    </main>
  );
}

// Insecure stands where a key would be readable on its way: the node would refuse it, but only once it has been sent.
function Insecure() {
  const port = location.port || "80";
  return (
    <>
      <p class="trouble" role="alert">This node asks who you are, but this page came over plain HTTP: a key that is typed in here could be
        read on its way.</p>
      <p>Open the page over <code>https://</code>, from a node that has a certificate (<code>carillon serve --tls-cert</code>). Or
        open it at <code>localhost</code>: on the machine of the node, or through a tunnel such as</p>
      <p><code>ssh -L {port}:localhost:{port} <bdi>{location.hostname}</bdi></code></p>
      <p>and then at <code>http://localhost:{port}/</code>.</p>
    </>
  );
}
