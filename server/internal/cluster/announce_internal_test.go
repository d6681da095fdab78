package cluster

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// TestAnnouncerSendsInOneGoroutine: what changes while it sends is sent together afterwards, and nothing is
// sent after its end.
func TestAnnouncerSendsInOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent [][]string
		a := newAnnouncer(func(names []string) {
			<-time.After(time.Second)
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, names)
		})
		a.announce("first")
		synctest.Wait()
		for i := range 3 {
			a.announce(fmt.Sprint(i))
		}
		a.announce("0")
		<-time.After(3 * time.Second)
		a.end()
		a.announce("late")
		synctest.Wait()
		if want := [][]string{{"first"}, {"0", "1", "2"}}; !slices.EqualFunc(sent, want, slices.Equal) {
			t.Errorf("sent %v, want %v", sent, want)
		}
	})
}

// TestAnnouncerWelcomes: a new process hears of recent changes, and of no others.
func TestAnnouncerWelcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		a := newAnnouncer(func([]string) { sent++ })
		defer a.end()
		one, two := []store.Member{{ID: "a", Nonce: 1}}, []store.Member{{ID: "a", Nonce: 2}}
		a.announce("ns")
		for _, step := range []struct {
			before, after []store.Member
			wait          time.Duration
			sent          int
		}{{one, one, 0, 1}, {one, two, announceFor, 2}, {one, two, 1, 2}} {
			synctest.Wait()
			<-time.After(step.wait)
			a.welcome(step.before, step.after)
			synctest.Wait()
			if sent != step.sent {
				t.Errorf("after %v: sent %d times, want %d", step.wait, sent, step.sent)
			}
		}
	})
}
