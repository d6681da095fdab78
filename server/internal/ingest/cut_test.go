package ingest_test

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/server/internal/ingest"
	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// theNetworkIsCut between a source and its broker while commands run: broken, one way and the other, silent. Each
// command is done once, and none is refused.
func theNetworkIsCut(t *testing.T, k *kind) {
	to := k.topic(t, "cut")
	l := k.linked
	if l == nil {
		l = realserver.Link(t, k.settings.Addresses[0])
	}
	behind := *k
	behind.settings.Addresses = []string{l.Address()}
	n := start(t)
	x := behind.take(t, n.to, "cut")
	t.Cleanup(l.Heal) // before the ingest ends, which it does over the link
	sent := 0
	send := func() {
		for range 20 {
			sent++
			k.send(t, event(to, fmt.Sprint(sent), ingest.JobCreate, fmt.Sprint("j", sent), later))
		}
	}
	allDone := func() {
		t.Helper()
		realserver.Eventually(t, func() error {
			if got := x.get(ingest.Done); got != sent {
				return fmt.Errorf("%d of %d are done, %d repeated", got, sent, x.get(ingest.Repeated))
			}
			return nil
		})
	}
	send()
	allDone()
	for _, cut := range []func(){
		func() { l.Cut(link.Broken) }, func() { l.CutWay(link.There, link.Broken) },
		func() { l.CutWay(link.Back, link.Broken) }, func() { l.CutWay(link.There, link.Silent) },
		func() { l.CutWay(link.Back, link.Silent) }, func() { l.Cut(link.Silent) },
	} {
		send()
		cut() // while some of them are under way
		send()
		l.Heal()
		allDone()
	}
	if x.get(ingest.Dead) != 0 {
		t.Errorf("%d dead letters", x.get(ingest.Dead))
	}
}
