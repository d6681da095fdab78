package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Trace is all that happened, a line for each thing, in the order of time and then of the lines: what happens
// at one instant happens in no order.
func Trace(h *checker.History) []string {
	var lines []string
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%020d ", at.Sub(h.Start))+fmt.Sprintf(format, args...))
	}
	since := func(at time.Time) time.Duration { return at.Sub(h.Start) }
	for i := range h.Ops {
		o := &h.Ops[i]
		a := o.Answer
		a.NextRun = a.NextRun.UTC()
		add(o.Invoke, "op %s %s %s/%s %v %v return %v %s %q answer %+v", o.Client, o.Kind, o.Namespace, o.Job,
			o.Limits, o.Rates, since(o.Return),
			o.Outcome, o.Error, a)
	}
	for i := range h.Attempts {
		a := &h.Attempts[i]
		add(a.At, "attempt %s %s/%s %s %v due %v number %d token %s payload %s worker %s", a.RunID,
			a.Namespace, a.Job, a.Cause, since(a.Scheduled), since(a.Due), a.Number, a.Token, a.Payload, a.Worker)
	}
	for i := range h.Results {
		r := &h.Results[i]
		add(r.Sent, "result %s %s %d %s after %v to %v told %v %s", r.RunID, r.Token, r.Number, r.Kind,
			r.After, since(r.To), since(r.Told), r.Verdict)
	}
	for _, b := range h.Heartbeats {
		add(b.At, "beat %s %s %v", b.RunID, b.Token, b.Stale)
	}
	for _, f := range h.Faults {
		add(f.From, "fault %s %v to %v", f.Kind, f.Targets, since(f.To))
	}
	for _, c := range h.Claims {
		add(c.Invoke, "claim %d epoch %d nonce %d node %s", c.Partition, c.Epoch, c.Nonce, c.Node)
	}
	for _, r := range h.Releases {
		add(r.At, "release %d epoch %d node %s", r.Partition, r.Epoch, r.Node)
	}
	for i := range h.Writes {
		w := &h.Writes[i]
		add(w.At, "write %d epoch %d node %s run %s %s→%s %d %s %v", w.Partition, w.Epoch, w.Node,
			w.RunID, w.From, w.To, w.Attempt, w.Reason, w.Refused)
	}
	for i := range h.Final.Jobs {
		j, unfinished := h.Final.Jobs[i], "unknown"
		if j.Unfinished != nil { // its address says nothing
			unfinished, j.Unfinished = strconv.FormatUint(*j.Unfinished, 10), nil
		}
		add(h.End, "job %+v unfinished %s", j, unfinished)
	}
	for i := range h.Final.Runs {
		add(h.End, "run %+v", h.Final.Runs[i])
	}
	for _, l := range h.Final.Left {
		add(h.End, "left %s", l)
	}
	sort.Strings(lines)
	return lines
}

// Hash is that of the trace.
func Hash(h *checker.History) string {
	sum := sha256.New()
	for _, line := range Trace(h) {
		_, _ = io.WriteString(sum, line+"\n") // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
