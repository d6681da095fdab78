package chaos

import "testing"

// TestASocketIsNamedByBothPorts: a port is used for several connections at once, and for such as are closed.
func TestASocketIsNamedByBothPorts(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0100007F:0050 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   1: 0100007F:1F90 0100007F:0051 01 00000000:00000000 00:00000000 00000000     0        0 111 1 0
   2: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0
   3: 0100007F:0050 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 333 1 0
`
	for _, c := range []struct {
		from, to int
		want     string
	}{{8080, 80, "222"}, {8080, 81, "111"}, {80, 8080, "333"}, {8080, 82, ""}} {
		if got := inodeIn(table, c.from, c.to); got != c.want {
			t.Errorf("from %d to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}
