package codec

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// AppendState appends the encoded state to b.
func AppendState(b []byte, s *store.State) []byte {
	c := coder{b: b, writing: true}
	c.state(s)
	return c.b
}

// DecodeState decodes what AppendState wrote. Nothing aliases b.
func DecodeState(b []byte) (store.State, error) {
	var s store.State
	c := coder{b: b}
	if c.state(&s); c.err != nil {
		return store.State{}, damaged("state", c.err)
	}
	return s, nil
}

// StatePhase returns the phase of an encoded state without decoding the rest.
func StatePhase(b []byte) (carillon.Phase, error) {
	var phase carillon.Phase
	c := coder{b: b}
	for at := message(0); c.within(&at); {
		unsigned(&c, statePhase, &phase)
	}
	if c.err != nil {
		return 0, damaged("state", c.err)
	}
	return phase, nil
}

// statePhase is the number of State.phase.
const statePhase = 5

func (c *coder) state(s *store.State) {
	for at := message(0); c.within(&at); {
		c.uid(1, &s.UID)
		unsigned(c, 2, &s.Generation)
		c.nanos(3, &s.Created)
		c.nanos(4, &s.Updated)
		unsigned(c, statePhase, &s.Phase)
		unsigned(c, 6, &s.Priority)
		c.nanos(7, &s.Due)
		c.string(8, &s.Queue)
		c.nanos(9, &s.Anchor)
		c.nanos(10, &s.Expires)
		c.nanos(11, &s.Next)
		unsigned(c, 12, &s.Begun)
		unsigned(c, 13, &s.Triggers)
		c.runState(14, &s.Run)
		c.lastRun(15, &s.Last)
		c.counters(16, &s.Counters)
		unsigned(c, 17, &s.Kept)
		c.bool(18, &s.Paused)
		signed(c, 19, &s.Jitter)
		unsigned(c, 20, &s.Pending)
		unsigned(c, 21, &s.Backfills)
		c.waits(22, &s.Waits)
		c.bool(23, &s.OwnSpec)
		unsigned(c, 24, &s.Settled)
		c.string(25, &s.Trace)
		signed(c, 26, &s.Payload)
	}
}

func (c *coder) runState(field int, s *store.RunState) {
	for at := message(field); c.within(&at); {
		c.bool(1, &s.Live)
		c.nanos(2, &s.Scheduled)
		c.nanos(3, &s.Due)
		unsigned(c, 4, &s.Cause)
		unsigned(c, 5, &s.Seq)
		signed(c, 6, &s.Attempt)
		c.grant(7, &s.Grant)
		c.nanos(8, &s.Lease)
		c.nanos(9, &s.Deadline)
		c.nanos(10, &s.Started)
		c.attemptErrors(11, &s.Errors)
		signed(c, 12, &s.Uncounted)
		c.bool(13, &s.Limited)
		c.float(14, &s.Percent)
		openMessage(c, 15, &s.Message)
		c.nanos(16, &s.ReportedAt)
		c.bool(17, &s.Kept)
		c.grant(18, &s.Doubt)
		signed(c, 19, &s.InDoubt)
		sealedMessage(c, 20, &s.Message)
	}
}

func (c *coder) grant(field int, g *store.Grant) {
	for at := message(field); c.within(&at); {
		unsigned(c, 1, &g.Term.Epoch)
		c.nonce(2, &g.Term.Nonce)
		unsigned(c, 3, &g.Generation)
	}
}

func (c *coder) lastRun(field int, l *store.LastRun) {
	for at := message(field); c.within(&at); {
		c.nanos(1, &l.Scheduled)
		c.nanos(2, &l.Finished)
		unsigned(c, 3, &l.Cause)
		unsigned(c, 4, &l.Seq)
		signed(c, 5, &l.Attempt)
		unsigned(c, 6, &l.Status)
		unsigned(c, 7, &l.Failures)
	}
}

func (c *coder) counters(field int, k *carillon.Counters) {
	for at := message(field); c.within(&at); {
		for i, n := range [...]*uint64{&k.Fired, &k.Succeeded, &k.Failed, &k.Retried, &k.Dead, &k.Skipped, &k.Late,
			&k.Dropped, &k.Cancelled} {
			unsigned(c, i+1, n)
		}
	}
}

func (c *coder) waits(field int, list *[]store.Wait) {
	for v := range each(c, field, list) {
		for at := item(field); c.within(&at); {
			c.string(1, &v.Name)
			c.identity(2, &v.By)
			c.bool(3, &v.Open)
			unsigned(c, 4, &v.Told)
			c.nanos(5, &v.Since)
			unsigned(c, 6, &v.ToldEpoch)
		}
	}
}
