package golden

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/embedded"
	"github.com/carillonhq/carillon/worker"
)

// Due are the runs that every golden store has left for somebody to take, by job: the number may be greater,
// by what has come due since.
func Due() map[string]int {
	return map[string]int{"default/due": 1, "default/mortal": 1, "default/cron": 1, "default/interval": 3,
		"billing/ledger": 1}
}

// DueOf is [Due] of the store of a format as it is in the repository.
func DueOf(format int) map[string]int {
	due := Due()
	if format >= 5 {
		due[apart] = 1
	}
	return due
}

// apart is the job whose payload is in the folder of payloads, and of what size it is.
const (
	apart      = "default/apart"
	apartBytes = 200_000
)

// payloads returns the folder of payloads beside a golden store; nil if it has none.
func payloads(url string) *embedded.Payloads {
	folder := filepath.Join(filepath.Dir(strings.TrimPrefix(url, "pebble:")), "payloads")
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	return &embedded.Payloads{Store: "file:" + folder}
}

// Serve starts a node on a store that was a golden one, waits until workers have run so many runs of each
// job, and asks f about it.
func Serve(ctx context.Context, url string, want map[string]int,
	f func(s *embedded.Scheduler) error) (err error) {
	s, err := embedded.Open(ctx, url, embedded.Options{Payloads: payloads(url),
		Encryption: embedded.Encryption{Keys: Keys(url)}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	t := &taken{left: want, all: make(chan struct{})}
	working, leave := context.WithCancel(ctx)
	left := make(chan error, 2)
	for namespace, queue := range map[string]string{"default": "golden", "billing": "ledger"} {
		w := worker.New(s, worker.Options{Namespace: namespace})
		worker.Handle(w, queue, func(_ context.Context, run carillon.Run, data []byte) error {
			job := run.Namespace + "/" + run.Job
			if job == apart && len(data) != apartBytes {
				return fmt.Errorf("its payload has %d bytes, want %d", len(data), apartBytes)
			}
			t.take(job)
			return nil
		})
		go func() { left <- w.Run(working) }()
	}
	select {
	case <-t.all:
	case <-ctx.Done():
		err = fmt.Errorf("%w: not all runs came, there lack %v", ctx.Err(), t.lacking())
	}
	leave()
	err = errors.Join(err, <-left, <-left)
	if err == nil {
		err = f(s)
	}
	return err
}

// taken counts runs.
type taken struct {
	mu   sync.Mutex
	left map[string]int
	all  chan struct{}
}

func (t *taken) take(job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, waited := t.left[job]
	if !waited {
		return
	}
	if t.left[job] = n - 1; n > 1 {
		return
	}
	if delete(t.left, job); len(t.left) == 0 {
		close(t.all)
	}
}

func (t *taken) lacking() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left
}
