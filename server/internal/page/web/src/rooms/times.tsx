// Times of a schedule, in its zone and in the reader's, with what the clocks do between them.
import { changeBetween, exact, known, local, offset, relative, span, useTick } from "../time";

interface Row { at: number; mark?: string }

// rowsOf are times with the changes of clocks of a zone between them.
export function rowsOf(times: string[], zone: string, from = Date.now()): Row[] {
  const rows: Row[] = [];
  let before = from;
  for (const text of times) {
    const at = Date.parse(text);
    for (let start = before, turn = 0; turn < 50; turn++) {
      const change = changeBetween(start, at, zone);
      if (!change) break;
      const gap = change.minutes > 0, size = span(Math.abs(change.minutes) * 60_000);
      rows.push({
        at: change.at,
        mark: `Clocks go ${gap ? "forward" : "back"} ${size}: ` +
          `${sign(offset(change.at - 1000, zone))} to ${sign(offset(change.at, zone))}; these ${size} ${gap ? "do not exist" : "come twice"} on that day`,
      });
      start = change.at;
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

export function NextTimes({ times, zone, from }: { times: string[]; zone: string; from?: number }) {
  useTick();
  const own = known(zone) ? zone : "UTC";
  const rows = rowsOf(times, own, from);
  const same = own === local;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Next times">
      <table class="simple times">
        <thead><tr><th scope="col">In {own}</th>{!same && <th scope="col">Where you are ({local})</th>}<th scope="col">From now</th></tr></thead>
        <tbody>
          {rows.map((row, i) => row.mark ? (
            <tr key={i} class="change"><td colSpan={same ? 2 : 3}><span aria-hidden="true">⇄ </span>{exact(row.at, own)}: {row.mark}</td></tr>
          ) : (
            <tr key={i}><td>{exact(row.at, own)}</td>{!same && <td>{exact(row.at)}</td>}<td>{relative(row.at)}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
