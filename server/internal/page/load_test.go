//go:build unix

package page_test

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
)

var loadFor = flag.Duration("page-load", 0, "measure the page under 1,000 events a second for so long in each room")

const loadJobs, loadBatch = 10_000, 100

// TestUnderLoad measures what 1,000 events a second cost a browser whose namespace has 10,000 jobs.
func TestUnderLoad(t *testing.T) {
	if *loadFor == 0 {
		t.Skip("no -page-load")
	}
	b := launch(t)
	n := start(t, server.Config{})
	note := func(first, round int) {
		var all []object
		for i := range loadBatch {
			all = append(all, object{"name": fmt.Sprintf("many/%05d", (first+i)%loadJobs), "schedule": "@every 24h", "target": toQueue("q"),
				"note": fmt.Sprint(round)})
		}
		n.must("POST", "/v1/namespaces/default/jobs:batch", object{"jobs": all})
	}
	for i := range loadJobs / loadBatch {
		note(i*loadBatch, 0)
	}
	events, round := n.count(), 0 // of all rooms: a put of what is there already is no event
	for _, room := range []struct {
		name, path string
		whole      bool // all rows are read first
	}{
		{"jobs, 10,000 rows read", "/jobs", true}, {"jobs, one page of 500 that follows", "/jobs?prefix=many%2F00", false},
		{"overview", "/", false},
	} {
		p := b.open(t, n.url, 1200, 900)
		p.visit(room.path)
		p.wait(`document.querySelector(".live.live")`)
		if room.whole {
			first := p.work()
			var stuck string
			p.must(p.eval(`new Promise((done) => { const end = performance.now() + 100_000; const step = () => {
  if (performance.now() > end) { done(document.querySelector("main").innerText.slice(0, 2000)); return; }
  if (document.querySelector(".filters .sum").textContent.startsWith("10\u202f000 ")) { scrollTo(0, 0); done(""); return; }
  scrollBy(0, 3000);
  requestAnimationFrame(step);
}; step(); })`, &stuck))
			if stuck != "" {
				t.Fatalf("%s: the rows are not read: %s", room.name, stuck)
			}
			t.Logf("%s: to read them %v", room.name, p.work().since(first))
		}
		before, calls, from, began := p.work(), p.asked(), events.Load(), time.Now()
		each := time.NewTicker(time.Second * loadBatch / 1000)
		for time.Since(began) < *loadFor {
			round++
			note(round*loadBatch, round)
			<-each.C
		}
		each.Stop()
		took := time.Since(began).Seconds()
		spent := p.work().since(before)
		asked := p.asked() - calls
		p.do("HeapProfiler.collectGarbage", object{}, nil)
		t.Logf("%s: %.0f events/s; %.0f %% of a processor, in %.0f s %v; %d calls; %.1f MB of heap, %.0f nodes", room.name,
			float64(events.Load()-from)/took, 100*spent.task/took, took, spent, asked, p.metric("JSHeapUsedSize")/1e6, p.metric("Nodes"))
		var hidden bool
		if p.must(p.eval(`document.hidden`, &hidden)); hidden || asked == 0 && !room.whole {
			t.Errorf("%s: nothing was measured", room.name)
		}
		p.do("Page.navigate", object{"url": "about:blank"}, nil)
	}
}

// asked is how many requests the page has made.
func (p *tab) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// count counts the events of the namespace until the test ends.
func (n *node) count() *atomic.Int64 {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.url+"/v1/namespaces/default/events:watch", http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	a, err := (&http.Client{}).Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	var seen atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(a.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: ") {
				seen.Add(1)
			}
		}
	}()
	n.t.Cleanup(func() {
		_ = a.Body.Close() // it has been read as far as is wanted
		<-done
	})
	return &seen
}
