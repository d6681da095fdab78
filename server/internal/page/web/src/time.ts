// How times and numbers are written.
import { useEffect, useState } from "preact/hooks";

const tickers = new Set<() => void>();
setInterval(() => {
  if (!document.hidden) for (const tick of [...tickers]) tick();
}, 1000);

// useTick draws a component again each second.
export function useTick() {
  const [, set] = useState(0);
  useEffect(() => {
    const tick = () => set((n) => n + 1);
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, []);
}

// span writes a length of time, in one or two units.
export function span(ms: number): string {
  const s = Math.abs(ms) / 1000;
  if (s < 0.0995) return `${Math.round(s * 1000)} ms`;
  if (s < 9.95) return `${s.toFixed(1).replace(/\.0$/, "")} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  if (s < 3570) return `${Math.round(s / 60)} min`;
  if (s < 86400) return two(s, 3600, "h", 60, "min");
  return s < 864000 ? two(s, 86400, "d", 3600, "h") : `${Math.round(s / 86400)} d`;
}

function two(s: number, large: number, a: string, small: number, b: string): string {
  const rounded = Math.round(s / small);
  const n = Math.floor((rounded * small) / large), rest = rounded - (n * large) / small;
  return rest === 0 ? `${n} ${a}` : `${n} ${a} ${rest} ${b}`;
}

export function relative(time: number, now = Date.now()): string {
  const d = time - now;
  if (Math.abs(d) < 1000) return "now";
  return d > 0 ? `in ${span(d)}` : `${span(d)} ago`;
}

export const local = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const zones = Intl.supportedValuesOf("timeZone");

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let f = formats.get(key);
  if (!f) {
    f = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone });
    formats.set(key, f);
  }
  return f;
}

// known reports whether the browser knows a time zone.
export function known(zone: string): boolean {
  try {
    format(zone, {});
    return true;
  } catch {
    return false;
  }
}

export function clock(time: number, zone = local): string {
  return format(zone, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(time);
}

// exact writes a time as people in a zone read it.
export function exact(time: number, zone = local): string {
  const p: Record<string, string> = {};
  for (const part of format(zone, {
    weekday: "short", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
    second: "2-digit", hourCycle: "h23", timeZoneName: "short",
  }).formatToParts(time)) p[part.type] = part.value;
  return `${p.weekday} ${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second} ${p.timeZoneName}`;
}

// offset is how far a zone's clocks are ahead of UTC at an instant, in minutes.
export function offset(time: number, zone: string): number {
  const p: Record<string, number> = {};
  for (const part of format(zone, {
    year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23",
  }).formatToParts(time)) p[part.type] = Number(part.value);
  const wall = Date.UTC(p.year!, p.month! - 1, p.day!, p.hour!, p.minute!, p.second!);
  return Math.round((wall - Math.floor(time / 1000) * 1000) / 60000);
}

// startOfDay is when a day begins in a zone, in RFC 3339, of a text that is a day. Other texts stay as they are, for the API to judge.
export function startOfDay(text: string, zone: string): string {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(text.trim()) ? Date.parse(text.trim()) : NaN;
  if (Number.isNaN(day)) return text;
  const own = known(zone || "UTC") ? zone || "UTC" : "UTC";
  const first = day - offset(day, own) * 60_000;
  return new Date(day - offset(first, own) * 60_000).toISOString();
}

export interface Change { at: number; minutes: number }

// changeBetween finds where a zone's clocks change between two instants: the first of the changes.
export function changeBetween(from: number, to: number, zone: string): Change | undefined {
  const day = 86_400_000;
  const before = offset(from, zone);
  for (let at = from; at < to; at += day) {
    let high = Math.min(at + day, to), low = at;
    if (offset(high, zone) === before) continue;
    while (high - low > 1000) {
      const middle = Math.floor((low + high) / 2);
      if (offset(middle, zone) === before) low = middle;
      else high = middle;
    }
    return { at: Math.floor(high / 1000) * 1000, minutes: offset(high, zone) - before };
  }
  return undefined;
}

export function count(n: number | string | undefined): string {
  return String(n ?? 0).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function plural(n: number, one: string, many = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

// ofDuration reads a Go duration as ms; NaN if it is none.
export function ofDuration(text: string): number {
  let sum = 0, seen = "";
  for (const [all, n, unit] of text.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h|d)/g)) {
    sum += Number(n) * units[unit!]!;
    seen += all;
  }
  return seen === text && text !== "" ? sum : NaN;
}
