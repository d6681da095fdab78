package redis_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/link"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
)

// TestAWriteIsSentOnce loses the answer of a write and its connection: the library does not send the script
// again, and the outcome is unknown.
func TestAWriteIsSentOnce(t *testing.T) {
	r := realserver.StartRedis(t)
	k, err := link.Listen(r.Address(), link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	o := fresh(r)
	o.Addresses = []string{k.Address()}
	s := open(t, o)
	sh, _ := servertest.Own(t, s, 3)
	servertest.Want(t, "before", sh, servertest.Batch("a"), store.Applied)
	// A connection that is made during the cut is reset at its handshake, before the write. Each read draws
	// one of four: after so many all are there.
	for range 100 {
		servertest.WantNames(t, sh, "a")
	}
	r.Do(t, "CONFIG", "RESETSTAT")
	k.CutWay(link.Back, link.Broken)
	servertest.Want(t, "cut", sh, servertest.Batch("b"), store.Unknown)
	k.Heal()
	if n := scripts(t, r); n != 1 {
		t.Errorf("the write was sent %d times", n)
	}
	servertest.WantNames(t, sh, "a", "b")
}

// scripts is how many scripts that write a server has begun.
func scripts(t *testing.T, r *realserver.Redis) (n int) {
	t.Helper()
	for _, found := range regexp.MustCompile(`cmdstat_(?:eval|evalsha):calls=(\d+)`).FindAllStringSubmatch(r.Do(t, "INFO", "commandstats"), -1) {
		calls, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}
