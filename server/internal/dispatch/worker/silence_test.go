package worker

import (
	"testing"

	"github.com/carillonhq/carillon"
)

func TestSilenceEndsWithAWord(t *testing.T) {
	for name, c := range map[string]struct {
		direct bool
		word   carillon.WorkRequest
		counts bool
	}{
		"nothing but a message": {false, carillon.WorkRequest{}, true},
		"credits": {false, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}},
			true},
		"a heartbeat":        {true, carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: "x"}}}, true},
		"a result":           {true, carillon.WorkRequest{Results: []carillon.Result{{Token: "x"}}}, true},
		"a pong":             {true, carillon.WorkRequest{Pong: true}, true},
		"credits of a relay": {true, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}, false},
	} {
		for when, before := range map[string]bool{"before the lease ends": true, "afterwards": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				d := newFakeSink(Options{})
				s, err := d.hub.Connect(ctx, carillon.Hello{Queues: []string{"q"}, WorkerID: "w", Direct: c.direct})
				if err != nil {
					t.Fatal(err)
				}
				send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 3}}})
				d.deliver(t, 0, 1, 0)
				receive(t, s)
				if before {
					send(t, s, c.word)
				}
				d.unheard(0)
				if !before {
					if d.credits() != 0 {
						t.Fatalf("%d credits of a silent worker count", d.credits())
					}
					if msg := receive(t, s); !msg.Ping {
						t.Fatalf("it was not asked for a sign of life: %+v", msg)
					}
					send(t, s, c.word)
				}
				if got := d.credits() > 0; got != c.counts {
					t.Errorf("credits count: %v", got)
				}
			})
		}
	}
}

func TestAnAttemptThatNeverLeftCountsAsSilence(t *testing.T) {
	d := newFakeSink(Options{})
	s := d.connect(t, 3)
	d.deliver(t, 0, 1, 0)
	d.unheard(0)
	if d.credits() != 0 {
		t.Fatalf("%d credits of a worker that does not receive", d.credits())
	}
	if msg := receive(t, s); len(msg.Runs) != 0 || !msg.Ping {
		t.Errorf("it then received %+v", msg)
	}
}

func TestAnotherSessionsAttemptIsNoSilence(t *testing.T) {
	d := newFakeSink(Options{})
	quiet, other := d.connect(t, 1), d.connect(t, 1)
	d.deliver(t, 0, 2, 0)
	receive(t, quiet)
	receive(t, other)
	send(t, quiet, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 2}}})
	send(t, other, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 4}}})
	d.unheard(0)
	d.unheard(1)
	if d.credits() != 6 {
		t.Errorf("%d credits, want 6: both have spoken since", d.credits())
	}
}
