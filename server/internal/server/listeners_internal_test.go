package server

import (
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// TestAListenerThatEndsBeforeItIsServed: to end a server at once is no failure, whichever of the two
// goroutines is first.
func TestAListenerThatEndsBeforeItIsServed(t *testing.T) {
	for name, over := range map[string]func(*listener){
		"grpc": func(d *listener) { d.overGRPC(grpcapi.NewFrame(grpcapi.Options{})) },
		"http": func(d *listener) { d.overHTTP(&http.Server{}, slog.New(slog.DiscardHandler)) },
	} {
		t.Run(name, func(t *testing.T) {
			at, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			d := &listener{name: name, at: at}
			over(d)
			d.stop(t.Context())
			if err := d.run(); err != nil {
				t.Error(err)
			}
		})
	}
}
