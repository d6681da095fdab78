package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
)

// Trace is a W3C trace context as it is stored: 16 bytes of the trace's id, 8 of the span's, the flags, and
// then the tracestate as text. The empty one is none.
type Trace string

// MaxTraceState bounds the bytes of a tracestate that is kept. Entries beyond it are left out, the oldest
// first.
const MaxTraceState = 512

// traceHead is the length of a trace context before its tracestate.
const traceHead = 16 + 8 + 1

// sampled is the flag that says that the span is recorded.
const sampled = 1

// NewTrace returns the trace context of a span.
func NewTrace(trace [16]byte, span [8]byte, flags byte, state string) Trace {
	for len(state) > MaxTraceState {
		state = state[:max(0, strings.LastIndexByte(state, ','))]
	}
	b := make([]byte, 0, traceHead+len(state))
	b = append(append(append(b, trace[:]...), span[:]...), flags)
	return Trace(append(b, state...))
}

// Valid reports whether t names a span: a damaged record may hold anything.
func (t Trace) Valid() bool {
	return len(t) >= traceHead && strings.Trim(string(t[:16]), "\x00") != "" &&
		strings.Trim(string(t[16:24]), "\x00") != ""
}

// Parent returns t as the header traceparent; empty if it names no span.
func (t Trace) Parent() string {
	if !t.Valid() {
		return ""
	}
	var text [55]byte
	b := append(text[:0], "00-"...)
	b = hex.AppendEncode(b, []byte(t[:16]))
	b = append(b, '-')
	b = hex.AppendEncode(b, []byte(t[16:24]))
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte(t[24:traceHead])))
}

// State returns the header tracestate; empty if there is none.
func (t Trace) State() string {
	if !t.Valid() {
		return ""
	}
	return string(t[traceHead:])
}

// IDs returns the ids of the trace and of the span. They are zero if t names no span.
func (t Trace) IDs() (trace [16]byte, span [8]byte) {
	if t.Valid() {
		copy(trace[:], t[:16])
		copy(span[:], t[16:24])
	}
	return trace, span
}

// Sampled reports whether the span is recorded.
func (t Trace) Sampled() bool { return t.Valid() && t[24]&sampled != 0 }

// Keys of the metadata of a run that consumers find the trace context in, as in the headers of a message.
const (
	TraceParentKey = "traceparent"
	TraceStateKey  = "tracestate"
)

// Into returns metadata with the trace context t. Metadata that has one already is its author's and stays as
// it is, as does the map itself: it may be shared.
func (t Trace) Into(metadata map[string]string) map[string]string {
	parent := t.Parent()
	if _, has := metadata[TraceParentKey]; has || parent == "" {
		return metadata
	}
	out := make(map[string]string, len(metadata)+2)
	maps.Copy(out, metadata)
	out[TraceParentKey] = parent
	delete(out, TraceStateKey) // it would belong to another context
	if s := t.State(); s != "" {
		out[TraceStateKey] = s
	}
	return out
}

// Attempt is what the trace context of an attempt follows from. Any node that hands the attempt out, or sees
// its end, comes to the same.
type Attempt struct {
	RunID  string
	Number int
	// Cause is the trace context of the call that the run goes back to: the put of its job, or the trigger.
	Cause Trace
	// Own means that the run has a trace of its own, which only links to Cause: its job is recurring, and may
	// run for years after the call.
	Own bool
}

// IDs returns the ids of the attempt's span, and of the trace of the run if that is its own. They are made
// from the run's id, so they need not be stored.
func (a *Attempt) IDs() (trace [16]byte, span [8]byte) {
	sum := sha256.Sum256([]byte(a.RunID))
	copy(trace[:], sum[:16])
	sum = sha256.Sum256(binary.AppendUvarint([]byte(a.RunID+"/"), uint64(a.Number)))
	copy(span[:], sum[:8])
	span[7] |= 1 // zero is not valid
	return trace, span
}

// PassedOn returns what the attempt's consumer gets where no span is made of the attempt: the context of the
// call, or one in the run's own trace. It is empty if the call had none.
func (a *Attempt) PassedOn() Trace {
	if !a.Own || !a.Cause.Valid() {
		return a.Cause
	}
	trace, span := a.IDs()
	return NewTrace(trace, span, a.Cause[24], "")
}

// Fresh returns a sampled context in the run's own trace.
func (a *Attempt) Fresh() Trace {
	trace, span := a.IDs()
	return NewTrace(trace, span, sampled, "")
}

// EndedAttempt describes an attempt that has ended, for its span.
type EndedAttempt struct {
	Attempt
	Job       carillon.Key
	Queue     Queue
	Trigger   carillon.Cause
	Scheduled time.Time // the time that the schedule gives
	Due       time.Time
	Started   time.Time // when it was handed out, as far as that is known
	Ended     time.Time
	Lateness  time.Duration // of its start
	Ending    Ending
	Message   string // of a failure
	Worker    string // who reported the end; empty: nobody did
}

// Ending is how an attempt ended.
type Ending uint8

// The endings of attempts. Attempts that are taken back because no consumer has had them have none.
const (
	AttemptSucceeded   Ending = iota
	AttemptFailed             // also by its timeout or the end of its lease
	AttemptRescheduled        // its consumer asked for another time
	AttemptCancelled          // by a caller, by the end of its job, or by a change of the job
)

// String returns the ending's name.
func (e Ending) String() string {
	return [...]string{"succeeded", "failed", "rescheduled", "cancelled"}[e]
}
