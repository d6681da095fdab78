package redis_test

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/redis"
)

// TestAServerThatIsStarting answers everything with an error that passes: the store is away, and is waited
// for. Any other answer is for people.
func TestAServerThatIsStarting(t *testing.T) {
	for answer, away := range map[string]bool{
		"LOADING Redis is loading the dataset in memory": true,
		"MASTERDOWN Link with MASTER is down":            true,
		"NOAUTH Authentication required.":                false,
	} {
		t.Run(answer, func(t *testing.T) {
			_, err := redis.Open(t.Context(), redis.Options{Addresses: []string{answering(t, answer)}, Partitions: 1})
			if err == nil || errors.Is(err, store.ErrAway) != away {
				t.Errorf("away is to be %v: %v", away, err)
			}
		})
	}
}

// answering is the address of a server that answers every command with one error.
func answering(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close() // what it returns is of no interest here
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if line := lines.Text(); line == "" || line[0] != '*' {
						continue
					}
					if _, err := conn.Write([]byte("-" + answer + "\r\n")); err != nil {
						return
					}
				}
			})
		}
	})
	return listener.Addr().String()
}
