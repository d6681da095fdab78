// What is typed into the search: "status:dead queue:mail late:>5s reports/" is runs, "label:team=web reports/" jobs, an id its run.
import { jobHref, runHref, to } from "./router";

const ofRuns = new Set(["status", "queue", "kind", "error", "from", "until", "late"]);
const ofJobs = new Set(["phase"]);
const both = new Set(["label"]);

export interface Found { query: Record<string, string>; rest: string; runs: boolean }

// parse reads words of the form key:value, of which a value may be in quotes; what is no such word is the beginning of a name.
export function parse(text: string): Found {
  const query: Record<string, string> = {};
  let rest = "", runs = false;
  for (const [, key, quoted, plain, word] of text.matchAll(/([a-z]+):(?:"([^"]*)"|(\S+))|(\S+)/g)) {
    const value = quoted ?? plain ?? "";
    if (key && (ofRuns.has(key) || ofJobs.has(key) || both.has(key))) {
      query[key] = key === "late" ? value.replace(/^>/, "") : value;
      runs ||= ofRuns.has(key);
    } else rest += (rest === "" ? "" : " ") + (word ?? `${key}:${value}`);
  }
  return { query, rest, runs };
}

export function where(text: string, ns: string): string {
  const { query, rest, runs } = parse(text.trim());
  if (/^[0-9a-v]{26,}$/.test(rest) && Object.keys(query).length === 0) return runHref(ns, rest);
  if (rest.startsWith("=")) return jobHref(ns, rest.slice(1));
  return to(runs ? "runs" : "jobs", { ...query, prefix: rest }, ns);
}
