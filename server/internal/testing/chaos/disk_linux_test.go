package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	sched "github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

// TestDiskFull fills the disk under a node: a small file system of its own, with a file beside the store that
// eats the room.
func TestDiskFull(t *testing.T) {
	binary := carillonBinary(t)
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64m"); err != nil {
		skipUnlessRequiredf(t, "a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	eater := filepath.Join(disk, "eater")
	trouble(t, binary, filepath.Join(disk, "store"), "the disk is full",
		func(*chaos.Node) error {
			f, err := os.Create(eater)
			if err != nil {
				return err
			}
			chunk := make([]byte, 1<<16)
			for err == nil {
				_, err = f.Write(chunk)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				return errors.Join(err, f.Close())
			}
			return f.Close()
		},
		func(*chaos.Node) error { return os.Remove(eater) })
}

// TestFileSizeLimit forbids a node, while it runs, to make its files any longer. It needs no rights that a
// user has not.
func TestFileSizeLimit(t *testing.T) {
	trouble(t, carillonBinary(t), filepath.Join(t.TempDir(), "store"), "file too large",
		func(n *chaos.Node) error { return limitFiles(n.PID(), 4096) },
		func(n *chaos.Node) error { return limitFiles(n.PID(), ^uint64(0)) })
}

// limitFiles sets the soft limit RLIMIT_FSIZE of a process.
func limitFiles(pid int, bytes uint64) error {
	limit := syscall.Rlimit{Cur: bytes, Max: ^uint64(0)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func skipUnlessRequiredf(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CARILLON_TEST_REQUIRE") == "all" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// trouble breaks the disk of a node and heals it. Meanwhile nothing is acknowledged, and the answers, the
// readiness and the metrics say why; the node lives and can be read. Afterwards it goes on although nobody
// asks for anything; what it acknowledged is there, also after SIGKILL.
func trouble(t *testing.T, binary, folder, why string, hurt, heal func(*chaos.Node) error) {
	t.Helper()
	n := newNode(t, binary, "pebble:"+folder)
	up(t, n)
	c := dial(t, n)
	acked := fill(t, c, 0, "before", nil)
	must(t, hurt(n))
	acked = append(acked, fill(t, c, 1<<20, "while", func(err error) bool { return refused(t, err, why) })...)
	for i := range 30 {
		err := put(t, c, fmt.Sprintf("refused/%d", i))
		refused(t, err, why)
	}
	until(t, n, "/readyz", func(_ string, err error) bool {
		return err != nil && strings.Contains(err.Error(), why)
	})
	until(t, n, "/livez", func(_ string, err error) bool { return err == nil })
	until(t, n, "/metrics", func(body string, _ error) bool {
		return strings.Contains(body, "\ncarillon_store_writable 0\n")
	})
	present(t, c, acked)

	must(t, heal(n))
	until(t, n, "/readyz", func(_ string, err error) bool { return err == nil })
	until(t, n, "/metrics", func(body string, _ error) bool {
		return strings.Contains(body, "\ncarillon_store_writable 1\n")
	})
	acked = append(acked, fill(t, c, 0, "after", nil)...)
	present(t, c, acked)
	must(t, n.Kill())
	up(t, n)
	present(t, c, acked)
	absent(t, c)
}

// payload makes a disk fill soon.
var payload = sched.Bytes([]byte(strings.Repeat("Lorem ipsum dolor sit amet. ", 2000)), "text/plain")

func put(t *testing.T, c *client.Client, name string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.PutJob(ctx, sched.Job{Name: name, Due: sched.In(time.Hour),
		Target: sched.WorkerQueue("q"), Data: payload})
	return err
}

// fill puts jobs until one is refused as stop says, or 50 if nothing is to be refused, and returns the
// acknowledged ones.
func fill(t *testing.T, c *client.Client, most int, prefix string, stop func(error) bool) (acked []string) {
	t.Helper()
	for i := range max(50, most) {
		name := fmt.Sprintf("%s/%d", prefix, i)
		err := put(t, c, name)
		switch {
		case err == nil:
			acked = append(acked, name)
		case stop == nil:
			t.Fatalf("put %s: %v", name, err)
		case stop(err):
			return acked
		}
	}
	if stop != nil {
		t.Fatal("the disk never failed")
	}
	return acked
}

func refused(t *testing.T, err error, why string) bool {
	t.Helper()
	if !errors.Is(err, sched.Unavailable) || !strings.Contains(err.Error(), why) {
		t.Errorf("refused with %v, which is not unavailable because %q", err, why)
	}
	return true
}

func present(t *testing.T, c *client.Client, names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, name := range names {
		j, err := c.GetJob(ctx, sched.Key{Namespace: sched.DefaultNamespace, Name: name})
		if err != nil {
			t.Errorf("%s was acknowledged: %v", name, err)
		} else if !bytes.Equal(j.Data.Bytes, payload.Bytes) {
			t.Errorf("the payload of %s has changed", name)
		}
	}
}

// absent checks that what was certainly refused is not there.
func absent(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	page, err := c.ListJobs(ctx, sched.JobQuery{Prefix: "refused/"})
	must(t, err)
	for _, j := range page.Jobs {
		t.Errorf("%s was refused, and is there", j.Name)
	}
}
