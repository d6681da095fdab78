package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// dependencyAnswer is another partition's answer about a job that waits for a job of this partition.
type dependencyAnswer struct {
	notice message.Notice
	answer message.Answer
	check  bool       // the question was only whether the job still waits
	term   store.Term // of the question; an answer for an earlier term is ignored
}

// noticesAtOnce is how many completion notices one round sends.
const noticesAtOnce = 256

// exchangeNotices takes the answers of other partitions, and sends them notices of successes that have become
// durable.
func (p *partitionRunner) exchangeNotices(in []dependencyAnswer, now int64) {
	for _, h := range in {
		switch {
		case h.term != p.own.term:
		case !h.check:
			p.m.Dependencies.Answered(now, h.notice, h.answer)
		case h.answer == message.Nobody:
			p.m.Dependencies.Forget(now, h.notice.Dependency)
		}
	}
	notices := p.m.Dependencies.Notices(now, noticesAtOnce)
	for _, l := range notices {
		p.sendNotice(l, false)
	}
	if len(notices) == noticesAtOnce {
		p.box.ring() // there may be more
	}
}

// checkDependencies finds out, a few at a time, which dependencies no longer have a waiting job.
func (p *partitionRunner) checkDependencies(now int64) {
	for _, edge := range p.m.Dependencies.Checkups(now) {
		p.sendNotice(message.Notice{Dependency: edge}, true)
	}
}

// sendNotice sends a notice to the waiting job's partition, or with check asks whether the job still waits.
// The answer comes by mail once it is durable.
func (p *partitionRunner) sendNotice(l message.Notice, check bool) {
	term, to := p.own.term, p.e.of(l.Waiting())
	back := func(a message.Answer) {
		p.box.put(func(m *mail) {
			m.dependencyAnswers = append(m.dependencyAnswers, dependencyAnswer{l, a, check, term})
		})
	}
	if !p.e.remote(to) {
		to.takeNotice(l, check, back)
		return
	}
	p.e.dependencies.notices.send(to.number, l, check, back)
}

// takeNotice takes a notice for a job of the partition, or with check the question whether the job waits.
func (p *partitionRunner) takeNotice(l message.Notice, check bool, back func(message.Answer)) {
	c := jobCall(l.Waiting())
	c.do = func(d *partitionRunner, _ int64) {
		d.m.Begin()
		answer := message.Nobody
		switch {
		case !check:
			answer = d.m.Jobs.Release(l)
		case d.m.Records.WaitsFor(l.Dependency):
			answer = message.Taken
		}
		d.replies.await(d.m.After(), func(err error) {
			if err != nil {
				answer = message.Unreached
			}
			back(answer)
		})
	}
	c.fail = func(error) { back(message.Unreached) }
	if !p.box.put(func(m *mail) { m.calls = append(m.calls, c) }) {
		back(message.Unreached)
	}
}

// wanted is one name in the DependsOn of a job that is put.
type wanted struct {
	job, name  int  // indices: of the request, and in its DependsOn
	batch      bool // the request is one of a batch put
	dependency message.Dependency
	exists     bool // the job that is depended on exists
}

// named adds the field of the name to err.
func (w *wanted) named(err error) error {
	err = carillon.WithField(err, fmt.Sprintf("depends_on[%d]", w.name))
	if w.batch {
		return inBatch(w.job, err)
	}
	return err
}

// dependencies registers the dependencies of jobs that are put, and checks those of jobs that wait
// (waiters.go).
type dependencies struct {
	partitions *partitions
	notices    peerQueue // to partitions of other nodes
}

// link registers the dependencies of jobs before the jobs are put, and finds out which of them are met for
// good, since the job is gone and its last run succeeded. It fills in the Waits of the requests. batch says
// how errors name the job. It returns warnings, by request.
func (d *dependencies) link(ctx context.Context, reqs []message.PutRequest, batch bool) ([][]string, error) {
	warnings := make([][]string, len(reqs))
	byPart := map[*partitionRunner][]*wanted{}
	for i := range reqs {
		j := reqs[i].Job
		reqs[i].Waits = nil
		for k, name := range j.DependsOn {
			w := &wanted{i, k, batch, message.Dependency{Of: carillon.Key{Namespace: j.Namespace,
				Name: name}, Name: j.Name}, false}
			reqs[i].Waits = append(reqs[i].Waits, store.Wait{Name: name})
			p := d.partitions.of(w.dependency.Of)
			byPart[p] = append(byPart[p], w)
		}
	}
	if len(byPart) == 0 {
		return warnings, nil
	}
	if err := d.registerWanted(ctx, byPart); err != nil {
		return nil, err
	}
	together := make(map[carillon.Key]*carillon.Job, len(reqs))
	for i := range reqs {
		together[reqs[i].Job.Key()] = reqs[i].Job
	}
	for p, list := range byPart {
		for _, w := range list {
			if w.exists || together[w.dependency.Of] != nil {
				continue
			}
			last, err := d.lastRun(ctx, p, w.dependency.Of)
			switch {
			case err != nil:
				return nil, err
			case last.Status == carillon.RunSucceeded:
				reqs[w.job].Waits[w.name] = store.Wait{Name: w.dependency.Of.Name, By: last.ID, Open: true}
			default:
				warnings[w.job] = append(warnings[w.job], fmt.Sprintf(
					"depends_on[%d]: there is no job %.64q, and no success of one is in the history; "+
						"the job waits until there is", w.name, w.dependency.Of.Name))
			}
		}
	}
	for i := range warnings {
		slices.Sort(warnings[i])
		if w := d.cycle(ctx, reqs[i].Job, together); w != "" {
			warnings[i] = append(warnings[i], w)
		}
	}
	return warnings, nil
}

// registerWanted registers the dependencies, with one call for each partition.
func (d *dependencies) registerWanted(ctx context.Context, byPart map[*partitionRunner][]*wanted) error {
	parts := inOrder(byPart)
	return certain(eachAtOnce(len(parts), func(i int) error {
		p, list := parts[i], byPart[parts[i]]
		edges := make([]message.Dependency, len(list))
		for k, w := range list {
			edges[k] = w.dependency
		}
		exist, err := across(ctx, d.partitions, p, message.RegisterDependencies{Dependencies: edges})
		for k, exists := range exist {
			list[k].exists = exists
		}
		return ofDependency(list, err)
	}))
}

// inDependency adds to err which of several dependencies it is about.
func inDependency(i int, err error) error {
	return carillon.WithField(err, fmt.Sprintf("edges[%d]", i))
}

// ofDependency replaces the index that inDependency has added to err by the job and the name in its
// DependsOn.
func ofDependency(list []*wanted, err error) error {
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

// certain clears Unknown in the error of a preparatory step: what the caller asked for has certainly not been
// done.
func certain(err error) error {
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Unknown {
		known := *e
		known.Unknown = false
		return &known
	}
	return err
}

// historyPage is how many of a job's newest runs are searched for the one that ended last.
const historyPage = 20

// lastRun returns the run of a job that ended last, by the history; the zero value if it has none.
func (d *dependencies) lastRun(ctx context.Context, p *partitionRunner,
	key carillon.Key) (last store.RunRecord, err error) {
	runs, err := d.partitions.reader(p).Runs(ctx, store.RunQuery{Job: &key, Limit: historyPage})
	if err != nil {
		return last, readError(err)
	}
	runs = slices.DeleteFunc(runs, func(r store.RunRecord) bool { return r.Status == carillon.RunSkipped })
	if len(runs) == 0 {
		return last, nil
	}
	return slices.MaxFunc(runs, func(a, b store.RunRecord) int { return cmp.Compare(a.Finished, b.Finished) }),
		nil
}

// linkOne is link for a single put. Most jobs depend on no other.
func (d *dependencies) linkOne(ctx context.Context, req *message.PutRequest) ([]string, error) {
	if len(req.Job.DependsOn) == 0 {
		return nil, nil
	}
	reqs := []message.PutRequest{*req}
	warnings, err := d.link(ctx, reqs, false)
	if err != nil {
		return nil, err
	}
	*req = reqs[0]
	return warnings[0], nil
}

// linkPatch is link for the names in a patch. Invalid names are left alone, to be refused with the rest of
// the patch.
func (d *dependencies) linkPatch(ctx context.Context, key carillon.Key,
	patch *carillon.Patch) ([]store.Wait, []string, error) {
	names := patch.Job.DependsOn
	wrong := func(name string) bool {
		return carillon.Key{Namespace: key.Namespace, Name: name}.Validate() != nil
	}
	if !slices.Contains(patch.Fields, "depends_on") || len(names) > carillon.MaxDependsOn ||
		slices.ContainsFunc(names, wrong) {
		return nil, nil, nil
	}
	req := message.PutRequest{Job: &carillon.Job{Namespace: key.Namespace, Name: key.Name, DependsOn: names}}
	warnings, err := d.linkOne(ctx, &req)
	return req.Waits, warnings, err
}
