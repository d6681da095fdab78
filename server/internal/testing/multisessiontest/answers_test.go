package multisessiontest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// faultyWorker is a worker, by hand, and what befalls the nodes that it is served by.
type faultyWorker struct {
	*rig
	session carillon.Session
	chance  *rand.Rand
	runs    int // put so far
	deaths  int
	over    chan struct{} // closed when the session is: all nodes were lost

	lock    sync.Mutex
	came    []carillon.Run
	doing   map[string]bool     // by token: neither reported nor stale
	said    map[string]int      // by token: how often the result was
	answers map[string][]string // by token: "ack" and "stale"
}

// TestAnswersMatchOutcomes: whatever befalls the nodes, a worker hears what has become of each of its
// results: of one that was accepted once, unless it is said again, and nothing else before.
func TestAnswersMatchOutcomes(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRig(t, "a", "b", "c")
				w.waiting++ // it is not over when all is done
				s := &faultyWorker{rig: w, session: open(t, w, 12), chance: rand.New(rand.NewPCG(seed, 11)),
					over:  make(chan struct{}),
					doing: map[string]bool{}, said: map[string]int{}, answers: map[string][]string{}}
				go s.receive()
				for range 60 {
					<-time.After(time.Duration(s.chance.IntN(600)) * time.Millisecond)
					if s.ended() {
						break
					}
					s.act()
				}
				for _, d := range w.living() {
					d.isolated.Store(false)
				}
				<-time.After(deadConnection + 15*time.Second)
				if !s.ended() {
					s.judge()
				}
				shut(t, s.session)
				<-s.over
			})
		})
	}
}

// deadConnection is when a connection to a dead machine is deadConnection to lead nowhere.
const deadConnection = 30 * time.Second

func (s *faultyWorker) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (s *faultyWorker) receive() {
	defer close(s.over)
	for {
		r, err := s.session.Receive(s.t.Context())
		if err != nil {
			return
		}
		s.lock.Lock()
		for i := range r.Runs {
			s.came = append(s.came, r.Runs[i])
			s.doing[r.Runs[i].Token] = true
		}
		for _, token := range r.Acks {
			s.answers[token] = append(s.answers[token], "ack")
		}
		for _, token := range r.Stale {
			s.answers[token] = append(s.answers[token], "stale")
			delete(s.doing, token)
		}
		s.lock.Unlock()
	}
}

// act lets something happen to a node, or the worker say something.
func (s *faultyWorker) act() {
	living := s.living()
	d := living[s.chance.IntN(len(living))]
	switch s.chance.IntN(16) {
	case 0, 1:
		d.isolated.Store(true)
	case 2, 3:
		d.isolated.Store(false)
	case 4, 5:
		s.put(d.address, s.runs, s.runs+2)
		s.runs += 2
	case 6, 7, 8:
		s.tell(carillon.WorkRequest{Heartbeats: beats(s.pick(1, s.isDoing))})
	case 9:
		rs := results(s.pick(1, s.isDoing))
		for i := range rs {
			rs[i].Outcome = carillon.OutcomeProgress
		}
		s.tell(carillon.WorkRequest{Results: rs})
	case 10, 11, 12:
		s.report(s.pick(2, s.isDoing))
	case 13:
		s.report(s.pick(1, func(token string) bool { return s.said[token] > 0 && len(s.answers[token]) == 0 }))
	case 14:
		if err := d.hub.Drain(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	case 15:
		if s.deaths++; s.deaths <= 3 {
			time.AfterFunc(deadConnection, func() { d.isolated.Store(false) })
			s.kill(d.address)
			s.start(d.address)
		}
	}
}

func (s *faultyWorker) isDoing(token string) bool { return s.doing[token] }

// pick is one of so many runs of those that are wanted.
func (s *faultyWorker) pick(of int, wanted func(token string) bool) []carillon.Run {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(s.came),
		func(r carillon.Run) bool { return !wanted(r.Token) || s.chance.IntN(of) > 0 })
}

// report says that attempts have ended.
func (s *faultyWorker) report(runs []carillon.Run) {
	s.lock.Lock()
	free := 0
	for i := range runs {
		if s.said[runs[i].Token]++; s.said[runs[i].Token] == 1 {
			free++
		}
		delete(s.doing, runs[i].Token)
	}
	s.lock.Unlock()
	s.tell(carillon.WorkRequest{Results: results(runs), Credits: []carillon.Credit{{Queue: "q", N: free}}})
}

// tell says something, unless the session is over.
func (s *faultyWorker) tell(req carillon.WorkRequest) {
	if err := s.session.Send(s.t.Context(), req); err != nil {
		synctest.Wait()
		if !s.ended() {
			s.t.Error(err)
		}
	}
}

// judge looks at the answers to all results.
func (s *faultyWorker) judge() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.rig.mu.Lock()
	defer s.rig.mu.Unlock()
	for i := range s.came {
		token := s.came[i].Token
		got, want := s.answers[token], "stale"
		if s.accepted[token] {
			want = "ack"
		}
		if n := s.said[token]; n > 0 && (len(got) == 0 || got[0] != want) || n == 1 &&
			want == "ack" && len(got) > 1 {
			s.t.Errorf("the answers to the result of %s are %q; it is %s", token, got, want)
		}
	}
}
