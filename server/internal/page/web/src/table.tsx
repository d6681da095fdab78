// A table of any length: only the rows in sight are in the document. j and k move, x selects, Enter opens.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { go } from "./router";
import { cls } from "./ui";

export interface Column<T> {
  name: string;
  class?: string; // a width, and "wide" for what narrow screens leave out
  cell: (row: T) => ComponentChildren;
}

const narrow = matchMedia("(max-width: 640px)");
const beyond = 12; // rows drawn above and below those in sight

export function Table<T>({ label, columns, rows, keyOf, href, more, done, selected, select }: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  keyOf: (row: T) => string;
  href?: (row: T) => string;
  more?: () => void;
  done?: boolean;
  selected?: Set<string>;
  select?: (key: string) => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [from, setFrom] = useState(0);
  const [shown, setShown] = useState(60);
  const [small, setSmall] = useState(narrow.matches);
  const [at, setAt] = useState(-1);
  const height = small ? 52 : 32;
  const latest = useRef({ rows, at, href, keyOf, select, height });
  latest.current = { rows, at, href, keyOf, select, height };

  useLayoutEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      if (!body.current) return;
      const top = -body.current.getBoundingClientRect().top;
      const h = latest.current.height;
      setFrom(Math.max(0, Math.floor(top / h) - beyond));
      setShown(Math.ceil(innerHeight / h) + 2 * beyond);
    };
    const soon = () => {
      if (frame === 0) frame = requestAnimationFrame(look);
    };
    const size = () => {
      setSmall(narrow.matches);
      soon();
    };
    look();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    narrow.addEventListener("change", size);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
      narrow.removeEventListener("change", size);
    };
  }, []);

  const first = Math.min(from, Math.max(0, rows.length - 1));
  const last = Math.min(rows.length, first + shown);
  useEffect(() => {
    if (more && !done && last >= rows.length - 20) more();
  }, [last, rows.length, done, more]);

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
      const { rows, at, href, keyOf, select, height } = latest.current;
      const row = rows[at];
      if (e.key === "j" || e.key === "k") {
        const next = Math.max(0, Math.min(rows.length - 1, at + (e.key === "j" ? 1 : -1)));
        setAt(next);
        const box = body.current?.getBoundingClientRect();
        if (box) {
          const y = box.top + next * height;
          if (y < 120) scrollBy(0, y - 120);
          else if (y + height > innerHeight - 40) scrollBy(0, y + height - innerHeight + 40);
        }
      } else if (e.key === "x" && row && select) select(keyOf(row));
      else if (e.key === "Enter" && row && href && (e.target === document.body || e.target === document.documentElement)) go(href(row));
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);

  // A row that is drawn as it was is not drawn again: scrolling costs what comes into sight.
  const drawn = useRef<{ columns: Column<T>[]; rows: Map<string, { row: T; look: string; node: VNode }> }>({ columns, rows: new Map() });
  if (drawn.current.columns !== columns || drawn.current.rows.size > 1000) drawn.current = { columns, rows: new Map() };
  const draw = (row: T, index: number) => {
    const key = keyOf(row), here = index === at, chosen = selected?.has(key) ?? false, look = `${index} ${here} ${chosen}`;
    const old = drawn.current.rows.get(key);
    if (old && old.row === row && old.look === look) return old.node;
    const node = (
      <tr key={key} aria-rowindex={index + 2} class={cls(here && "here", chosen && "selected")}>
        {select && (
          <td class="tick">
            <input type="checkbox" checked={chosen} aria-label={`Select ${key}`} onChange={() => select(key)} />
          </td>
        )}
        {columns.map((c) => <td key={c.name} class={c.class}>{c.cell(row)}</td>)}
      </tr>
    );
    drawn.current.rows.set(key, { row, look, node });
    return node;
  };

  return (
    <table class="list" aria-label={label} aria-rowcount={done === false ? -1 : rows.length + 1}>
      <thead>
        <tr aria-rowindex={1}>
          {select && <th scope="col" class="tick"><span class="unseen">Select</span></th>}
          {columns.map((c) => <th scope="col" key={c.name} class={c.class}>{c.name}</th>)}
        </tr>
      </thead>
      <tbody ref={body}>
        {first > 0 && <tr class="space" aria-hidden="true"><td style={{ height: first * height }} /></tr>}
        {rows.slice(first, last).map((row, i) => draw(row, first + i))}
        {last < rows.length && <tr class="space" aria-hidden="true"><td style={{ height: (rows.length - last) * height }} /></tr>}
      </tbody>
    </table>
  );
}

// typing reports whether a key is meant for a field or a dialog.
export function typing(e: KeyboardEvent): boolean {
  const at = e.target;
  return document.querySelector("dialog[open]") !== null || (at instanceof HTMLElement &&
    (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && (at as HTMLInputElement).type !== "checkbox"));
}
