package chaos

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// examine has `carillon doctor` look at what a killed node has left in its folder: each state of a store is
// one in which nothing is wrong. On a server a node lives on for some seconds after it was killed.
func (c *campaign) examine(ctx context.Context) error {
	if !strings.HasPrefix(c.node.Store, "pebble:") {
		return nil
	}
	out, err := exec.CommandContext(ctx, c.node.Binary, "doctor", "--store", c.node.Store).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "unknown command") { // an older build
		return fmt.Errorf("carillon doctor: %w\n%s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	c.o.Log("carillon doctor: %s", line)
	return nil
}
