// The keyboard: two keys go to a room, others act on what is shown.
import { useEffect, useState } from "preact/hooks";
import { go, to } from "./router";
import { typing } from "./table";
import { Dialog } from "./ui";

export const rooms: { name: string; title: string; key: string }[] = [
  { name: "", title: "Overview", key: "o" },
  { name: "jobs", title: "Jobs", key: "j" },
  { name: "runs", title: "Runs", key: "r" },
  { name: "dead", title: "Dead", key: "d" },
  { name: "queues", title: "Queues", key: "q" },
  { name: "workers", title: "Workers", key: "w" },
  { name: "ingests", title: "Ingests", key: "i" },
  { name: "graph", title: "Graph", key: "g" },
  { name: "calendars", title: "Calendars", key: "c" },
  { name: "schedule", title: "Schedule", key: "s" },
  { name: "cluster", title: "Cluster", key: "n" },
  { name: "settings", title: "Settings", key: "e" },
];

export function Keys({ search }: { search: () => void }) {
  const [shown, show] = useState(false);
  useEffect(() => {
    let before = "";
    const key = (e: KeyboardEvent) => {
      if (typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
      const second = before === "g";
      before = e.key;
      if (second) {
        const room = rooms.find((r) => r.key === e.key);
        before = "";
        if (!room) return;
        go(to(room.name));
      } else if (e.key === "?") show(true);
      else if (e.key === "/") search();
      else if (e.key === "n") go(to("new"));
      else if (e.key === ".") document.querySelector<HTMLElement>("[data-act]")?.focus();
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [search]);
  return (
    <>
      <button type="button" class="small help" onClick={() => show(true)} aria-label="Keys">?</button>
      {shown && (
        <Dialog title="Keys" close={() => show(false)}>
          <dl class="keys">
            <div><dt><kbd>?</kbd></dt><dd>these keys</dd></div>
            <div><dt><kbd>/</kbd></dt><dd>search: the beginning of a job's name, a run's id, <code>status:dead queue:mail late:&gt;5s</code>,{" "}
              <code>label:team=web</code>, <code>phase:paused</code>, <code>error:"no route"</code></dd></div>
            <div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>down, up in a list; <kbd>Enter</kbd> opens, <kbd>x</kbd> selects</dd></div>
            <div><dt><kbd>.</kbd></dt><dd>to the actions</dd></div>
            <div><dt><kbd>n</kbd></dt><dd>a new job</dd></div>
            {rooms.map((r) => <div key={r.key}><dt><kbd>g</kbd> <kbd>{r.key}</kbd></dt><dd>{r.title}</dd></div>)}
          </dl>
          <div class="buttons"><button type="button" class="primary" onClick={() => show(false)}>Close</button></div>
        </Dialog>
      )}
    </>
  );
}
