// When a schedule would fire: in words, and its next times.
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useAnswer, type Answer } from "../query";
import { exact, relative, startOfDay } from "../time";
import { Loading, Trouble } from "../ui";
import { inZone } from "../words";
import { NextTimes } from "./times";

// Asked is a schedule as it is typed in.
export interface Asked { schedule: string; time_zone: string; dst: string; from?: string; due_time?: string; except: string[]; only: string[] }

interface Times { times?: string[]; hints?: string[] }

export interface Previewed extends Answer<Times | undefined> { asked: Asked }

// usePreview asks when a schedule would fire, as soon as nobody has typed for a moment. Without a schedule it is when a job runs once.
export function usePreview(ns: string, asked: Asked, count: number): Previewed {
  const [waited, wait] = useState(asked);
  const text = JSON.stringify(asked);
  useEffect(() => {
    const timer = setTimeout(() => wait(JSON.parse(text) as Asked), 250);
    return () => clearTimeout(timer);
  }, [text]);
  const times = useAnswer(`preview ${ns} ${count} ${JSON.stringify(waited)}`, async (signal) => {
    const schedule = waited.schedule.trim(), due = waited.due_time?.trim();
    if (schedule === "" && !due) return undefined;
    const rules = schedule === "" ? {} : { schedule: waited.schedule, dst: waited.dst || undefined, namespace: ns || undefined, except: waited.except, only: waited.only };
    return call<Times>("POST", "/v1/schedules:preview", {
      signal, body: {
        ...rules, time_zone: waited.time_zone || undefined, count: schedule === "" ? 1 : count, due_time: due || undefined,
        from: startOfDay(waited.from ?? "", waited.time_zone) || undefined,
      },
    });
  });
  return { ...times, asked: waited };
}

// Preview shows it. Quiet: what is wrong is told elsewhere. Around is the address of its times from a day on.
export function Preview({ of, quiet, around }: { of: Previewed; quiet?: boolean; around?: (from: string) => string }) {
  const { asked } = of, list = of.data?.times ?? [];
  const words = asked.schedule ? inZone(asked.schedule, asked.time_zone) : undefined;
  return (
    <>
      {words && !of.problem && <p class="words" role="status">{words[0]!.toUpperCase() + words.slice(1)}</p>}
      {!quiet && <Trouble of={of.problem} />}
      {of.loading && !of.data && <Loading of="times" />}
      {of.data && (list.length === 0 ? <p>It never fires.</p>
        : asked.schedule === "" ? <p>It runs once, {relative(Date.parse(list[0]!))}: {exact(Date.parse(list[0]!))}.</p>
        : <NextTimes times={list} zone={asked.time_zone || "UTC"} around={around} from={asked.from ? Date.parse(startOfDay(asked.from, asked.time_zone)) : undefined} />)}
      {!of.problem && of.data?.hints?.map((h) => <p key={h} class="warn schedule-hint">{h[0]!.toUpperCase() + h.slice(1)}.</p>)}
    </>
  );
}
