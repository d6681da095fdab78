package multisession

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestTokenSetRemembersAMinute: a token is remembered for a minute at least, and not much longer, whether
// others come or not.
func TestTokenSetRemembersAMinute(t *testing.T) {
	for _, others := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var m tokenSet
			m.add("before")
			<-time.After(50 * time.Second)
			m.add("token")
			for range 60 {
				<-time.After(time.Second)
				if m.empty() || !m.has("token") {
					t.Fatal("it is forgotten")
				}
				if others {
					m.add("other")
				}
			}
			<-time.After(2 * time.Minute)
			if others {
				m.add("other")
			}
			if m.empty() == others || m.has("token") {
				t.Errorf("it is remembered, with others: %v", others)
			}
		})
	}
}

// TestTokenSetIsBounded: of very many tokens the newest are remembered.
func TestTokenSetIsBounded(t *testing.T) {
	var m tokenSet
	for i := range 4 * maxRoutes {
		m.add(strconv.Itoa(i))
		if n := len(m.recent) + len(m.old); n > 2*maxRoutes || !m.has(strconv.Itoa(max(0, i-maxRoutes/2))) {
			t.Fatalf("after %d it remembers %d", i, n)
		}
	}
}
