package delivery_test

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

func TestAQueueIsNamedByItsTarget(t *testing.T) {
	for _, c := range []struct {
		target carillon.Target
		want   delivery.Queue
	}{
		{carillon.WorkerQueue("mails"), delivery.Queue{Namespace: "n", Kind: "worker", Address: "mails"}},
		{carillon.Target{HTTP: &carillon.HTTPTarget{URL: "https://Example.COM:8443/run?x=1"}},
			delivery.Queue{Namespace: "n", Kind: "http", Address: "example.com:8443"}},
	} {
		if got := delivery.QueueOf("n", c.target); got != c.want {
			t.Errorf("the queue of %+v is %v, want %v", c.target, got, c.want)
		}
	}
}

func TestAQueueIsReadFromItsName(t *testing.T) {
	for _, q := range []delivery.Queue{
		{Namespace: "n", Kind: "worker", Address: "mails"},
		{Namespace: "n", Kind: "http", Address: "[::1]:80"},
		delivery.Line{Limit: delivery.Limit{Namespace: "n", Key: "k"},
			Queue: delivery.Queue{Namespace: "n", Kind: "worker", Address: "q"}}.Parked(),
	} {
		if got := delivery.ParseQueue(q.String()); got != q {
			t.Errorf("%q is read as %v, want %v", q.String(), got, q)
		}
	}
}

func TestQueuesAreInOrder(t *testing.T) {
	first, last := delivery.Queue{Namespace: "a", Kind: "z", Address: "z"}, delivery.Queue{Namespace: "b",
		Kind: "a", Address: "a"}
	if first.Compare(last) >= 0 || last.Compare(first) <= 0 {
		t.Errorf("%v is not before %v", first, last)
	}
}
