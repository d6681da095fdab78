package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/tracecontext"
	"github.com/carillonhq/carillon/server/internal/testing/collector"
	"github.com/carillonhq/carillon/worker"
)

// TestATraceSurvivesAKill of the node, in the middle of the second attempt.
func TestATraceSurvivesAKill(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	c, address, dir := collector.New(t), freeAddress(t), t.TempDir()
	serve := func() *exec.Cmd {
		node := exec.Command("carillon", "serve", "--store", "pebble:"+dir, "--grpc", address, "--http",
			"127.0.0.1:0", "--otlp-endpoint", c.URL)
		node.Env = append(os.Environ(), "OTEL_BSP_SCHEDULE_DELAY=10")
		node.Stderr = os.Stderr
		return node
	}
	first, second := serve(), serve()
	startProcess(t, first)
	node, err := client.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	attempts, killed := make(chan trace.SpanContext, 8), make(chan struct{})
	w := worker.New(node, worker.Options{})
	worker.Handle(w, "q", func(ctx context.Context, run carillon.Run, _ []byte) error {
		attempts <- trace.SpanContextFromContext(ctx)
		if run.Attempt == 1 {
			return errors.New("on purpose")
		}
		<-killed
		return nil
	})
	life, end := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- w.Run(life) }()
	ctx := tracecontext.With(t.Context(), "00-"+id+"-b7ad6b7169203331-01", "")
	if err := untilUp(func() error {
		_, err := node.PutJob(ctx, carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"),
			FailurePolicy: carillon.Constant(0).WithMaxRetries(3)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	made := []trace.SpanContext{<-attempts, <-attempts}
	c.AwaitNamed(t, 1, "deliver q") // or it would be lost with the node
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	startProcess(t, second)
	close(killed)
	spans := c.AwaitNamed(t, 2, "deliver q")
	for i, s := range spans[:2] {
		if s.Trace != id || s.ID != made[i].SpanID().String() || made[i].TraceID().String() != id {
			t.Errorf("attempt %d was %v, its span is %+v", i+1, made[i], s)
		}
	}
	end()
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// startProcess starts a program that ends with the test.
func startProcess(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
}

// freeAddress returns an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// untilUp repeats a call until the node that it is made to is up, for at most 30 s.
func untilUp(call func() error) error {
	for end := time.Now().Add(30 * time.Second); ; {
		err := call()
		if !errors.Is(err, carillon.Unavailable) || time.Now().After(end) {
			return err
		}
	}
}
