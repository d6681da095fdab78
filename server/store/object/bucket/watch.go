package bucket

import (
	"net/http"
	"time"

	"github.com/carillonhq/carillon/server/store/serverclock"
)

// Watch sees the HTTP requests to a bucket: it notes the dates of the answers, by which the store has its
// clock, and counts the requests, which cost money.
type Watch struct {
	Clock *serverclock.Clock
}

// datePrecision is that of the header Date: whole seconds, which some servers set once a second.
const datePrecision = 2 * time.Second

// Do passes a request on, and notes what it sees.
func (w *Watch) Do(q *http.Request,
	next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	asked := w.Clock.Own()
	answer, err := next(q)
	if err != nil {
		return nil, err
	}
	if date, failed := http.ParseTime(answer.Header.Get("Date")); failed == nil {
		w.Clock.Answer(q.URL.Host, asked, w.Clock.Own(), date, datePrecision)
	}
	return answer, nil
}

// connections is how many idle connections are kept: a process asks for so much at the same time.
const connections = 64

// Transport is a transport for the requests to a bucket; the watch may be nil.
func (w *Watch) Transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	if w == nil {
		return t
	}
	return watched{t, w}
}

// watched is a transport whose requests are seen.
type watched struct {
	http.RoundTripper
	by *Watch
}

func (w watched) RoundTrip(q *http.Request) (*http.Response, error) {
	return w.by.Do(q, w.RoundTripper.RoundTrip)
}
