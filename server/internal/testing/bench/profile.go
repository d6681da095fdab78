package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/carillonhq/carillon/server/internal/profiling"
)

// profile takes profiles of a node while it is measured, and of the load generator if that is a process of
// its own:
//
//	BENCH.cpu.pb.gz             the node's CPU, over what is measured
//	BENCH.allocs-before.pb.gz   what it had allocated before: go tool pprof -base
//	BENCH.allocs.pb.gz          what it has allocated since it started
//	BENCH.heap.pb.gz            what is alive at the end
//	BENCH.generator.pb.gz       the load generator's CPU
type profile struct {
	path string // without the ending
	url  string
	http http.Client // without a time limit: a profile takes as long as what it covers
	over context.Context
	quit context.CancelFunc
	cpu  chan error // the node's CPU profile is written
	own  *os.File   // the load generator's; nil = there is none
}

// startProfile begins; the CPU profile covers what happens after it has returned.
func startProfile(ctx context.Context, dir, name string, node *Node) (*profile, error) {
	if node.Debug == "" {
		return nil, errors.New("profiles: the node serves none; give its --debug-listen")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // profiles are for everyone to read
		return nil, err
	}
	p := &profile{path: filepath.Join(dir, name), url: "http://" + node.Debug + profiling.Path,
		cpu: make(chan error, 1)}
	p.over, p.quit = context.WithCancel(ctx)
	err := p.save("allocs", "allocs-before")
	if err == nil {
		err = p.startCPU()
	}
	if err == nil && !node.here() {
		err = p.startOwn()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// startCPU returns when the node's CPU profile has begun: that is when it sends its header.
func (p *profile) startCPU() error {
	body, err := p.ask(http.MethodGet, "profile?seconds=3600")
	if err != nil {
		return err
	}
	go func() { p.cpu <- p.write("cpu", body) }()
	return nil
}

func (p *profile) startOwn() error {
	f, err := os.Create(p.path + ".generator.pb.gz")
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	p.own = f
	return nil
}

// stopOwn may be called again.
func (p *profile) stopOwn() error {
	if p.own == nil {
		return nil
	}
	pprof.StopCPUProfile()
	err := p.own.Close()
	p.own = nil
	return err
}

// finish ends the CPU profiles and takes the others.
func (p *profile) finish() error {
	if p == nil {
		return nil
	}
	err := p.stopOwn()
	body, ended := p.ask(http.MethodDelete, "profile")
	if ended != nil {
		return errors.Join(err, ended)
	}
	return errors.Join(err, body.Close(), <-p.cpu, p.save("allocs", "allocs"), p.save("heap?gc=1", "heap"))
}

// close gives up what has not been finished.
func (p *profile) close() {
	if p == nil {
		return
	}
	_ = p.stopOwn() // nobody will read it
	p.quit()
}

// save takes a profile as it is now.
func (p *profile) save(what, ending string) error {
	body, err := p.ask(http.MethodGet, what)
	if err != nil {
		return err
	}
	return p.write(ending, body)
}

// ask asks the node; the answer's body must be closed.
func (p *profile) ask(method, what string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(p.over, method, p.url+what, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := p.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("profiles: %w", err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // the status says enough
		return nil, errors.Join(fmt.Errorf("profiles: %s: %s: %s", what, res.Status, why), res.Body.Close())
	}
	return res.Body, nil
}

// write puts an answer into a file.
func (p *profile) write(ending string, body io.ReadCloser) error {
	f, err := os.Create(p.path + "." + ending + ".pb.gz")
	if err != nil {
		return errors.Join(err, body.Close())
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, body.Close(), f.Close())
}
