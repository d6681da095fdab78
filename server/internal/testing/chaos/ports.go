package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Nodes keep their ports while they are down, and several test programs start nodes at a time. So a program
// takes ports by the hundred, below those that systems give to connections, and says so by listening at the
// first of them for as long as it lives.
const (
	lowestPort = 12_000
	blocks     = 200
	blockSize  = 100
)

// given is what this program has of them.
var given struct {
	mu        sync.Mutex
	sign      net.Listener // at the first port of the block; never closed
	next, end int
}

// freeAddress is one that nobody listens at and that no other node has been given.
func freeAddress() (string, error) {
	given.mu.Lock()
	defer given.mu.Unlock()
	for range blocks * blockSize {
		if given.next == given.end {
			if err := takeBlock(); err != nil {
				return "", err
			}
		}
		address := loopback(given.next)
		given.next++
		if l, err := net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("no port from %d to %d is free", lowestPort, lowestPort+blocks*blockSize-1)
}

// takeBlock takes the next ports, which no other program of this kind has.
func takeBlock() (err error) {
	for _, i := range rand.Perm(blocks) {
		first := lowestPort + i*blockSize
		if given.sign, err = net.Listen("tcp", loopback(first)); err == nil {
			given.next, given.end = first+1, first+blockSize
			return nil
		}
	}
	return fmt.Errorf("take ports for nodes: %w", err)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
