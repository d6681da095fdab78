package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/worker"
)

// carillonSettings are what is tuned; the node itself always has its defaults.
type carillonSettings struct {
	connections int // and as many workers
	concurrency int // of each worker
}

func carillonContestants(binary string) []contestant {
	const durable = "fsync before the acknowledgement"
	c := func(peer, name string, s carillonSettings, batch int, store backend) contestant {
		return contestant{peer: peer, settings: name, durable: durable, batch: batch, ahead: time.Second,
			about: fmt.Sprintf("%d connections, a worker of concurrency %d on each, PutJobs of %d", s.connections,
				s.concurrency, batch),
			start: func(ctx context.Context) (subject, string, error) { return startCarillon(ctx, binary, s, store) }}
	}
	var all []contestant
	for _, on := range []struct {
		peer  string
		store backend
	}{{"Carillon", embedded}, {"Carillon on PostgreSQL", onPostgres}, {"Carillon on Redis", onRedis}} {
		all = append(all, c(on.peer, "default",
			carillonSettings{connections: 1, concurrency: worker.DefaultConcurrency}, 256, on.store),
			c(on.peer, "tuned", carillonSettings{connections: 4, concurrency: 1_000}, 1_000, on.store))
	}
	return all
}

// backend starts what a node keeps its jobs in, and returns the URL that the node is given; the server is nil
// if there is none.
type backend func(ctx context.Context, dir string) (s *server, url, version string, err error)

// embedded is a folder of the node's.
func embedded(_ context.Context, dir string) (s *server, url, version string, err error) {
	return nil, "pebble:" + filepath.Join(dir, "store"), "", nil
}

// onPostgres is a PostgreSQL server as River has it.
func onPostgres(ctx context.Context, _ string) (s *server, url, version string, err error) {
	return startPostgres(ctx)
}

// onRedis is a Redis server that syncs each write.
func onRedis(ctx context.Context, _ string) (s *server, url, version string, err error) {
	s, address, version, err := startRedis(ctx, "always")
	return s, "redis://" + address, version, err
}

// carillonNode is a node in a process of its own and clients of it.
type carillonNode struct {
	*server
	store    *server // nil if the node has its own
	settings carillonSettings
	clients  []*client.Client
	turn     atomic.Uint32
}

func startCarillon(ctx context.Context, binary string, s carillonSettings,
	on backend) (subject, string, error) {
	binary, err := carillonBinary(binary)
	if err != nil {
		return nil, "", err
	}
	dir, err := tempDir("carillon")
	if err != nil {
		return nil, "", err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, "", err
	}
	store, url, about, err := on(ctx, dir)
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	grpc, web := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	n := &carillonNode{store: store, settings: s}
	n.server, err = startServer(dir, nil, binary, "serve", "--store", url, "--grpc", grpc, "--http", web,
		"--log-level", "warn")
	if err != nil {
		return nil, "", errors.Join(err, n.closeStore())
	}
	if err := errors.Join(n.ready(ctx, answers("http://"+web+"/readyz")), n.dial(grpc)); err != nil {
		return nil, "", errors.Join(err, n.close())
	}
	version := says(ctx, binary, "version")
	if about != "" {
		version += " on " + about
	}
	return n, version, nil
}

// cpu is what the node has used, and the server of its store.
func (n *carillonNode) cpu() time.Duration {
	if n.store == nil {
		return n.server.cpu()
	}
	return n.server.cpu() + n.store.cpu()
}

func (n *carillonNode) closeStore() error {
	if n.store == nil {
		return nil
	}
	return n.store.close()
}

// carillonBinary is where the binary is.
func carillonBinary(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", absent{fmt.Sprintf("there is no %s: make build", path)}
	}
	return path, nil
}

// answers asks whether a page is there.
func answers(url string) func(ctx context.Context) error {
	page := &http.Client{Timeout: time.Second}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		res, err := page.Do(req)
		if err != nil {
			return err
		}
		if res.StatusCode >= http.StatusMultipleChoices {
			err = fmt.Errorf("%s: %s", url, res.Status)
		}
		return errors.Join(err, res.Body.Close())
	}
}

func (n *carillonNode) dial(address string) error {
	for range n.settings.connections {
		c, err := client.Dial(address)
		if err != nil {
			return err
		}
		n.clients = append(n.clients, c)
	}
	return nil
}

// client is each in turn.
func (n *carillonNode) client() *client.Client {
	return n.clients[int(n.turn.Add(1))%len(n.clients)]
}

func carillonJob(queue string, j job) carillon.Job {
	return carillon.Job{Name: queue + "/" + strconv.Itoa(j.n), Due: carillon.At(j.due),
		Target: carillon.WorkerQueue(queue), Data: carillon.JSON(j.n)}
}

func (n *carillonNode) put(ctx context.Context, queue string, j job) error {
	_, err := n.client().PutJob(ctx, carillonJob(queue, j))
	return err
}

func (n *carillonNode) putMany(ctx context.Context, queue string, jobs []job) error {
	batch := make([]carillon.Job, 0, len(jobs))
	for _, j := range jobs {
		batch = append(batch, carillonJob(queue, j))
	}
	_, err := n.client().PutJobs(ctx, batch)
	return err
}

func (n *carillonNode) work(ctx context.Context, queue string, handle func(n int)) (func() error, error) {
	ctx, leave := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range n.clients {
		w := worker.New(c, worker.Options{Concurrency: n.settings.concurrency})
		worker.Handle(w, queue, func(_ context.Context, _ carillon.Run, in int) error {
			handle(in)
			return nil
		})
		group.Go(func() error { return w.Run(ctx) })
	}
	return func() error {
		leave()
		return group.Wait()
	}, nil
}

// unfinished counts by listing: a one-shot is gone once its run is durably finished.
func (n *carillonNode) unfinished(ctx context.Context, queue string) (int, error) {
	q := carillon.JobQuery{Prefix: queue + "/", PageSize: carillon.MaxBatch}
	for count := 0; ; {
		page, err := n.clients[0].ListJobs(ctx, q)
		if err != nil {
			return 0, err
		}
		count += len(page.Jobs)
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return count, nil
		}
	}
}

func (n *carillonNode) close() error {
	for _, c := range n.clients {
		_ = c.Close() // the results are in
	}
	return errors.Join(n.server.close(), n.closeStore())
}
