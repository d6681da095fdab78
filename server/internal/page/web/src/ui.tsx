// The small parts that rooms are made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { jobHref, runHref, to } from "./router";
import { count, exact, relative, span, useTick } from "./time";
import type { Hold } from "./types";

export function cls(...names: (string | false | undefined)[]): string {
  return names.filter(Boolean).join(" ");
}

// When is a time, relative; exact when it is pointed at, copied or read.
// Of what is to come, one that is past is due.
export function When({ at, bare, due }: { at?: string; bare?: boolean; due?: boolean }) {
  useTick();
  if (!at) return <span class="none">–</span>;
  const time = Date.parse(at);
  return <time dateTime={at} title={exact(time)} class={bare ? undefined : "when"}>{due && time < Date.now() - 1000 && "due "}{relative(time)}</time>;
}

// shape is what an outcome looks like: it differs in form, lightness and colour.
const shapes: Record<string, [string, string]> = {
  succeeded: ["●", "good"], done: ["●", "good"], dead: ["■", "bad"], failed: ["▲", "bad"], cancelled: ["◇", "quiet"],
  skipped: ["○", "quiet"], retrying: ["◆", "warn"], staged: ["◔", "warn"], waiting: ["◔", "warn"], paused: ["‖", "quiet"],
  running: ["▶", "busy"], ready: ["▷", "busy"], scheduled: ["·", "quiet"],
};

export function Outcome({ of }: { of?: string }) {
  const what = of ?? "unknown";
  const [sign, tone] = shapes[what] ?? ["·", "quiet"];
  return <span class={"outcome " + tone}><span class="sign" aria-hidden="true">{sign}</span>{what}</span>;
}

export function JobLink({ ns, name }: { ns: string; name: string }) {
  return <a class="name" href={jobHref(ns, name)} title={name}><bdi>{name}</bdi></a>;
}

// RunLink shows the end of an id, which differs, and copies whole.
export function RunLink({ ns, id }: { ns: string; id: string }) {
  return <a class="id" href={runHref(ns, id)} title={id}>{short(id)}</a>;
}

export function short(id: string): string {
  return id.length > 12 ? "…" + id.slice(-10) : id;
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      set(true);
      setTimeout(() => set(false), 1500);
    } catch {
      set(false);
    }
  };
  return <button type="button" class="small" onClick={copy} aria-label={`Copy ${what}`}>{done ? "copied" : "copy"}</button>;
}

// Trouble is a problem in the API's own sentence.
export function Trouble({ of, retry }: { of?: Problem; retry?: () => void }) {
  if (!of || of.status === 401) return null;
  return (
    <div class="trouble" role="alert">
      <p>
        {of.field && <><code>{of.field}</code>: </>}<bdi>{of.detail}</bdi>
        {of.unknown && of.code !== "unreachable" && " The change may or may not have been made: look before you repeat it."}
      </p>
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

// Nothing says what would be here, and what makes it.
export function Nothing({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="nothing">
      <p>{children}</p>
      {command && <p><code>{command}</code></p>}
    </div>
  );
}

export function Loading({ of }: { of: string }) {
  const [slow, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 200);
    return () => clearTimeout(timer);
  }, []);
  return <p class="loading" role="status">{slow ? `Asking for ${of}…` : "\u00a0"}</p>;
}

// Facts is a list of names with values.
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.filter(([, value]) => value !== undefined && value !== "" && value !== null && value !== false)
        .map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

export function Panel({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel" aria-label={title}>
      <header><h2>{title}</h2>{aside && <div class="aside">{aside}</div>}</header>
      {children}
    </section>
  );
}

export function Labels({ of }: { of?: Record<string, string> }) {
  const all = Object.entries(of ?? {});
  if (all.length === 0) return null;
  return <span class="labels">{all.map(([key, value]) => <span class="label" key={key} title={`${key}=${value}`}><bdi>{key}={value}</bdi></span>)}</span>;
}

export function Amount({ of, tone }: { of?: number | string; tone?: string }) {
  const zero = !of || of === "0";
  return <span class={cls("number", zero ? "zero" : tone)}>{count(of)}</span>;
}

export function Simple({ head, rows, label, empty }: {
  head: string[]; rows: { key: string; cells: ComponentChildren[] }[]; label: string; empty?: ComponentChildren;
}) {
  if (rows.length === 0 && empty) return <>{empty}</>;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={label}>
      <table class="simple">
        <thead><tr>{head.map((h) => <th scope="col" key={h}>{h}</th>)}</tr></thead>
        <tbody>{rows.map((row) => <tr key={row.key}>{row.cells.map((cell, i) => <td key={i} data-name={head[i]}>{cell}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

// Dialog is the browser's own: it keeps the keyboard within, and Escape closes it.
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const at = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    at.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={at} aria-label={title} onClose={close} onCancel={close}
      onClick={(e) => e.target === at.current && close()}>
      <div class="sheet">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

export interface Act {
  title: string;
  says: ComponentChildren; // what it will do
  button: string;
  typed?: string; // what the reader must type before
  fields?: { name: string; label: string; kind?: "text" | "check" | "area" | "time" | "select"; options?: string[]; value?: string; hint?: string }[];
  run: (values: Record<string, string>) => Promise<ComponentChildren | void>; // what it did
  danger?: boolean;
}

// Acting asks before something is done, does it, and says what was done once that is durable.
export function Acting({ act, close }: { act: Act; close: (done: boolean) => void }) {
  const [typed, type] = useState("");
  const [values, change] = useState<Record<string, string>>(() =>
    Object.fromEntries((act.fields ?? []).map((f) => [f.name, f.value ?? ""])));
  const [busy, work] = useState(false);
  const [problem, fail] = useState<Problem>();
  const [done, end] = useState<ComponentChildren>();
  const ready = !busy && (act.typed === undefined || typed === act.typed);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (!ready) return;
    work(true);
    fail(undefined);
    try {
      end((await act.run(values)) ?? "Done.");
    } catch (e) {
      fail(e instanceof Problem ? e : new Problem("internal", String(e)));
    }
    work(false);
  };
  return (
    <Dialog title={act.title} close={() => close(done !== undefined || problem?.unknown === true)}>
      {done !== undefined ? (
        <>
          <div role="status" class="says">{done}</div>
          <div class="buttons"><button type="button" class="primary" onClick={() => close(true)} ref={focus}>Close</button></div>
        </>
      ) : (
        <form onSubmit={submit}>
          <div class="says">{act.says}</div>
          {(act.fields ?? []).map((f) => (
            <Field key={f.name} {...f} value={values[f.name] ?? ""} set={(v) => change((old) => ({ ...old, [f.name]: v }))} />
          ))}
          {act.typed !== undefined && (
            <Field name="typed" label={<>Type <code><bdi>{act.typed}</bdi></code> to go on</>} value={typed} set={type} />
          )}
          <Trouble of={problem} />
          <div class="buttons">
            <button type="button" onClick={() => close(false)}>Cancel</button>
            <button type="submit" class={act.danger ? "danger" : "primary"} disabled={!ready}>{busy ? "…" : act.button}</button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

const focus = (e: HTMLElement | null) => e?.focus();

const named = (option: string | [string, string]): [string, string] => (typeof option === "string" ? [option, option] : option);

export function Field({ name, label, kind = "text", options, empty = "any", rows = 8, value, set, hint, wrong }: {
  name: string; label: ComponentChildren; kind?: string; options?: (string | [string, string])[]; empty?: string; rows?: number; value: string; set: (v: string) => void;
  hint?: ComponentChildren; wrong?: string;
}) {
  const id = "f-" + name;
  const on = (e: JSX.TargetedEvent<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>) => set(e.currentTarget.value);
  const by = [wrong && id + "-wrong", hint && id + "-hint"].filter(Boolean).join(" ");
  const described = { ...(by ? { "aria-describedby": by } : {}), ...(wrong ? { "aria-invalid": true } : {}) };
  const below = (
    <>
      {wrong && <span class="wrong" id={id + "-wrong"}><bdi>{sentence(wrong)}</bdi></span>}
      {hint && <span class="hint" id={id + "-hint"}>{hint}</span>}
    </>
  );
  if (kind === "check") {
    return (
      <p class="field check">
        <input type="checkbox" id={id} checked={value === "true"} onChange={(e) => set(e.currentTarget.checked ? "true" : "")} {...described} />
        <label for={id}>{label}</label>
        {below}
      </p>
    );
  }
  return (
    <p class="field">
      <label for={id}>{label}</label>
      {kind === "area" ? <textarea id={id} rows={rows} value={value} onInput={on} spellcheck={false} {...described} />
        : kind === "select" ? <select id={id} value={value} onChange={on} {...described}>{options!.map(named).map(([o, says]) => <option key={o} value={o}>{says === "" ? empty : says}</option>)}</select>
        : <input id={id} type={kind === "time" ? "datetime-local" : kind} value={value} onInput={on} autocomplete="off"
            autocapitalize="off" spellcheck={false} step={kind === "time" ? 1 : undefined} list={kind === "text" && options ? id + "-list" : undefined} {...described} />}
      {kind === "text" && options && <datalist id={id + "-list"}>{options.map(named).map(([o]) => <option key={o} value={o} />)}</datalist>}
      {below}
    </p>
  );
}

// sentence writes a text of the API, which may begin in the middle of a sentence, as one.
export function sentence(text: string): string {
  return text === "" ? "" : text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

// Why is what keeps a run, since when, and until when.
export function Why({ of }: { of: Hold }) {
  useTick();
  return (
    <>
      <bdi>{sentence(of.text)}</bdi>
      {of.since && <span title={exact(Date.parse(of.since))}> It has waited {span(Date.now() - Date.parse(of.since))}.</span>}
      {of.until && <span title={exact(Date.parse(of.until))}> It may go on {relative(Date.parse(of.until))}.</span>}
    </>
  );
}

// holdLink leads to where what keeps a run is shown; undefined: nothing shows more of it.
export function holdLink({ ns, job, hold }: { ns: string; job: string; hold?: Hold }) {
  switch (hold?.code) {
    case "no_consumer": case "no_credit": case "silent_workers": case "queue_paused": case "backoff":
      return <a href={to("queues", {}, ns)}>See the queues</a>;
    case "limit": return <a href={to("settings", {}, ns)}>See the limits</a>;
    case "rate_limit": return <a href={to("settings", {}, ns)}>See the rates and quotas</a>;
    case "quota": return <a href={to("settings", {}, ns)}>See the quotas</a>;
    case "partition_unowned": case "store_away": case "node_leaving": return <a href={to("cluster", {}, ns)}>See the cluster</a>;
    case "depends_on": return <a href={to("graph", { job }, ns)}>See the graph</a>;
  }
  return undefined;
}

// pretty writes a value as JSON that people read.
export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "";
}
