package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
)

// asynqSettings are what Asynq and Redis let their users tune; zero is the default.
type asynqSettings struct {
	fsync         string // Redis: appendfsync
	connections   int
	concurrency   int
	delayedChecks time.Duration // how often scheduled tasks are looked at
	checks        time.Duration // how often empty queues are
}

func asynqContestants() []contestant {
	standard := asynqSettings{concurrency: 100}
	tuned := asynqSettings{connections: 2 * callers, concurrency: 1_000, delayedChecks: 20 * time.Millisecond,
		checks: 5 * time.Millisecond}
	const (
		standardText = "concurrency 100, DelayedTaskCheckInterval 5 s, TaskCheckInterval 1 s"
		tunedText    = "128 connections, concurrency 1,000, DelayedTaskCheckInterval 20 ms, TaskCheckInterval 5 ms"
		everysec     = "a crash may lose the last second"
		always       = "fsync before the acknowledgement"
	)
	c := func(name, durable, fsync, about string, s asynqSettings) contestant {
		s.fsync = fsync
		return contestant{peer: "Asynq", settings: name + ", " + fsync, durable: durable, ahead: time.Second,
			about: fmt.Sprintf("%s, appendonly yes, appendfsync %s", about, fsync),
			start: func(ctx context.Context) (subject, string, error) { return startAsynq(ctx, s) }}
	}
	return []contestant{
		c("default", everysec, "everysec", standardText, standard),
		c("tuned", everysec, "everysec", tunedText, tuned),
		c("tuned", always, "always", tunedText, tuned),
	}
}

// asynqTask is the type of all tasks.
const asynqTask = "nothing"

// asynqOnRedis is Asynq's client and a Redis server of its own.
type asynqOnRedis struct {
	*server
	settings  asynqSettings
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

func startAsynq(ctx context.Context, s asynqSettings) (subject, string, error) {
	redis, address, version, err := startRedis(ctx, s.fsync)
	if err != nil {
		return nil, "", err
	}
	o := asynq.RedisClientOpt{Addr: address, PoolSize: s.connections}
	a := &asynqOnRedis{server: redis, settings: s, redis: o, client: asynq.NewClient(o),
		inspector: asynq.NewInspector(o)}
	return a, "Asynq " + moduleVersion("github.com/hibiken/asynq") + " on " + version, nil
}

// startRedis starts a Redis server on an empty folder that keeps what it is given, and returns where it is.
func startRedis(ctx context.Context, fsync string) (s *server, address, version string, err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", "", absent{"there is no redis-server: install Redis (Debian: redis-server)"}
	}
	dir, err := tempDir("redis")
	if err != nil {
		return nil, "", "", err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", "", err
	}
	s, err = startServer(dir, nil, binary, "--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--dir",
		dir, "--save", "", "--appendonly", "yes", "--appendfsync", fsync, "--daemonize", "no")
	if err != nil {
		return nil, "", "", err
	}
	address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	if err := s.ready(ctx, func(ctx context.Context) error { return reachable(ctx, address) }); err != nil {
		return nil, "", "", errors.Join(err, s.close())
	}
	return s, address, says(ctx, binary, "--version"), nil
}

func (a *asynqOnRedis) put(ctx context.Context, queue string, j job) error {
	task := asynq.NewTask(asynqTask, strconv.AppendInt(nil, int64(j.n), 10))
	_, err := a.client.EnqueueContext(ctx, task, asynq.Queue(queue), asynq.ProcessAt(j.due))
	return err
}

// putMany is not there: Asynq takes one task to a call.
func (*asynqOnRedis) putMany(context.Context, string, []job) error { return errors.ErrUnsupported }

func (a *asynqOnRedis) work(_ context.Context, queue string, handle func(n int)) (func() error, error) {
	server := asynq.NewServer(a.redis, asynq.Config{
		Concurrency:              a.settings.concurrency,
		Queues:                   map[string]int{queue: 1},
		DelayedTaskCheckInterval: a.settings.delayedChecks,
		TaskCheckInterval:        a.settings.checks,
		LogLevel:                 asynq.FatalLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		n, err := strconv.Atoi(string(t.Payload()))
		if err == nil {
			handle(n)
		}
		return err
	}))
	return func() error {
		server.Shutdown()
		return nil
	}, err
}

// unfinished is the size of the queue: a task is removed when it is done.
func (a *asynqOnRedis) unfinished(_ context.Context, queue string) (int, error) {
	info, err := a.inspector.GetQueueInfo(queue)
	if err != nil {
		return 0, err
	}
	return info.Size, nil
}

func (a *asynqOnRedis) close() error {
	return errors.Join(a.client.Close(), a.inspector.Close(), a.server.close())
}
