package chaos

import (
	"context"
	"errors"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// roamingClient is a client that asks another node each time: one that runs and, mostly, one that nothing is
// wrong with.
type roamingClient struct {
	some  func() (well, hurt []*Member)
	dice  dice
	conns map[*Member]*client.Client
}

var _ talker = (*roamingClient)(nil)

// choose is a node.
func choose(d dice, well, hurt []*Member) *Member {
	if len(well) == 0 || (len(hurt) > 0 && d.chance(6)) {
		well = hurt
	}
	if len(well) == 0 {
		return nil
	}
	return pick(d, well...)
}

// errNobody: the call has not left.
var errNobody = carillon.Errorf(carillon.Unavailable, "", "no node runs")

// any is a client of some node.
func (r *roamingClient) any() (*client.Client, error) {
	well, hurt := r.some()
	m := choose(r.dice, well, hurt)
	if m == nil {
		return nil, errNobody
	}
	c, err := r.conns[m], error(nil)
	if c == nil {
		if c, err = client.Dial(m.Front.Address()); err == nil {
			r.conns[m] = c
		}
	}
	return c, err
}

// Close ends all connections.
func (r *roamingClient) Close() error {
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func via[T any](r *roamingClient, call func(c *client.Client) (T, error)) (T, error) {
	c, err := r.any()
	if err != nil {
		var none T
		return none, err
	}
	return call(c)
}

// PutJob is of [caller], as are those below.
func (r *roamingClient) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	return via(r, func(c *client.Client) (carillon.PutResult, error) { return c.PutJob(ctx, job, opts...) })
}

func (r *roamingClient) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	return via(r, func(c *client.Client) (carillon.PutResult, error) { return c.PatchJob(ctx, key, patch) })
}

func (r *roamingClient) SetPaused(ctx context.Context, key carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	return via(r, func(c *client.Client) (carillon.Job, error) { return c.SetPaused(ctx, key, p) })
}

func (r *roamingClient) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return via(r, func(c *client.Client) (carillon.Job, error) { return c.GetJob(ctx, key) })
}

func (r *roamingClient) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	return via(r, func(c *client.Client) (carillon.DeleteResult, error) {
		return c.DeleteJob(ctx, key, opts...)
	})
}

func (r *roamingClient) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	return via(r, func(c *client.Client) (carillon.Run, error) { return c.TriggerJob(ctx, key, opts...) })
}

func (r *roamingClient) CancelRun(ctx context.Context, ns, id string) (carillon.CancelResult, error) {
	return via(r, func(c *client.Client) (carillon.CancelResult, error) { return c.CancelRun(ctx, ns, id) })
}

func (r *roamingClient) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	return via(r, func(c *client.Client) ([]carillon.PutResult, error) { return c.PutJobs(ctx, jobs) })
}

func (r *roamingClient) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	return via(r, func(c *client.Client) (carillon.JobPage, error) { return c.ListJobs(ctx, q) })
}

func (r *roamingClient) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return via(r, func(c *client.Client) (carillon.RunPage, error) { return c.ListRuns(ctx, q) })
}

// roamingREST speaks REST with another node each time.
type roamingREST struct {
	some func() (well, hurt []*Member)
	dice dice
}

var _ caller = roamingREST{}

func (r roamingREST) any() caller {
	well, hurt := r.some()
	if m := choose(r.dice, well, hurt); m != nil {
		return rest{m.HTTP}
	}
	return rest{"127.0.0.1:1"} // nobody listens there
}

func (r roamingREST) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	return r.any().PutJob(ctx, job, opts...)
}

func (r roamingREST) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	return r.any().PatchJob(ctx, key, patch)
}

func (r roamingREST) SetPaused(ctx context.Context, key carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	return r.any().SetPaused(ctx, key, p)
}

func (r roamingREST) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return r.any().GetJob(ctx, key)
}

func (r roamingREST) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	return r.any().DeleteJob(ctx, key, opts...)
}

func (r roamingREST) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	return r.any().TriggerJob(ctx, key, opts...)
}

func (r roamingREST) CancelRun(ctx context.Context, ns, id string) (carillon.CancelResult, error) {
	return r.any().CancelRun(ctx, ns, id)
}

// without is a list without one of its elements.
func without[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(y T) bool { return x == y })
}
