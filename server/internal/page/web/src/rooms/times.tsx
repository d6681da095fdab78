// Times of a schedule, in its zone and in the reader's, with what the clocks do between them.
import { useMemo } from "preact/hooks";
import { changeBetween, clock, exact, known, local, offset, relative, span, useTick } from "../time";

interface Row { at: number; mark?: string }

const near = 31 * 86_400_000, year = 366 * 86_400_000;

// day is the day of a time in a zone, as "Sun 2027-03-28".
const day = (at: number, zone: string) => exact(at, zone).slice(0, 14);

// rowsOf are times with the changes of clocks of a zone between them, but for those that are far from each.
export function rowsOf(times: string[], zone: string, from = Date.now()): Row[] {
  const rows: Row[] = [];
  let before = from;
  for (const text of times) {
    const at = Date.parse(text);
    for (let start = before, turn = 0; turn < 50; turn++) {
      const change = changeBetween(start, at, zone);
      if (!change) break;
      start = change.at;
      if (at - change.at > near && change.at - before > near) continue;
      const gap = change.minutes > 0, size = span(Math.abs(change.minutes) * 60_000);
      const old = offset(change.at - 1000, zone), now = offset(change.at, zone);
      const wall = (minutes: number) => clock(change.at + minutes * 60_000, "UTC");
      const stretch = `${wall(Math.min(old, now))} to ${wall(Math.max(old, now))}`;
      rows.push({
        at: change.at,
        mark: `Clocks go ${gap ? "forward" : "back"} ${size}, ${sign(old)} to ${sign(now)}: ${stretch} ${gap ? "does not exist" : "comes twice"} on that day`,
      });
    }
    rows.push({ at });
    before = at;
  }
  return rows;
}

function sign(minutes: number): string {
  const m = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${String(Math.floor(m / 60)).padStart(2, "0")}:${String(m % 60).padStart(2, "0")}`;
}

// NextTimes shows them. Around is the address of the schedule's times from a day on: it leads to where the clocks change next.
export function NextTimes({ times, zone, from, around }: { times: string[]; zone: string; from?: number; around?: (from: string) => string }) {
  useTick();
  const own = known(zone) ? zone : "UTC";
  const rows = rowsOf(times, own, from);
  const same = own === local;
  const last = times[times.length - 1];
  const change = useMemo(() => around && last ? changeBetween(Date.parse(last), Date.parse(last) + year, own) : undefined, [last, own, around !== undefined]);
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Next times">
        <table class="simple times">
          <thead><tr><th scope="col">In {own}</th>{!same && <th scope="col" class="here">Where you are ({local})</th>}<th scope="col">From now</th></tr></thead>
          <tbody>
            {rows.map((row, i) => row.mark ? (
              <tr key={i} class="change"><td colSpan={same ? 2 : 3}><span aria-hidden="true">⇄ </span>{exact(row.at, own)}: {row.mark}</td></tr>
            ) : (
              <tr key={i}><td>{exact(row.at, own)}</td>{!same && <td class="here">{exact(row.at)}</td>}<td>{row.at < Date.now() ? `due ${relative(row.at)}` : relative(row.at)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
      {around && change && !rows.some((row) => row.mark) && <p class="small-print">Clocks change on {day(change.at, own)}:{" "}
        <a href={around(day(change.at - 2 * 86_400_000, own).slice(4))}>see the times around it</a>.</p>}
    </>
  );
}
