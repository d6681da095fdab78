package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// ballastNamespace has the jobs of a campaign's ballast, and nothing else.
const ballastNamespace = "ballast"

// perJob is how much longer something may take that carries the ballast, for each of its jobs.
const perJob = time.Millisecond

// carried returns how long something may take that takes some time without ballast.
func (c *campaign) carried(empty time.Duration) time.Duration {
	return empty + time.Duration(c.o.Ballast)*perJob
}

// load puts the ballast.
func (c *campaign) load(ctx context.Context) error {
	return c.talk(func(to *client.Client) error {
		due := carillon.At(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
		for put := 0; put < c.o.Ballast; {
			var jobs []carillon.Job
			for ; put < c.o.Ballast && len(jobs) < carillon.MaxBatch; put++ {
				jobs = append(jobs, carillon.Job{Namespace: ballastNamespace, Name: fmt.Sprintf("%08d", put), Due: due,
					Target: carillon.WorkerQueue("ballast")})
			}
			if _, err := to.PutJobs(ctx, jobs); err != nil {
				return fmt.Errorf("ballast: %w", err)
			}
		}
		return nil
	})
}

// weigh reads the ballast again: each of its jobs must be there, and nothing else.
func (c *campaign) weigh(ctx context.Context) error {
	return c.talk(func(to *client.Client) error {
		found, query := 0, carillon.JobQuery{Namespace: ballastNamespace, PageSize: carillon.MaxBatch}
		for {
			page, err := to.ListJobs(ctx, query)
			if err != nil {
				return fmt.Errorf("ballast: %w", err)
			}
			for _, j := range page.Jobs {
				if want := fmt.Sprintf("%08d", found); j.Name != want {
					return fmt.Errorf("ballast: job %q where %q should be", j.Name, want)
				}
				found++
			}
			if query.PageToken = page.NextPageToken; query.PageToken == "" {
				break
			}
		}
		if found != c.o.Ballast {
			return fmt.Errorf("ballast: %d jobs of %d are there", found, c.o.Ballast)
		}
		return nil
	})
}

// talk has something done by a client of the node.
func (c *campaign) talk(do func(*client.Client) error) error {
	if c.o.Ballast == 0 {
		return nil
	}
	to, err := client.Dial(c.node.GRPC)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // nothing is under way
	return do(to)
}
