// A schedule in words. What it does not know how to say it leaves as it is written: words that are wrong would be worse than none.
import { count, ofDuration } from "./time";
import type { Rate } from "./types";

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
  "November", "December"];

const macros: Record<string, string> = {
  "@yearly": "every year on 1 January at 00:00", "@annually": "every year on 1 January at 00:00",
  "@monthly": "on day 1 of every month at 00:00", "@weekly": "every Sunday at 00:00", "@daily": "every day at 00:00",
  "@midnight": "every day at 00:00", "@hourly": "every hour, at minute 0",
};

// inWords returns undefined if there are no words for one of the schedule's parts.
export function inWords(schedule: string, zone = "UTC"): string | undefined {
  const key = zone + " " + schedule;
  if (said.size > 2000) said.clear();
  if (!said.has(key)) said.set(key, say(schedule, zone));
  return said.get(key);
}

const said = new Map<string, string | undefined>();

// inZone is inWords, with the zone whose clocks are meant where no other is named; intervals of fixed length have none.
export function inZone(schedule: string, zone?: string): string | undefined {
  const words = inWords(schedule, zone || "UTC");
  const other = schedule.split(";").every((part) => /^(?:@every\s+(?:PT|(?!.*P))|R\d*\/PT|(?:CRON_)?TZ=)/i.test(part.trim()));
  return words === undefined || other ? words : `${words}, ${zone || "UTC"}`;
}

function say(schedule: string, zone: string): string | undefined {
  const parts: string[] = [];
  for (const part of schedule.split(";")) {
    const words = one(part.trim(), zone);
    if (words === undefined) return undefined;
    parts.push(words);
  }
  return parts.join("; and ");
}

function one(text: string, zone: string): string | undefined {
  const prefix = /^(?:CRON_)?TZ=(\S+)\s+(.*)$/.exec(text);
  if (prefix) {
    const words = one(prefix[2]!, prefix[1]!);
    return words === undefined || prefix[1] === zone ? words : `${words}, in ${prefix[1]}`;
  }
  const macro = macros[text.toLowerCase()];
  if (macro) return macro;
  if (text.startsWith("@every ")) return every(text.slice(7).trim());
  if (/^R\d*\//.test(text)) return repeats(text);
  return cron(text);
}

function every(text: string): string | undefined {
  const [length, shift] = text.split("/");
  const ms = length === undefined ? NaN : ofDuration(length.trim());
  if (Number.isNaN(ms)) return undefined;
  if (shift === undefined) return `every ${spoken(ms)}`;
  const late = ofDuration(shift.trim());
  return Number.isNaN(late) ? undefined : `every ${spoken(ms)}, ${exactly(late)} after whole multiples`;
}

// exactly writes a length of time without rounding it. Days are left as hours: those of a calendar may be longer or shorter.
export function exactly(ms: number): string {
  let rest = Math.round(ms * 1e6); // ns, all of which a length of 104 days can have
  const parts: string[] = [];
  for (const [size, name] of [[3.6e12, "h"], [6e10, "min"], [1e9, "s"]] as const) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) parts.push(`${n} ${name}`);
  }
  if (rest > 0 || parts.length === 0) parts.push(`${rest / 1e6} ms`);
  return parts.join(" ");
}

// rateInWords says how often something may begin, such as "5 in 1 min, at most 10 at once".
export function rateInWords(r: Rate): string {
  const period = r.period ? ofDuration(r.period) : 1000;
  const each = Number.isNaN(period) ? r.period : exactly(period);
  return `${count(r.count)} in ${each}, at most ${count(r.burst ?? r.count)} at once`;
}

// spoken is a length after "every": one of a unit needs no number.
function spoken(ms: number): string {
  const units: Record<number, string> = { 1000: "second", 60_000: "minute", 3_600_000: "hour" };
  return units[ms] ?? exactly(ms);
}

function repeats(text: string): string | undefined {
  const found = /^R(\d*)\/(?:([^/P][^/]*)\/)?P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/.exec(text);
  if (!found) return undefined;
  const [, times, start, ...lengths] = found;
  const names = ["year", "month", "week", "day", "hour", "minute", "second"];
  const parts = lengths.map((n, i) => (Number(n ?? 0) > 0 ? `${Number(n)} ${names[i]}${Number(n) === 1 ? "" : "s"}` : "")).filter((x) => x !== "");
  if (parts.length === 0) return undefined;
  const length = parts.length === 1 ? parts[0]!.replace(/^1 /, "") : parts.join(" ");
  return `every ${length}${times ? `, ${times} time${Number(times) === 1 ? "" : "s"}` : ""}${start ? `, from ${start}` : ""}`;
}

function cron(text: string): string | undefined {
  let fields = text.split(/\s+/);
  if (fields.length < 5 || fields.length > 7) return undefined;
  if (fields.length === 5) fields = ["0", ...fields];
  const [second, minute, hour, day, month, weekday, year] = fields as [string, string, string, string, string, string, string?];
  const at = timeOfDay(second, minute, hour);
  const on = dates(day, month, weekday);
  if (at === undefined || on === undefined) return undefined;
  const when = at.fixed ? `${on || "every day"} ${at.words}` : [at.words, on].filter((x) => x !== "").join(", ");
  if (year === undefined || year === "*" || year === "?") return when;
  return /^[\d,\-]+$/.test(year) ? `${when}, in ${year.replace(/-/g, " to ").replace(/,/g, ", ")}` : undefined;
}

const any = (field: string) => field === "*" || field === "?";
const two = (n: string | number) => String(n).padStart(2, "0");

function list(items: string[]): string {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items[items.length - 1]}`;
}

function timeOfDay(second: string, minute: string, hour: string): { words: string; fixed: boolean } | undefined {
  const numbers = /^\d+(,\d+)*$/;
  if (numbers.test(second) && numbers.test(minute) && numbers.test(hour)) {
    const times: string[] = [];
    for (const h of hour.split(",")) for (const m of minute.split(",")) for (const s of second.split(",")) {
      times.push(`${two(h)}:${two(m)}${second === "0" ? "" : ":" + two(s)}`);
    }
    return times.length > 8 ? undefined : { words: `at ${list(times)}`, fixed: true };
  }
  const s = units(second, "second", 60), m = units(minute, "minute", 60), h = units(hour, "hour", 24);
  if (s === undefined || m === undefined || h === undefined) return undefined;
  const parts: string[] = [];
  if (second !== "0") parts.push(any(minute) && s.startsWith("at ") ? `${s} of every minute` : s);
  if (!(any(minute) && second !== "0")) parts.push(any(hour) && m.startsWith("at ") ? `${m} of every hour` : m);
  if (!any(hour)) parts.push(h);
  return { words: parts.join(", "), fixed: false };
}

function units(field: string, unit: string, size: number): string | undefined {
  if (any(field)) return `every ${unit}`;
  const step = /^(?:\*|(\d+))\/(\d+)$/.exec(field);
  if (step) {
    const n = Number(step[2]), from = Number(step[1] ?? 0);
    if (n === 0) return undefined;
    const odd = size % n !== 0 ? ` of each ${unit === "hour" ? "day" : unit === "minute" ? "hour" : "minute"}` : "";
    return (n === 1 ? `every ${unit}` : `every ${n} ${unit}s${odd}`) + (from > 0 ? `, from ${unit} ${from} on` : "");
  }
  const range = /^(\d+)-(\d+)(?:\/(\d+))?$/.exec(field);
  if (range) {
    const each = range[3] ? `every ${range[3]} ${unit}s` : `every ${unit}`;
    if (unit === "hour") return `${each}, from ${two(range[1]!)}:00 to ${two(range[2]!)}:59`;
    return `${each} from ${range[1]} to ${range[2]}`;
  }
  if (!/^\d+(,\d+)*$/.test(field)) return undefined;
  const values = field.split(",");
  if (unit === "hour") return `in the hour${values.length > 1 ? "s" : ""} ${list(values.map((v) => two(v) + ":00"))}`;
  return `at ${unit}${values.length > 1 ? "s" : ""} ${list(values)}`;
}

function dates(day: string, month: string, weekday: string): string | undefined {
  const both = weekday.startsWith("+");
  const d = dayOfMonth(day), m = names(month, months, 1), w = dayOfWeek(both ? weekday.slice(1) : weekday);
  if (d === undefined || m === undefined || w === undefined) return undefined;
  const inMonth = m === "" ? "" : ` in ${m}`, ofMonth = m === "" ? " of every month" : ` of ${m}`;
  if (d === "" && w === "") return m === "" ? "" : `every day${inMonth}`;
  if (d === "") return w + inMonth;
  if (w === "") return d + ofMonth;
  return both ? `${d}${ofMonth} if it is ${w.replace(/^every /, "")}` : `${d}${ofMonth}, and ${w}${inMonth}`;
}

function dayOfMonth(field: string): string | undefined {
  if (any(field)) return "";
  if (field === "L") return "on the last day";
  if (field === "LW") return "on the last weekday";
  let found = /^L-(\d+)$/.exec(field);
  if (found) return `${found[1]} day${found[1] === "1" ? "" : "s"} before the last day`;
  found = /^(\d+)W$/.exec(field);
  if (found) return `on the weekday nearest to day ${found[1]}`;
  found = /^\*\/(\d+)$/.exec(field);
  if (found) return `on every ${found[1]} days from day 1`;
  if (/^\d+-\d+$/.test(field)) return `on days ${field.replace("-", " to ")}`;
  return /^\d+(,\d+)*$/.test(field) ? `on day${field.includes(",") ? "s" : ""} ${list(field.split(","))}` : undefined;
}

function index(text: string, all: string[], base: number): number {
  if (/^\d+$/.test(text)) return Number(text) - base;
  return all.findIndex((name) => name.slice(0, 3).toLowerCase() === text.toLowerCase());
}

function names(field: string, all: string[], base: number): string | undefined {
  if (any(field)) return "";
  const parts: string[] = [];
  for (const part of field.split(",")) {
    const ends = part.split("-").map((end) => all[index(end, all, base) % all.length] ?? "");
    if (ends.length > 2 || ends.includes("")) return undefined;
    parts.push(ends.join(" to "));
  }
  return list(parts);
}

function dayOfWeek(field: string): string | undefined {
  if (any(field)) return "";
  let found = /^(\w{1,3})L$/i.exec(field);
  if (found) {
    const name = days[index(found[1]!, days, 0) % 7];
    return name && `on the last ${name}`;
  }
  found = /^(\w{1,3})#([1-5])$/.exec(field);
  if (found) {
    const name = days[index(found[1]!, days, 0) % 7];
    return name && `on the ${["first", "second", "third", "fourth", "fifth"][Number(found[2]) - 1]} ${name}`;
  }
  const all = names(field, days, 0);
  return all && `every ${all}`;
}
