package kafka_test

import (
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
)

// A login that is refused later has sent nothing, also to a topic that was not known yet.
func TestLoginFailsLater(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "odd", "even"), kfake.EnableSASL(),
		kfake.Superuser(kafka.Plain, "u", "p"))
	must(t, err)
	t.Cleanup(cluster.Close)
	var refuses atomic.Bool
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		out := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		out.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return out, nil, refuses.Load()
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, io.EOF, refuses.Load() // the connection ends
	})
	c := client(t, kafka.Options{Addresses: cluster.ListenAddrs(), Mechanism: kafka.Plain, User: "u", Password: "p"})
	allDone(t, publish(t, c, messages("even", "a", 1)...))
	refuses.Store(true)
	for range 2 {
		all(t, publish(t, c, messages("odd", "b", 3)...), broker.ErrUnsent)
	}
	refuses.Store(false)
	allDone(t, publish(t, c, messages("odd", "c", 3)...))
}

// A broker that goes while nothing is under way gets nothing.
func TestDiesIdle(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "odd"))
	must(t, err)
	t.Cleanup(cluster.Close)
	c := client(t, kafka.Options{Addresses: cluster.ListenAddrs()})
	allDone(t, publish(t, c, messages("odd", "a", 1)...))
	cluster.Close()
	for end := time.Now().Add(patience); c.Reached(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the client did not see it go")
		}
	}
	begun := c.Begun()
	all(t, publish(t, c, messages("odd", "b", 3)...), broker.ErrUnsent)
	if c.Begun() != begun {
		t.Error("something was sent")
	}
}
