// Who the reader is. A key goes to the node and nowhere else: the node keeps a cookie that scripts cannot read.
import { useEffect, useState } from "preact/hooks";
import { call, onSession, Problem, session } from "./api";
import { reconnect } from "./live";
import { Trouble } from "./ui";

interface Grant { role: string; namespaces?: string[] }
export interface Reader { principal?: string; grants?: Grant[]; authentication?: string }

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

let sessions: boolean | undefined; // whether the node has sessions

export async function askReader() {
  try {
    set(await call<Reader>("GET", "/v1/session"));
    sessions = true;
  } catch (e) {
    if (e instanceof Problem && e.status === 404) sessions = false;
    else if (e instanceof Problem && e.status === 401) sessions = true;
  }
}

export function useLoggedOut(): boolean {
  const [out, setOut] = useState(false);
  useEffect(() => onSession(setOut), []);
  return out;
}

export async function logOut() {
  await call("DELETE", "/v1/session");
  set(undefined);
  session(true);
}

// Login asks for a key. The field is emptied as soon as the node has it.
export function Login() {
  const [key, type] = useState("");
  const [problem, fail] = useState<Problem>();
  const [none, setNone] = useState(sessions === false);
  useEffect(() => {
    void askReader().then(() => setNone(sessions === false));
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    fail(undefined);
    try {
      const body = { key: key.trim() };
      type("");
      await call("POST", "/v1/session", { body });
      await askReader();
      session(false);
      reconnect();
    } catch (e) {
      fail(e instanceof Problem ? new Problem(e.code, e.detail, 0, e.field) : new Problem("internal", String(e)));
    }
  };
  return (
    <main class="login" id="room" tabIndex={-1}>
      <h1>Log in</h1>
      {none ? (
        <p>This node asks who you are, and has no session for pages: use the command line, or a proxy that shows the credential
          for you.</p>
      ) : (
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
