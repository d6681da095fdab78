package chaos

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

// witness writes down what a worker without the SDK sees and says.
type witness interface {
	attempt(a checker.Attempt)
	sent(r checker.Result) (place int) // before it leaves
	told(place int, token string, v checker.ResultVerdict)
	beat(b checker.Heartbeat)
	away() (back func()) // cut off, until back is called
}

// notes is a witness of this process: it writes for both judges.
type notes struct {
	name   string
	record *checker.Recorder
	book   *deliveries.Book

	mu     sync.Mutex
	places map[string]int // of deliveries in the book, by token: the last one
	words  map[int]spoken // by place in the record
}

// spoken is where an answer is in the book.
type spoken struct{ place, word int }

var _ witness = (*notes)(nil)

func newNotes(name string, record *checker.Recorder, book *deliveries.Book) *notes {
	return &notes{name: name, record: record, book: book, places: map[string]int{}, words: map[int]spoken{}}
}

func (n *notes) attempt(a checker.Attempt) {
	n.record.Attempt(a)
	place := n.book.Saw(streamed(&a))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.places[a.Token] = place
}

// place is that of the delivery that a token came with.
func (n *notes) place(token string) (int, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, ok := n.places[token]
	return place, ok
}

func (n *notes) sent(r checker.Result) int {
	at := r.Sent
	if at.IsZero() {
		at = time.Now()
	}
	said := n.record.Sent(r)
	if place, mine := n.place(r.Token); mine && answerOfKind(r.Kind) != deliveries.NoAnswer {
		word := n.book.Answered(place, answerOfKind(r.Kind), at)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.words[said] = spoken{place, word}
	}
	return said
}

func (n *notes) told(place int, _ string, v checker.ResultVerdict) {
	n.record.Told(place, v)
	n.mu.Lock()
	at, mine := n.words[place]
	n.mu.Unlock()
	if mine {
		n.book.Replied(at.place, at.word, deliveries.Reply(v), time.Now())
	}
}

func (n *notes) beat(b checker.Heartbeat) { n.record.Heartbeat(b) }

func (n *notes) away() func() {
	healed := n.record.Break(checker.Fault{Kind: "worker cut off", Targets: []string{n.name}})
	from := time.Now()
	return func() {
		healed()
		n.book.Lost(deliveries.Loss{Receiver: n.name, Stream: true, From: from, To: time.Now()})
	}
}
