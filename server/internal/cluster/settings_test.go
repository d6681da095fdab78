package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
)

// TestDifferentMustSettingIsRefused: a node that differs from a living node is refused, with the flag and
// both values in the error, and owns nothing meanwhile.
func TestDifferentMustSettingIsRefused(t *testing.T) {
	ttl := func(value string) cluster.Setting {
		return cluster.Setting{Name: "lease-ttl", Value: value, Must: true}
	}
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		old := f.start("old") // of a version that says nothing
		a := f.start("a", ttl("4s"))
		b := f.start("b", ttl("4s"))
		f.settle(2*time.Second, old, a, b)
		_, err := f.try("c", ttl("10s"))
		if err == nil {
			t.Fatal("it takes part")
		}
		for _, want := range []string{"lease_ttl: ", "--lease-ttl 10s", "\"a\"", "4s"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %v", want, err)
			}
		}
		if s, err := a.ClusterStatus(t.Context()); err != nil || len(s.Nodes) != 3 || len(s.Warnings) != 0 {
			t.Errorf("status %+v, %v", s, err)
		}
		for _, n := range []*node{a, b} { // the documented way to change it
			n.end()
			if err := n.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.settle(2*time.Second, old, f.start("a", ttl("10s")), f.start("b", ttl("10s")))
	})
}

// TestSettingOfSeveralFlags: it is no flag, and is not shown as one.
func TestSettingOfSeveralFlags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		f.settle(2*time.Second, f.start("a", cluster.Setting{Name: "TLS between nodes", Value: "true", Must: true}))
		_, err := f.try("b", cluster.Setting{Name: "TLS between nodes", Value: "false", Must: true})
		if err == nil || !strings.Contains(err.Error(), "started with TLS between nodes false, and node \"a\"") {
			t.Errorf("%v", err)
		}
	})
}

// TestOwnOldMemberIsNotCompared: a node that was killed and starts again with another value is not refused
// because of its own old member.
func TestOwnOldMemberIsNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a := f.start("a", cluster.Setting{Name: "lease-ttl", Value: "4s", Must: true})
		f.settle(2*time.Second, a)
		a.kill()
		f.settle(5*time.Second, f.start("a", cluster.Setting{Name: "lease-ttl", Value: "10s", Must: true}))
	})
}

// TestDifferentSettingIsLoggedOnce: differences are logged once, and shown as long as they last.
func TestDifferentSettingIsLoggedOnce(t *testing.T) {
	allow := func(value string) cluster.Setting { return cluster.Setting{Name: "allow-target", Value: value} }
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a, b, c := f.start("a", allow("none")), f.start("b", allow("none")), f.start("c", allow("10.0.0.0/8"))
		f.settle(3*time.Second, a, b, c)
		sleep(10 * time.Second)
		const want = "--allow-target differs: 10.0.0.0/8 on c; none on a, b"
		s, err := b.ClusterStatus(t.Context())
		if err != nil || len(s.Warnings) != 1 || s.Warnings[0] != want {
			t.Errorf("status %q, %v", s.Warnings, err)
		}
		if n := a.log.count(want); n != 1 {
			t.Errorf("told %d times", n)
		}
		c.end()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		c = f.start("c", allow("none"))
		f.settle(3*time.Second, a, b, c)
		sleep(2 * time.Second)
		if s, err := b.ClusterStatus(t.Context()); err != nil || len(s.Warnings) != 0 ||
			a.log.count("the same settings again") != 1 {
			t.Errorf("status %q, %v", s.Warnings, err)
		}
	})
}
