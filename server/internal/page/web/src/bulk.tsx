// Acting on many: the number and names first, then page by page, with progress, until it is done or stopped.
import { useEffect, useRef, useState } from "preact/hooks";
import { post, Problem } from "./api";
import { count, plural } from "./time";
import type { BulkAnswer } from "./types";
import { Dialog, Field, Trouble } from "./ui";

export interface Many {
  title: string;
  path?: string;
  bodies?: Record<string, unknown>[]; // one filter or several, of bulk calls to path
  each?: { name: string; run: () => Promise<unknown> }[]; // instead: those that were selected
  noun: string;
  does: string; // "Each gets new attempts."
  about?: string; // what they have in common
  names?: string[]; // instead of the names that calls answer
  button: string;
  typed?: boolean; // the number must be typed
}

interface Sum { matched: number; changed: number; failed: number; names: string[]; reasons: string[] }

// each ends early where signal says so: between two calls, since what became of one that is broken off is not known. A dry one, which
// changes nothing, is broken off.
async function each(many: Many, dry: boolean, signal: AbortSignal, step: (sum: Sum) => void): Promise<Sum> {
  const sum: Sum = { matched: 0, changed: 0, failed: 0, names: [], reasons: [] };
  for (const one of many.each ?? []) {
    if (signal.aborted) return sum;
    sum.matched++;
    if (sum.names.length < 10) sum.names.push(one.name);
    try {
      if (!dry) await one.run();
      sum.changed++;
    } catch (e) {
      if (!(e instanceof Problem) || e.status === 0 || e.status === 401) throw e;
      sum.failed++;
      sum.reasons.push(`${one.name}: ${e.detail}`);
    }
    if (!dry) step({ ...sum });
  }
  for (const body of many.bodies ?? []) {
    for (let token = ""; !signal.aborted;) {
      const a = await post<BulkAnswer>(many.path!, { ...body, dry_run: dry, page_size: dry ? 1000 : 100, page_token: token }, dry ? signal : undefined);
      sum.matched += a.matched ?? 0;
      sum.changed += a.changed ?? 0;
      sum.failed += a.failed ?? 0;
      if (sum.names.length < 10) sum.names.push(...(a.names ?? []));
      if (sum.reasons.length < 10) sum.reasons.push(...(a.failures ?? []).map((f) => `${f.name}: ${f.reason}`));
      step({ ...sum });
      token = a.next_page_token ?? "";
      if (token === "") break;
    }
  }
  return sum;
}

export function ActingOnMany({ many, close }: { many: Many; close: (done: boolean) => void }) {
  const [would, setWould] = useState<Sum>();
  const [sum, step] = useState<Sum>();
  const [state, set] = useState<"counting" | "asking" | "acting" | "stopping" | "done" | "stopped">("counting");
  const [problem, fail] = useState<Problem>();
  const [typed, type] = useState("");
  const stop = useRef(new AbortController());
  const began = useRef(false);
  const run = async (dry: boolean) => {
    fail(undefined);
    stop.current = new AbortController();
    const signal = stop.current.signal;
    try {
      const s = await each(many, dry, signal, dry ? setWould : step);
      if (dry && signal.aborted) return;
      if (dry) setWould(s);
      else step(s);
      set(dry ? "asking" : signal.aborted ? "stopped" : "done");
    } catch (e) {
      if (dry && signal.aborted) return;
      fail(e instanceof Problem ? e : new Problem("internal", String(e)));
      set(dry ? "asking" : "stopped");
    }
  };
  useEffect(() => {
    void run(true);
    return () => stop.current.abort();
  }, []);
  const n = would?.changed ?? 0;
  const names = many.names ?? would?.names ?? [], all = many.names?.length ?? n;
  const ready = state === "asking" && n > 0 && (!many.typed || typed === String(n));
  return (
    <Dialog title={many.title} close={() => {
      stop.current.abort();
      close(began.current);
    }}>
      <div class="says" role="status">
        {state === "counting" && <p>Counting… {would ? count(would.changed) : ""}</p>}
        {state === "asking" && <p>{n === 0 ? `No ${many.noun} is selected.` : <><strong>{plural(n, many.noun)}</strong>. {many.does}</>}</p>}
        {state === "asking" && n > 0 && many.about && <pre class="about"><bdi>{many.about}</bdi></pre>}
        {(state === "acting" || state === "stopping" || state === "done" || state === "stopped") && (
          <>
            <p>{state === "done" ? "Done: " : state === "stopped" ? "Stopped after " : state === "stopping" ? "Stopping, once the call under way is answered: " : ""}{count(sum?.changed)} of {count(n)} changed
              {sum?.failed ? `, ${count(sum.failed)} failed` : ""}.</p>
            <progress max={Math.max(n, 1)} value={sum?.changed ?? 0} aria-label="Progress" />
          </>
        )}
        {state === "asking" && would && would.names.length > 0 && (
          <ul class="names">{names.slice(0, 10).map((name) => <li key={name}><bdi>{name}</bdi></li>)}{all > 10 && <li>and {count(all - 10)} more</li>}</ul>
        )}
        {sum && sum.reasons.length > 0 && <ul class="names">{sum.reasons.slice(0, 10).map((r, i) => <li key={i}><bdi>{r}</bdi></li>)}</ul>}
      </div>
      {state === "asking" && many.typed && n > 0 && (
        <Field name="typed" label={<>Type <code>{n}</code> to go on</>} value={typed} set={type} />
      )}
      <Trouble of={problem} />
      <div class="buttons">
        {state === "acting" || state === "stopping" ? (
          <button type="button" disabled={state === "stopping"} onClick={() => {
            stop.current.abort();
            set("stopping");
          }}>Stop</button>
        ) : state === "asking" ? (
          <>
            <button type="button" onClick={() => close(false)}>Cancel</button>
            <button type="button" class={many.typed ? "danger" : "primary"} disabled={!ready} onClick={() => {
              set("acting");
              began.current = true;
              void run(false);
            }}>{many.button}</button>
          </>
        ) : <button type="button" class="primary" onClick={() => {
          stop.current.abort();
          close(began.current);
        }}>Close</button>}
      </div>
    </Dialog>
  );
}
