// Command webhook receives runs of HTTP targets, each once: the idempotency key tells a repeated attempt from
// a new run. Try it with a node on the same machine (go run ./server/cmd/carillon dev):
//
//	go run ./server/examples/webhook
//	go run ./server/cmd/carillon job put hello --in 1s --http http://127.0.0.1:9999/ --data '{"x":1}'
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

func main() {
	server := &http.Server{Addr: "127.0.0.1:9999", Handler: newReceiver(os.Stdout),
		ReadHeaderTimeout: 5 * time.Second}
	fmt.Println("listening on http://" + server.Addr + "/")
	if err := server.ListenAndServe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// maxPayload is the most that a node sends by default.
const maxPayload = 1 << 20

// receiver does each run once. A real one keeps what it has done where it keeps its data, in the same
// transaction.
type receiver struct {
	out io.Writer

	mu   sync.Mutex
	done map[string]bool // by idempotency key
}

func newReceiver(out io.Writer) *receiver { return &receiver{out: out, done: make(map[string]bool)} }

// ServeHTTP implements http.Handler.
func (s *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxPayload))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // it would be the same next time: not retried
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := req.Header.Get("Idempotency-Key")
	if !s.done[key] {
		s.done[key] = true
		fmt.Fprintf(s.out, "%s, attempt %s: %s\n", req.Header.Get("Carillon-Job"),
			req.Header.Get("Carillon-Attempt"), body)
	}
	w.WriteHeader(http.StatusNoContent)
}
