package pebble

import (
	"fmt"
	"time"
)

// probeBytes is how much must be writable, besides the size of the logs, before the store is opened for
// writing again.
const probeBytes = 1 << 20

// nextOrRetry returns the next request while the store cannot write; nil if it is time to try again. It must
// not wait for a request only: a node that is not ready gets none.
func (c *committer) nextOrRetry() (req *request, ok bool) {
	var retry <-chan time.Time // nil: never
	if after := c.s.opt.RetryAfter; after >= 0 {
		retry = time.After(after - time.Since(c.tried))
	}
	select {
	case req, ok = <-c.queue:
		return req, ok
	case <-retry:
		return nil, true
	}
}

// tend does what comes up without a request: it handles a failure, and tries again to write while the store
// cannot.
func (c *committer) tend() {
	if e := c.s.engines.now; e != nil && !e.readOnly {
		c.failed()
		return
	}
	_ = c.unwritable() // the reason is kept for later requests
}

// failed handles a failed write. It waits for what is under way, which ends as unknown, and opens Pebble
// again for reading only, which shows what reached the disk.
func (c *committer) failed() {
	if c.last != nil {
		<-c.last.done
	}
	s := c.s
	why := s.engines.now.failure()
	s.engines.replace(func() (*engine, error) {
		s.forget()
		return s.openReadOnly(), why
	})
	c.tried = time.Now()
	if failed := s.opt.Events.Failed; failed != nil {
		failed(why)
	}
}

// unwritable returns why the store cannot write. When it is time to, it first tries to write again.
func (c *committer) unwritable() error {
	s := c.s
	why := s.engines.reason()
	if why == nil || s.opt.RetryAfter < 0 || time.Since(c.tried) < s.opt.RetryAfter {
		return why
	}
	c.tried = time.Now()
	if err := s.folder.probe(probeBytes); err != nil {
		return fmt.Errorf("%w; tried again: %w", why, err)
	}
	s.engines.replace(func() (*engine, error) {
		s.forget() // what was read may have been in the system's memory only, and be gone
		// Who owns what is written again: claims that were acknowledged stay in force, and what was fenced
		// stays fenced.
		e, err := s.openForWriting(func(e *engine) error { return s.owners.save(e.db) })
		if err == nil {
			return e, nil
		}
		return s.openReadOnly(), folderError(s.folder.dir, err)
	})
	why = s.engines.reason()
	if recovered := s.opt.Events.Recovered; why == nil && recovered != nil {
		recovered()
	}
	return why
}

// openReadOnly opens Pebble for reading; nil if even that is impossible.
func (s *Store) openReadOnly() *engine {
	e, err := openEngine(s.folder, &s.opt, true)
	if err != nil {
		return nil
	}
	return e
}

// forget drops what was known of the partitions, since it may be based on what did not reach the disk.
func (s *Store) forget() {
	for _, p := range s.parts {
		p.marks.forget()
		p.flying.Store(nil)
		p.runs.known.Store(false)
		p.heads.forget()
		p.childless.Store(false)
		p.historyFilter.forget()
	}
}
