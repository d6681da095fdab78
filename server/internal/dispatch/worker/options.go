package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// Options bound a session.
type Options struct {
	// MaxCredits is the most runs of one queue that are granted or in flight; default 65,536. A grant beyond
	// it is refused.
	MaxCredits int
	Bounds     stream.Bounds
}

// Defaults of the options, and bounds on a hello.
const (
	DefaultMaxCredits = 1 << 16

	MaxQueues      = 256
	MaxWorkerID    = 256     // bytes
	MaxVersion     = 256     // bytes
	MaxLabelsBytes = 4 << 10 // keys and values together
)

// Accept returns the function by which a hub opens sessions with these options ([dispatch.Options.Accept]).
func Accept(o Options) func(context.Context, *dispatch.Hub, carillon.Hello) (carillon.Session, error) {
	o.MaxCredits = cmp.Or(o.MaxCredits, DefaultMaxCredits)
	o.Bounds = o.Bounds.WithDefaults()
	return func(ctx context.Context, h *dispatch.Hub, hello carillon.Hello) (carillon.Session, error) {
		if err := ctx.Err(); err != nil {
			return nil, stream.ContextError(err)
		}
		hello, err := check(hello)
		if err != nil {
			return nil, err
		}
		return open(ctx, o, h, hello)
	}
}

// check validates a hello and fills in its defaults.
func check(hello carillon.Hello) (carillon.Hello, error) {
	hello.Namespace = cmp.Or(hello.Namespace, carillon.DefaultNamespace)
	if hello.WorkerID == "" {
		hello.WorkerID = "worker-" + strings.ToLower(rand.Text()[:13])
	}
	if err := carillon.ValidateNamespace(hello.Namespace); err != nil {
		return hello, err
	}
	if n := len(hello.Queues); n == 0 || n > MaxQueues {
		return hello, carillon.Errorf(carillon.InvalidArgument, "queues",
			"a worker serves 1 to %d queues, not %d", MaxQueues, n)
	}
	seen := make(map[string]bool, len(hello.Queues))
	for _, q := range hello.Queues {
		if err := (&carillon.WorkerTarget{Queue: q}).Validate(); err != nil {
			return hello, carillon.WithField(err, "queues")
		}
		if seen[q] {
			return hello, carillon.Errorf(carillon.InvalidArgument, "queues", "%.64q is named twice", q)
		}
		seen[q] = true
	}
	if len(hello.WorkerID) > MaxWorkerID {
		return hello, carillon.Errorf(carillon.InvalidArgument, "worker_id", "at most %d bytes", MaxWorkerID)
	}
	// It is in the answers to ListWorkers, whose strings must be UTF-8.
	if !utf8.ValidString(hello.WorkerID) {
		return hello, carillon.Errorf(carillon.InvalidArgument, "worker_id", "%q is not UTF-8", hello.WorkerID)
	}
	if err := checkVersion(hello.Version); err != nil {
		return hello, err
	}
	return hello, checkLabels(hello.Labels)
}

// checkVersion validates a worker's version, which is in the answers to ListWorkers.
func checkVersion(version string) error {
	switch {
	case len(version) > MaxVersion:
		return carillon.Errorf(carillon.InvalidArgument, "version", "at most %d bytes", MaxVersion)
	case !utf8.ValidString(version):
		return carillon.Errorf(carillon.InvalidArgument, "version", "%q is not UTF-8", version)
	}
	return nil
}

// checkLabels validates a worker's labels.
func checkLabels(labels map[string]string) error {
	size := 0
	for k, v := range labels {
		size += len(k) + len(v)
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return carillon.Errorf(carillon.InvalidArgument, "labels", "%.64q: %.64q is not UTF-8", k, v)
		}
	}
	if size > MaxLabelsBytes {
		return carillon.Errorf(carillon.InvalidArgument, "labels", "at most %d bytes in all, not %d",
			MaxLabelsBytes, size)
	}
	return nil
}
