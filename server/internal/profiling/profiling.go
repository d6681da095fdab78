// Package profiling serves profiles of the running program over HTTP: the paths and parameters of
// net/http/pprof, which `go tool pprof` knows, but nothing is registered on a mux that others share.
package profiling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

// Path is under which everything is served.
const Path = "/debug/pprof/"

// Limits and rates.
const (
	defaultCPU   = 30 * time.Second
	defaultTrace = time.Second
	longest      = time.Hour

	mutexFraction = 100    // one contention in so many is sampled
	blockRate     = 10_000 // ns blocked for each sample, on average
)

// Handler serves profiles:
//
//	GET    profile?seconds=30   CPU; less if it is ended before
//	DELETE profile              ends the one that is under way, which is then answered with what it has
//	GET    trace?seconds=1      execution trace
//	GET    mutex?seconds=30     contention of locks, sampled from the first such request for as long as one is under way
//	GET    block?seconds=30     where goroutines wait, sampled likewise
//	GET    heap, allocs, goroutine, threadcreate   as they are now; ?gc=1 collects garbage before, ?debug=1 is text
//
// Whatever takes its time ends early, with what it has, when the request's context does.
func Handler() http.Handler {
	p := &profiles{
		mutex: counted{rate: mutexFraction, set: func(rate int) { runtime.SetMutexProfileFraction(rate) }},
		block: counted{rate: blockRate, set: runtime.SetBlockProfileRate},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{$}", index)
	mux.HandleFunc("GET "+Path+"profile", timed(p.cpu).lasting(defaultCPU))
	mux.HandleFunc("DELETE "+Path+"profile", p.endCPU)
	mux.HandleFunc("GET "+Path+"trace", timed(traced).lasting(defaultTrace))
	mux.HandleFunc("GET "+Path+"mutex", sampled("mutex", &p.mutex).lasting(defaultCPU))
	mux.HandleFunc("GET "+Path+"block", sampled("block", &p.block).lasting(defaultCPU))
	mux.HandleFunc("GET "+Path+"{name}", snapshot)
	return mux
}

// profiles is what is under way.
type profiles struct {
	mu  sync.Mutex
	end context.CancelFunc // ends the CPU profile; nil = there is none

	mutex, block counted
}

// counted is switched on while anybody wants it.
type counted struct {
	rate  int
	set   func(rate int) // 0 switches it off
	mu    sync.Mutex
	wants int
}

func (c *counted) want(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wants += n; c.wants > 0 {
		c.set(c.rate)
	} else {
		c.set(0)
	}
}

// index names what there is.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "profile?seconds=30\ntrace?seconds=1")
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, "%s (%d)\n", p.Name(), p.Count())
	}
}

// cpu answers with a CPU profile. Its header goes out when the profile has begun, so that a caller knows what
// it covers.
func (p *profiles) cpu(w http.ResponseWriter, r *http.Request, d time.Duration) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	var profile bytes.Buffer // it is written when it ends
	if err := p.startCPU(&profile, cancel); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	attach(w, "profile")
	_ = http.NewResponseController(w).Flush() // a caller that has gone ends ctx
	<-ctx.Done()
	p.stopCPU()
	_, _ = profile.WriteTo(w) // the same
}

func (p *profiles) startCPU(w io.Writer, end context.CancelFunc) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		return errors.New("a CPU profile is under way")
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	p.end = end
	return nil
}

func (p *profiles) stopCPU() {
	p.mu.Lock()
	defer p.mu.Unlock()
	pprof.StopCPUProfile()
	p.end = nil
}

func (p *profiles) endCPU(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		http.Error(w, "no CPU profile is under way", http.StatusNotFound)
		return
	}
	p.end()
	w.WriteHeader(http.StatusNoContent)
}

// traced answers with an execution trace as it grows: a trace is large.
func traced(w http.ResponseWriter, r *http.Request, d time.Duration) {
	attach(w, "trace")
	if err := trace.Start(w); err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	wait(r.Context(), d)
	trace.Stop()
}

// sampled answers with a profile that is recorded only while somebody wants it.
func sampled(name string, c *counted) timed {
	return func(w http.ResponseWriter, r *http.Request, d time.Duration) {
		c.want(1)
		wait(r.Context(), d)
		c.want(-1)
		write(w, r, pprof.Lookup(name))
	}
}

// snapshot answers with a profile as it is now.
func snapshot(w http.ResponseWriter, r *http.Request) {
	profile := pprof.Lookup(r.PathValue("name"))
	if profile == nil {
		http.NotFound(w, r)
		return
	}
	if r.FormValue("gc") == "1" {
		runtime.GC()
	}
	write(w, r, profile)
}

func write(w http.ResponseWriter, r *http.Request, profile *pprof.Profile) {
	debug, _ := strconv.Atoi(r.FormValue("debug")) // anything else is the binary form
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		attach(w, profile.Name())
	}
	_ = profile.WriteTo(w, debug) // only the connection can fail
}

// attach says that the answer is a file.
func attach(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// timed answers with what was recorded in some time.
type timed func(w http.ResponseWriter, r *http.Request, d time.Duration)

// lasting takes the time from the parameter seconds.
func (f timed) lasting(otherwise time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := duration(r, otherwise)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f(w, r, d)
	}
}

// duration is the parameter seconds.
func duration(r *http.Request, otherwise time.Duration) (time.Duration, error) {
	text := r.FormValue("seconds")
	if text == "" {
		return otherwise, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if d := time.Duration(seconds * float64(time.Second)); err == nil && d > 0 && d <= longest {
		return d, nil
	}
	return 0, fmt.Errorf("seconds: %q is not a number above 0 and up to %.0f", text, longest.Seconds())
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
