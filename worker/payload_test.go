package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestPayloads(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := worker.New(s, worker.Options{})
		got := make(chan any, 16)
		worker.Handle(w, "struct", func(_ context.Context, _ carillon.Run, in struct{ N int }) error {
			got <- in.N
			return nil
		})
		worker.Handle(w, "pointer", func(_ context.Context, _ carillon.Run, in *struct{ N int }) error {
			got <- in == nil
			return nil
		})
		worker.Handle(w, "bytes", func(_ context.Context, _ carillon.Run, in []byte) error {
			got <- string(in)
			return nil
		})
		worker.Handle(w, "data", func(_ context.Context, _ carillon.Run, in carillon.Data) error {
			got <- in.ContentType
			return nil
		})
		worker.Handle(w, "raw", func(_ context.Context, _ carillon.Run, in json.RawMessage) error {
			got <- string(in)
			return nil
		})
		leave, left := start(t, w)
		c := s.next()
		for i, p := range []struct {
			queue string
			data  carillon.Data
			want  any
		}{
			{"struct", carillon.JSON(map[string]int{"n": 7}), 7}, {"struct", carillon.Data{}, 0},
			{"pointer", carillon.JSON(map[string]int{"n": 7}), false}, {"pointer", carillon.Data{}, true},
			{"bytes", carillon.Bytes([]byte("\x00x"), "application/x"), "\x00x"},
			{"data", carillon.Bytes([]byte("\x00x"), "application/x"), "application/x"},
			{"raw", carillon.JSON(1), "1"},
		} {
			r := run(fmt.Sprint(i))
			r.Queue, r.Data = p.queue, p.data
			c.deliver(r)
			if g := <-got; g != p.want {
				t.Errorf("%s of %q: %v", p.queue, p.data.Bytes, g)
			}
		}
		c.ack(c.sent().Results)
		bad := run("bad")
		bad.Queue, bad.Data = "struct", carillon.Bytes([]byte("{"), "")
		c.deliver(bad)
		results := c.sent().Results
		if len(results) != 1 || !results[0].Permanent ||
			!strings.Contains(results[0].Message, "the payload (1 bytes, of no content type)") {
			t.Errorf("undecodable: %+v", results)
		}
		c.ack(results)
		leaveAndWait(t, s, leave, left)
	})
}
