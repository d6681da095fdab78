// What rooms ask for, asked again when it may have changed.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { hear } from "./live";
import type { Happening } from "./types";

export interface Answer<T> {
  data?: T;
  problem?: Problem;
  loading: boolean;
  reload: () => void;
}

export interface When {
  every?: number; // ms
  on?: (event: Happening) => boolean; // an event after which it is asked again
}

function asProblem(e: unknown): Problem {
  return e instanceof Problem ? e : new Problem("internal", e instanceof Error ? e.message : String(e));
}

const soonest = 1_000; // ms between two questions

// useAnswer asks when key changes, when an event says so, and now and then. What was answered stays while it asks again. A question
// that takes long is asked less often, so that many events never keep the node or the browser busy.
export function useAnswer<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, when: When = {}): Answer<T> {
  const [state, set] = useState<{ key: string; data?: T; problem?: Problem; loading: boolean }>({ key, loading: true });
  const latest = useRef({ ask, when });
  latest.current = { ask, when };
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0, asking = false, wanted = false, last = 0, took = 0;
    const now = async () => {
      clearTimeout(timer);
      if (asking) {
        wanted = true;
        return;
      }
      asking = true;
      wanted = false;
      const began = performance.now();
      let got: { data?: T; problem?: Problem };
      try {
        got = { data: await latest.current.ask(stop.signal) };
      } catch (e) {
        got = { problem: asProblem(e) };
      }
      if (stop.signal.aborted) return;
      asking = false;
      last = performance.now();
      took = last - began;
      set((old) => ({
        key, loading: false, problem: got.problem,
        data: got.problem ? (old.key === key ? old.data : undefined) : got.data,
      }));
      const every = latest.current.when.every;
      if (wanted) soon();
      else if (every) timer = window.setTimeout(() => void now(), Math.max(every, took * 5));
    };
    const soon = () => {
      if (asking) {
        wanted = true;
        return;
      }
      clearTimeout(timer);
      const due = last + Math.max(soonest, took * 5) - performance.now();
      timer = window.setTimeout(() => void now(), Math.max(due, 0));
    };
    again.current = () => void now();
    set((old) => (old.key === key ? { ...old, loading: true } : { key, loading: true }));
    void now();
    const deaf = hear((events, all) => {
      const on = latest.current.when.on;
      if (all || (on && events.some(on))) soon();
    });
    return () => {
      deaf();
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  const reload = useCallback(() => again.current(), []);
  const fresh = state.key === key;
  return { data: fresh ? state.data : undefined, problem: fresh ? state.problem : undefined, loading: !fresh || state.loading, reload };
}

export interface Page<T> { items: T[]; next: string }

export interface Pages<T> {
  items: T[];
  done: boolean;
  loading: boolean;
  problem?: Problem;
  changes: number; // since they were read
  more: () => void;
  reload: () => void;
}

// usePages reads a list page by page as it is looked at. A list of one page follows events; a longer one counts them, so that
// nothing moves under the reader's hand.
export function usePages<T>(key: string, ask: (token: string, signal: AbortSignal) => Promise<Page<T>>,
  on: (event: Happening) => boolean): Pages<T> {
  const [state, set] = useState<{ key: string; items: T[]; next: string; pages: number; loading: boolean; problem?: Problem }>(
    { key, items: [], next: "", pages: 0, loading: true });
  const [changes, count] = useState(0);
  const latest = useRef({ ask, on, state });
  latest.current = { ask, on, state };
  const act = useRef<{ more: () => void; reload: () => void }>({ more: () => {}, reload: () => {} });
  useEffect(() => {
    const stop = new AbortController();
    let asking = false, timer = 0, last = 0, took = 0;
    let read = 0, wanted = 0; // pages; events that they may not show yet
    let owed = false; // more was asked for while the first page was asked for again
    const load = async (token: string, old: T[], pages: number) => {
      if (asking) return;
      asking = true;
      if (token === "") wanted = 0;
      read = pages;
      set((s) => ({ ...s, key, items: old, pages, loading: true, problem: undefined }));
      const began = performance.now();
      try {
        let page: Page<T> = { items: [], next: token };
        // A page that looked at much and found nothing is followed by others.
        for (let turn = 0; turn < 10 && page.items.length === 0 && (turn === 0 || page.next !== ""); turn++) {
          page = await latest.current.ask(page.next, stop.signal);
        }
        if (stop.signal.aborted) return;
        read = pages + 1;
        set({ key, items: [...old, ...page.items], next: page.next, pages: read, loading: false });
      } catch (e) {
        if (stop.signal.aborted) return;
        set((s) => ({ ...s, loading: false, problem: asProblem(e) }));
      }
      asking = false;
      last = performance.now();
      took = last - began;
      settle();
    };
    const reload = () => {
      count(0);
      if (asking) wanted++;
      else void load("", [], 0);
    };
    const refresh = async () => { // in place: the list is shown until the new one is there
      if (asking || read !== 1) {
        settle();
        return;
      }
      asking = true;
      wanted = 0;
      owed = false;
      const began = performance.now();
      let page: Page<T> | undefined;
      try {
        page = await latest.current.ask("", stop.signal);
        if (stop.signal.aborted) return;
        set({ key, items: page.items, next: page.next, pages: 1, loading: false });
      } catch (e) {
        if (stop.signal.aborted) return;
        set((s) => ({ ...s, problem: asProblem(e) }));
      }
      asking = false;
      last = performance.now();
      took = last - began;
      if (owed && page && page.next !== "") void load(page.next, page.items, 1);
      else settle();
    };
    const settle = () => { // what came while it asked is counted or asked for once it is answered
      if (asking || wanted === 0 || read === 0) return;
      if (read > 1) {
        const n = wanted;
        wanted = 0;
        count((c) => c + n);
        return;
      }
      clearTimeout(timer);
      timer = window.setTimeout(() => void refresh(), Math.max(last + Math.max(soonest, took * 5) - performance.now(), 0));
    };
    act.current = {
      more: () => {
        owed = true;
        const s = latest.current.state;
        if (s.key === key && s.next !== "" && !s.problem) void load(s.next, s.items, s.pages);
      },
      reload,
    };
    count(0);
    set({ key, items: [], next: "", pages: 0, loading: true });
    void load("", [], 0);
    const deaf = hear((events, all) => {
      const n = all ? 1 : events.filter(latest.current.on).length;
      if (n === 0) return;
      wanted += n;
      settle();
    });
    return () => {
      deaf();
      clearTimeout(timer);
      stop.abort();
    };
  }, [key]);
  const fresh = state.key === key;
  return {
    items: fresh ? state.items : [], done: fresh && !state.loading && state.next === "", loading: !fresh || state.loading,
    problem: fresh ? state.problem : undefined, changes, more: useCallback(() => act.current.more(), []),
    reload: useCallback(() => act.current.reload(), []),
  };
}
