package chaos

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/checker"
	"github.com/carillonhq/carillon/internal/deliveries"
)

// witness writes down what a worker without the SDK sees and says.
type witness interface {
	attempt(a checker.Attempt)
	sent(r checker.Result) (place int) // before it leaves
	told(place int, token string, v checker.ResultVerdict)
	beat(b checker.Beat)
	away() (back func()) // cut off, until back is called
}

// notes is a witness of this process: it writes for both judges.
type notes struct {
	name   string
	record *checker.Recorder
	book   *deliveries.Book

	mu     sync.Mutex
	places map[string]int // of deliveries in the book, by token: the last one
}

var _ witness = (*notes)(nil)

func newNotes(name string, record *checker.Recorder, book *deliveries.Book) *notes {
	return &notes{name: name, record: record, book: book, places: map[string]int{}}
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
	if place, mine := n.place(r.Token); mine {
		at := r.Sent
		if at.IsZero() {
			at = time.Now()
		}
		n.book.Answered(place, answerOfKind(r.Kind), at)
	}
	return n.record.Sent(r)
}

func (n *notes) told(place int, token string, v checker.ResultVerdict) {
	n.record.Told(place, v)
	if place, mine := n.place(token); mine {
		n.book.Replied(place, deliveries.Reply(v), time.Now())
	}
}

func (n *notes) beat(b checker.Beat) { n.record.Beat(b) }

func (n *notes) away() func() {
	healed := n.record.Break(checker.Fault{Kind: "worker cut off", Targets: []string{n.name}})
	from := time.Now()
	return func() {
		healed()
		n.book.Lost(deliveries.Loss{Receiver: n.name, Stream: true, From: from, To: time.Now()})
	}
}
