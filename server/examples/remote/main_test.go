package main

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
	_ "github.com/carillonhq/carillon/server/store/memory"
)

// output ends the example once it has printed what is wanted.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	done func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if strings.Contains(o.text.String(), o.want) {
		o.done()
	}
	return len(p), nil
}

func TestRun(t *testing.T) {
	node, err := server.New(server.Config{Store: "memory:", GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(life) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ctx, done := context.WithCancel(t.Context())
	if err := run(ctx, &output{want: ": hello\n", done: done}, node.GRPCAddr()); err != nil {
		t.Fatal(err)
	}
}
