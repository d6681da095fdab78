package chaos_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// TestPostgresGoes ends the server of the store by force while jobs are put, and starts it again. The node
// lives, says why it is not ready, and goes on by itself; what it acknowledged is there, also after SIGKILL.
func TestPostgresGoes(t *testing.T) {
	binary := carillonBinary(t)
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	n := newNode(t, binary, server.Database(t), "--node-name", "node")
	up(t, n)
	c := dial(t, n)
	for round := range 2 {
		acked := make(chan []string, 1)
		begun := make(chan struct{})
		go func() { // until the server is gone
			var names []string
			for i := 0; ; i++ {
				name := fmt.Sprintf("round-%d/%d", round, i)
				if put(t, c, name) != nil {
					acked <- names
					return
				}
				if names = append(names, name); len(names) == 5 {
					close(begun)
				}
			}
		}()
		<-begun
		server.Crash(t)
		names := <-acked
		until(t, n, "/readyz", func(_ string, err error) bool {
			return err != nil && strings.Contains(err.Error(), "store")
		})
		until(t, n, "/livez", func(_ string, err error) bool { return err == nil })
		server.Up(t)
		until(t, n, "/readyz", func(_ string, err error) bool { return err == nil })
		present(t, c, append(names, fill(t, c, 0, fmt.Sprint("after-", round), nil)...))
		if round == 1 {
			must(t, n.Kill())
			up(t, n)
			present(t, c, names)
		}
	}
}

// TestTwoNodesOnePostgres starts a second node under the name of a first one: it is refused. When the first
// was killed, another of that name takes its place.
func TestTwoNodesOnePostgres(t *testing.T) {
	binary := carillonBinary(t)
	server := realserver.StartPostgres(t, realserver.Volatile()...)
	url := server.Database(t)
	first, second, third := newNode(t, binary, url), newNode(t, binary, url), newNode(t, binary, url)
	up(t, first)
	c := dial(t, first)
	acked := fill(t, c, 0, "first", nil)
	must(t, second.Start())
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case <-second.Exited():
	case <-patient.C:
		t.Fatalf("the second node goes on: %s", second.Log())
	}
	if !strings.Contains(second.Log(), "is the name of a node that lives") {
		t.Errorf("the second node says: %s", second.Log())
	}
	acked = append(acked, fill(t, c, 0, "again", nil)...)
	must(t, first.Kill())
	up(t, third)
	present(t, dial(t, third), acked)
}
