package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"
)

// A return is that of the attempt with the same headers, and of the first of several that are alike.
func TestReturnsAreOfTheirMessages(t *testing.T) {
	attempt := func(id, n string) sent {
		return sent{id: id, headers: amqp091.Table{"carillon-attempt": n}}
	}
	for name, test := range map[string]struct {
		abandons int
		back     []sent
		want     []bool
	}{
		"attempts": {1, []sent{attempt("a", "2"), attempt("a", "2"), attempt("a", "3"), attempt("c", "1")},
			[]bool{false, false, true, true}},
		"added": {1, []sent{{id: "a", headers: amqp091.Table{"carillon-attempt": "2", "x-routed-by": "n"}}},
			[]bool{false, false, true, false}},
		"changed":               {0, []sent{{id: "b"}}, []bool{false, true, false, false}},
		"changed, or abandoned": {1, []sent{{id: "b"}}, make([]bool, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			c := &channel{await: []sent{attempt("a", "1"), attempt("b", "1"), attempt("a", "2"), attempt("a", "2")}}
			c.returns, c.abandons = make(chan amqp091.Return, window), test.abandons
			for _, r := range test.back {
				c.returns <- amqp091.Return{MessageId: r.id, Headers: r.headers}
			}
			c.takeReturns()
			for i, want := range test.want {
				if got := c.await[i].returned != nil; got != want {
					t.Errorf("message %d is returned: %v, want %v", i, got, want)
				}
			}
		})
	}
}
