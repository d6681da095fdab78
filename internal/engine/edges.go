package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// heard is what another partition answered about a job that waits for one of this partition.
type heard struct {
	letter partition.Letter
	answer partition.Answer
	check  bool       // it was asked only whether the job still waits
	term   store.Term // of the question; an answer for an earlier term is ignored
}

// lettersAtOnce is how many successes one round tells.
const lettersAtOnce = 256

// correspond takes the answers of other partitions, and tells them of successes that have become durable.
func (p *owned) correspond(in []heard, now int64) {
	for _, h := range in {
		switch {
		case h.term != p.term:
		case !h.check:
			p.m.Answered(now, h.letter, h.answer)
		case h.answer == partition.Nobody:
			p.m.Forget(now, h.letter.Edge)
		}
	}
	letters := p.m.Letters(now, lettersAtOnce)
	for _, l := range letters {
		p.tell(l, false)
	}
	if len(letters) == lettersAtOnce {
		p.box.ring() // there may be more
	}
}

// askAfterEdges finds out, a few at a time, which edges have lost the job that waits.
func (p *owned) askAfterEdges(now int64) {
	for _, edge := range p.m.Checkups(now) {
		p.tell(partition.Letter{Edge: edge}, true)
	}
}

// tell has the job that waits told, or asks after it, where it is. The answer comes by mail, once it is durable.
func (p *owned) tell(l partition.Letter, check bool) {
	term, to := p.term, p.e.partitionOf(l.Waiting())
	back := func(a partition.Answer) {
		p.box.put(func(m *mail) { m.heard = append(m.heard, heard{l, a, check, term}) })
	}
	if !p.e.remote(to) {
		to.hearLetter(l, check, back)
		return
	}
	p.e.couriers.send(p.e, func() { back(p.e.tellPeer(to.number, l, check)) })
}

// hearLetter takes a letter, or a question whether the job waits, for a job of the partition.
func (p *owned) hearLetter(l partition.Letter, check bool, back func(partition.Answer)) {
	c := jobCall(l.Waiting())
	c.do = func(d *owned, _ int64) {
		d.m.Begin()
		answer := partition.Nobody
		switch {
		case !check:
			answer = d.m.Release(l)
		case d.m.WaitsFor(l.Edge):
			answer = partition.Taken
		}
		d.reply(d.m.After(), func(err error) {
			if err != nil {
				answer = partition.Unheard
			}
			back(answer)
		})
	}
	c.fail = func(error) { back(partition.Unheard) }
	if !p.box.put(func(m *mail) { m.calls = append(m.calls, c) }) {
		back(partition.Unheard)
	}
}

// wanted is one name in the After of a job that is put.
type wanted struct {
	job, name int  // indices: of the request, and in its After
	batch     bool // it is one of several requests
	edge      partition.Edge
	exists    bool // the job that is waited for
}

// named is err about the name that is wanted.
func (w *wanted) named(err error) error {
	err = carillon.WithField(err, fmt.Sprintf("after[%d]", w.name))
	if w.batch {
		return inBatch(w.job, err)
	}
	return err
}

// link makes the jobs that others wait for know it, before those are put, and finds out which have succeeded for good: the
// requests get their Waits. batch says how errors name the job. It returns what to warn of.
func (e *Engine) link(ctx context.Context, reqs []partition.PutRequest, batch bool) ([][]string, error) {
	warnings := make([][]string, len(reqs))
	byPart := map[*owned][]*wanted{}
	for i := range reqs {
		j := reqs[i].Job
		reqs[i].Waits = nil
		for k, name := range j.After {
			w := &wanted{i, k, batch, partition.Edge{Of: carillon.Key{Namespace: j.Namespace, Name: name}, Name: j.Name}, false}
			reqs[i].Waits = append(reqs[i].Waits, store.Wait{Name: name})
			p := e.partitionOf(w.edge.Of)
			byPart[p] = append(byPart[p], w)
		}
	}
	if len(byPart) == 0 {
		return warnings, nil
	}
	if err := e.register(ctx, byPart); err != nil {
		return nil, err
	}
	together := make(map[carillon.Key]*carillon.Job, len(reqs))
	for i := range reqs {
		together[reqs[i].Job.Key()] = reqs[i].Job
	}
	for p, list := range byPart {
		for _, w := range list {
			if w.exists || together[w.edge.Of] != nil {
				continue
			}
			by, ok, err := e.lastSuccess(ctx, p, w.edge.Of)
			switch {
			case err != nil:
				return nil, err
			case ok:
				reqs[w.job].Waits[w.name] = store.Wait{Name: w.edge.Of.Name, By: by, Open: true}
			default:
				warnings[w.job] = append(warnings[w.job], fmt.Sprintf("after[%d]: there is no job %.64q, and no success of one is in the history; "+
					"the job waits until there is", w.name, w.edge.Of.Name))
			}
		}
	}
	for i := range warnings {
		slices.Sort(warnings[i])
		if w := e.cycle(ctx, reqs[i].Job, together); w != "" {
			warnings[i] = append(warnings[i], w)
		}
	}
	return warnings, nil
}

// register notes the edges, each partition's in one call.
func (e *Engine) register(ctx context.Context, byPart map[*owned][]*wanted) error {
	errs := make(chan error, len(byPart))
	for p, list := range byPart {
		edges := make([]partition.Edge, len(list))
		for i, w := range list {
			edges[i] = w.edge
		}
		go func() {
			exist, err := across(e, p, func(ps Partitions) ([]bool, error) { return ps.Register(ctx, p.number, edges) })
			for i, exists := range exist {
				list[i].exists = exists
			}
			errs <- ofEdge(list, err)
		}()
	}
	var first error
	for range byPart {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return certain(first)
}

// inEdge notes in err which edge of several it is about.
func inEdge(i int, err error) error { return carillon.WithField(err, fmt.Sprintf("edges[%d]", i)) }

// ofEdge names in err the job, and the name in its After, that inEdge has noted.
func ofEdge(list []*wanted, err error) error {
	var i int
	e, ok := errors.AsType[*carillon.Error](err)
	if !ok {
		return err
	}
	if _, no := fmt.Sscanf(e.Field, "edges[%d]", &i); no == nil && i >= 0 && i < len(list) {
		return list[i].named(err)
	}
	return err
}

// certain is the error of something that came before what the caller asked for: that has certainly not been done.
func certain(err error) error {
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Unknown {
		known := *e
		known.Unknown = false
		return &known
	}
	return err
}

// historyPage is how many of a job's newest runs are looked at for the one that ended last.
const historyPage = 20

// lastSuccess is the run of a job that ended last, if it is a success.
func (e *Engine) lastSuccess(ctx context.Context, p *owned, key carillon.Key) (id carillon.RunIdentity, ok bool, err error) {
	last, err := e.lastRun(ctx, p, key)
	return last.ID, last.Status == carillon.RunSucceeded, err
}

// lastRun is the run of a job that ended last, as the history has it; the zero value if it has none.
func (e *Engine) lastRun(ctx context.Context, p *owned, key carillon.Key) (last store.RunRecord, err error) {
	shard, err := e.reader(p)
	if err != nil {
		return last, err
	}
	runs, err := shard.Runs(ctx, store.RunQuery{Job: &key, Limit: historyPage})
	if err != nil {
		return last, readError(err)
	}
	runs = slices.DeleteFunc(runs, func(r store.RunRecord) bool { return r.Status == carillon.RunSkipped })
	if len(runs) == 0 {
		return last, nil
	}
	return slices.MaxFunc(runs, func(a, b store.RunRecord) int { return int(min(max(a.Finished-b.Finished, -1), 1)) }), nil
}

// linkPatch is link for the names that a patch gives. Wrong ones are left to be refused with the rest of the patch.
func (e *Engine) linkPatch(ctx context.Context, key carillon.Key, patch *carillon.Patch) ([]store.Wait, []string, error) {
	names := patch.Job.After
	wrong := func(name string) bool {
		return carillon.ValidateKey(carillon.Key{Namespace: key.Namespace, Name: name}) != nil
	}
	if !slices.Contains(patch.Fields, "after") || len(names) > carillon.MaxAfter || slices.ContainsFunc(names, wrong) {
		return nil, nil, nil
	}
	reqs := []partition.PutRequest{{Job: &carillon.Job{Namespace: key.Namespace, Name: key.Name, After: names}}}
	warnings, err := e.link(ctx, reqs, false)
	if err != nil {
		return nil, nil, err
	}
	return reqs[0].Waits, warnings[0], nil
}
