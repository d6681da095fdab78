package deliveries

import (
	"slices"
	"sync"
	"time"
)

// Ledger is what receivers wrote down.
type Ledger struct {
	Seen   []Delivery
	Losses []Loss `json:",omitempty"`
	Stops  []Stop `json:",omitempty"`
}

// Delivery is one request, or one message of a stream, as its receiver read it, and what it answered.
type Delivery struct {
	Run       string
	Job       string
	Life      string // uid of the job
	Cause     string // schedule, trigger, backfill
	Scheduled time.Time
	Attempt   int
	Token     string
	Receiver  string
	Node      string `json:",omitempty"` // that handed it out; "" if there is one only
	Stream    bool   `json:",omitempty"` // it came on a worker's stream
	Conn      string `json:",omitempty"` // the other end of the connection of a request
	Lease     time.Duration
	Timeout   time.Duration
	Started   time.Time `json:",omitzero"` // when the system says that it was handed out
	At        time.Time // when it was read
	Word
	More []Word `json:",omitempty"` // what its receiver answered after that, with the same token
}

// Word is an answer of a receiver, and what the system said to that answer.
type Word struct {
	Answer   Answer    `json:",omitempty"`
	Answered time.Time `json:",omitzero"` // just before the answer left
	Reply    Reply     `json:",omitempty"`
	Replied  time.Time `json:",omitzero"`
}

// words are the answers to a delivery, in the order in which they were given.
func (d *Delivery) words() []Word {
	if d.Answer == NoAnswer {
		return nil
	}
	return append([]Word{d.Word}, d.More...)
}

// answers reports whether one of the answers is a.
func (d *Delivery) answers(a Answer) bool {
	return slices.ContainsFunc(d.words(), func(w Word) bool { return w.Answer == a })
}

// Answer is what a receiver said to a delivery.
type Answer string

// The answers of receivers.
const (
	NoAnswer Answer = ""        // none: it hung, crashed, or cut the connection
	Success  Answer = "success" // 2xx
	Failure  Answer = "failure" // any other status, or a failure that may be tried again
)

// Reply is what the system said to an answer on a stream.
type Reply string

// The replies of the system.
const (
	NoReply Reply = ""
	Acked   Reply = "acked" // it is durable
	Stale   Reply = "stale" // it changed nothing
)

// Loss is an event in which something on its way to receivers, or back, may have been lost: a connection that
// was closed without reading it, a listener that was away, a worker that crashed.
type Loss struct {
	Receiver string // "" = any
	Stream   bool   `json:",omitempty"`
	From, To time.Time
}

// Stop is a stretch in which the process of a receiver was halted.
type Stop struct {
	Receiver string
	From, To time.Time
}

// Book collects a ledger from many goroutines.
type Book struct {
	mu sync.Mutex
	l  Ledger
}

// Saw notes a delivery and returns its place. A zero At is now.
func (b *Book) Saw(d Delivery) int {
	if d.At.IsZero() {
		d.At = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.l.Seen = append(b.l.Seen, d)
	return len(b.l.Seen) - 1
}

// Answered notes what is about to be said to the delivery at a place, and returns which of its answers that
// is.
func (b *Book) Answered(at int, a Answer, when time.Time) (word int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &b.l.Seen[at]
	if d.Answer == NoAnswer {
		d.Answer, d.Answered = a, when
		return 0
	}
	d.More = append(d.More, Word{Answer: a, Answered: when})
	return len(d.More)
}

// Replied notes what the system said to an answer. An acknowledgement replaces a refusal: that may have been
// of a heartbeat.
func (b *Book) Replied(at, word int, r Reply, when time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &b.l.Seen[at].Word
	if word > 0 {
		w = &b.l.Seen[at].More[word-1]
	}
	if w.Reply == NoReply || (w.Reply == Stale && r == Acked) {
		w.Reply, w.Replied = r, when
	}
}

// Lost notes that something may have been lost.
func (b *Book) Lost(l Loss) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.l.Losses = append(b.l.Losses, l)
}

// Stopped notes that a receiver was halted.
func (b *Book) Stopped(s Stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.l.Stops = append(b.l.Stops, s)
}

// Ledger is a copy of what has been written down so far.
func (b *Book) Ledger() Ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := slices.Clone(b.l.Seen)
	for i := range seen {
		seen[i].More = slices.Clone(seen[i].More)
	}
	return Ledger{Seen: seen, Losses: slices.Clone(b.l.Losses),
		Stops: slices.Clone(b.l.Stops)}
}
