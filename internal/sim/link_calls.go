package sim

import (
	"context"
	"fmt"
	"strconv"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
)

// The calls of a [cluster.Peer], each done at the other node.

// PutJob is for [cluster.Peer].
func (p *peer) PutJob(ctx context.Context, job carillon.Job, opts ...carillon.PutOption) (carillon.Put, error) {
	return through(ctx, p, "PutJob "+job.Namespace+"/"+job.Name, func(ctx context.Context, to *life) (carillon.Put, error) {
		return to.services().PutJob(ctx, job, opts...)
	})
}

// PutJobs is for [cluster.Peer].
func (p *peer) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.Put, error) {
	return through(ctx, p, "PutJobs "+jobs[0].Name, func(ctx context.Context, to *life) ([]carillon.Put, error) {
		return to.services().PutJobs(ctx, jobs)
	})
}

// PatchJob is for [cluster.Peer].
func (p *peer) PatchJob(ctx context.Context, key carillon.Key, patch carillon.Patch) (carillon.Put, error) {
	return through(ctx, p, "PatchJob "+key.String(), func(ctx context.Context, to *life) (carillon.Put, error) {
		return to.services().PatchJob(ctx, key, patch)
	})
}

// SetPaused is for [cluster.Peer].
func (p *peer) SetPaused(ctx context.Context, key carillon.Key, pause carillon.Pause) (carillon.Job, error) {
	return through(ctx, p, "SetPaused "+key.String(), func(ctx context.Context, to *life) (carillon.Job, error) {
		return to.services().SetPaused(ctx, key, pause)
	})
}

// GetJob is for [cluster.Peer].
func (p *peer) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return through(ctx, p, "GetJob "+key.String(), func(ctx context.Context, to *life) (carillon.Job, error) {
		return to.services().GetJob(ctx, key)
	})
}

// ListJobs is for [cluster.Peer].
func (p *peer) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return through(ctx, p, "ListJobs "+q.Namespace+"/"+q.Prefix, func(ctx context.Context, to *life) (carillon.JobPage, error) {
		return to.services().ListJobs(ctx, q)
	})
}

// DeleteJob is for [cluster.Peer].
func (p *peer) DeleteJob(ctx context.Context, key carillon.Key) (carillon.Deleted, error) {
	return through(ctx, p, "DeleteJob "+key.String(), func(ctx context.Context, to *life) (carillon.Deleted, error) {
		return to.services().DeleteJob(ctx, key)
	})
}

// DeleteJobs is for [cluster.Peer].
func (p *peer) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	return through(ctx, p, "DeleteJobs "+namespace+"/"+prefix, func(ctx context.Context, to *life) (int, error) {
		return to.services().DeleteJobs(ctx, namespace, prefix)
	})
}

// TriggerJob is for [cluster.Peer].
func (p *peer) TriggerJob(ctx context.Context, key carillon.Key) (carillon.Run, error) {
	return through(ctx, p, "TriggerJob "+key.String(), func(ctx context.Context, to *life) (carillon.Run, error) {
		return to.services().TriggerJob(ctx, key)
	})
}

// SkipRun is for [cluster.Peer].
func (p *peer) SkipRun(ctx context.Context, key carillon.Key) (carillon.Skip, error) {
	return through(ctx, p, "SkipRun "+key.String(), func(ctx context.Context, to *life) (carillon.Skip, error) {
		return to.services().SkipRun(ctx, key)
	})
}

// ListRuns is for [cluster.Peer].
func (p *peer) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return through(ctx, p, "ListRuns "+q.Namespace+"/"+q.Job, func(ctx context.Context, to *life) (carillon.RunPage, error) {
		return to.services().ListRuns(ctx, q)
	})
}

// GetRun is for [cluster.Peer].
func (p *peer) GetRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return through(ctx, p, "GetRun "+id, func(ctx context.Context, to *life) (carillon.Run, error) {
		return to.services().GetRun(ctx, namespace, id)
	})
}

// CancelRun is for [cluster.Peer].
func (p *peer) CancelRun(ctx context.Context, namespace, id string) (carillon.Cancelled, error) {
	return through(ctx, p, "CancelRun "+id, func(ctx context.Context, to *life) (carillon.Cancelled, error) {
		return to.services().CancelRun(ctx, namespace, id)
	})
}

// RedriveRun is for [cluster.Peer].
func (p *peer) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return through(ctx, p, "RedriveRun "+id, func(ctx context.Context, to *life) (carillon.Run, error) {
		return to.services().RedriveRun(ctx, namespace, id)
	})
}

// RedriveRuns is for [cluster.Peer].
func (p *peer) RedriveRuns(ctx context.Context, namespace, job string) (int, error) {
	return through(ctx, p, "RedriveRuns "+namespace+"/"+job, func(ctx context.Context, to *life) (int, error) {
		return to.services().RedriveRuns(ctx, namespace, job)
	})
}

// StartBackfill is for [cluster.Peer].
func (p *peer) StartBackfill(ctx context.Context, key carillon.Key, spec carillon.BackfillSpec) (carillon.Backfill, error) {
	return through(ctx, p, "StartBackfill "+key.String(), func(ctx context.Context, to *life) (carillon.Backfill, error) {
		return to.services().StartBackfill(ctx, key, spec)
	})
}

// GetBackfill is for [cluster.Peer].
func (p *peer) GetBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return through(ctx, p, "GetBackfill "+id, func(ctx context.Context, to *life) (carillon.Backfill, error) {
		return to.services().GetBackfill(ctx, namespace, id)
	})
}

// ListBackfills is for [cluster.Peer].
func (p *peer) ListBackfills(ctx context.Context, key carillon.Key) ([]carillon.Backfill, error) {
	return through(ctx, p, "ListBackfills "+key.String(), func(ctx context.Context, to *life) ([]carillon.Backfill, error) {
		return to.services().ListBackfills(ctx, key)
	})
}

// CancelBackfill is for [cluster.Peer].
func (p *peer) CancelBackfill(ctx context.Context, namespace, id string) (carillon.Backfill, error) {
	return through(ctx, p, "CancelBackfill "+id, func(ctx context.Context, to *life) (carillon.Backfill, error) {
		return to.services().CancelBackfill(ctx, namespace, id)
	})
}

// GetNamespace is for [cluster.Peer].
func (p *peer) GetNamespace(ctx context.Context, name string) (carillon.Namespace, error) {
	return through(ctx, p, "GetNamespace "+name, func(ctx context.Context, to *life) (carillon.Namespace, error) {
		return to.services().GetNamespace(ctx, name)
	})
}

// PutNamespace is for [cluster.Peer].
func (p *peer) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	return through(ctx, p, "PutNamespace "+ns.Name, func(ctx context.Context, to *life) (carillon.Namespace, error) {
		return to.services().PutNamespace(ctx, ns)
	})
}

// Register is for [cluster.Peer].
func (p *peer) Register(ctx context.Context, number int, edges []partition.Edge) ([]bool, error) {
	return through(ctx, p, "Register "+fmt.Sprint(number, edges), func(ctx context.Context, to *life) ([]bool, error) {
		return to.services().Register(ctx, number, edges)
	})
}

// Release is for [cluster.Peer].
func (p *peer) Release(ctx context.Context, number int, l partition.Letter) (partition.Answer, error) {
	return through(ctx, p, "Release "+fmt.Sprint(number, l), func(ctx context.Context, to *life) (partition.Answer, error) {
		return to.services().Release(ctx, number, l)
	})
}

// Waits is for [cluster.Peer].
func (p *peer) Waits(ctx context.Context, number int, e partition.Edge) (bool, error) {
	return through(ctx, p, "Waits "+fmt.Sprint(number, e), func(ctx context.Context, to *life) (bool, error) {
		return to.services().Waits(ctx, number, e)
	})
}

// Keeps is for [cluster.Peer].
func (p *peer) Keeps(ctx context.Context, number int, job *carillon.Job) (bool, error) {
	return through(ctx, p, "Keeps "+job.Namespace+"/"+job.Name, func(ctx context.Context, to *life) (bool, error) {
		return to.services().Keeps(ctx, number, job)
	})
}

// ApplyShare is for [cluster.Peer].
func (p *peer) ApplyShare(ctx context.Context, number int, s *partition.Share) ([]carillon.Put, error) {
	return through(ctx, p, "ApplyShare "+fmt.Sprint(number, s.Batch), func(ctx context.Context, to *life) ([]carillon.Put, error) {
		return to.services().ApplyShare(ctx, number, s)
	})
}

// DeleteIn is for [cluster.Peer].
func (p *peer) DeleteIn(ctx context.Context, number int, namespace, prefix string) (int, error) {
	return through(ctx, p, "DeleteIn "+fmt.Sprint(number, namespace, prefix), func(ctx context.Context, to *life) (int, error) {
		return to.services().DeleteIn(ctx, number, namespace, prefix)
	})
}

// RedriveIn is for [cluster.Peer].
func (p *peer) RedriveIn(ctx context.Context, number int, namespace, job string) (int, error) {
	return through(ctx, p, "RedriveIn "+fmt.Sprint(number, namespace, job), func(ctx context.Context, to *life) (int, error) {
		return to.services().RedriveIn(ctx, number, namespace, job)
	})
}

// Hear is for [cluster.Peer].
func (p *peer) Hear(ctx context.Context, number int, s engine.Said) (engine.Heard, error) {
	return through(ctx, p, "Hear "+strconv.Itoa(number), func(ctx context.Context, to *life) (engine.Heard, error) {
		return to.services().Hear(ctx, number, s)
	})
}

// AskTokens is for [cluster.Peer].
func (p *peer) AskTokens(ctx context.Context, number int, from partition.Asker, asks []partition.TokenAsk) ([]partition.TokenGrant, error) {
	return through(ctx, p, "AskTokens "+fmt.Sprint(number, from, asks), func(ctx context.Context, to *life) ([]partition.TokenGrant, error) {
		return to.services().AskTokens(ctx, number, from, asks)
	})
}

// GiveTokens is for [cluster.Peer].
func (p *peer) GiveTokens(ctx context.Context, number int, grants []partition.TokenGrant) error {
	_, err := through(ctx, p, "GiveTokens "+fmt.Sprint(number, grants), func(ctx context.Context, to *life) (struct{}, error) {
		return struct{}{}, to.services().GiveTokens(ctx, number, grants)
	})
	return err
}

// CompleteRun is for [cluster.Peer].
func (p *peer) CompleteRun(ctx context.Context, namespace string, r carillon.Result) error {
	_, err := through(ctx, p, "CompleteRun "+r.Token, func(ctx context.Context, to *life) (struct{}, error) {
		return struct{}{}, to.services().CompleteRun(ctx, namespace, r)
	})
	return err
}

// Status is for [cluster.Peer].
func (p *peer) Status(ctx context.Context) (cluster.Status, error) {
	return through(ctx, p, "Status", func(ctx context.Context, to *life) (cluster.Status, error) { return to.member.Status(ctx) })
}

// Look is for [cluster.Peer].
func (p *peer) Look(ctx context.Context) error {
	_, err := through(ctx, p, "Look", func(ctx context.Context, to *life) (struct{}, error) { return struct{}{}, to.member.Look(ctx) })
	return err
}

// ReloadNamespace is for [cluster.Peer].
func (p *peer) ReloadNamespace(ctx context.Context, name string) error {
	_, err := through(ctx, p, "ReloadNamespace", func(ctx context.Context, to *life) (struct{}, error) {
		return struct{}{}, to.member.ReloadNamespace(ctx, name)
	})
	return err
}

// SetDraining is for [cluster.Peer].
func (p *peer) SetDraining(ctx context.Context, nonce uint64, on bool) error {
	_, err := through(ctx, p, "SetDraining", func(ctx context.Context, to *life) (struct{}, error) {
		return struct{}{}, to.member.SetDraining(ctx, nonce, on)
	})
	return err
}
