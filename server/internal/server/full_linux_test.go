package server_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// small mounts a file system with room for a database and not much more. fill leaves nothing of it, and free
// gives it back.
func small(t *testing.T) (folder string, fill, free func()) {
	t.Helper()
	disk := t.TempDir()
	if os.Geteuid() == 0 {
		disk = realserver.Folder(t, "postgres")
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=32m"); err != nil {
		if os.Getenv("CARILLON_TEST_REQUIRE") == "all" {
			t.Fatalf("a file system cannot be mounted here: %v", err)
		}
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) }) // the server may still have files of it
	owner, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(owner.Uid)
	if err := os.Chown(disk, uid, -1); err != nil {
		t.Fatal(err)
	}
	eater := filepath.Join(disk, "eater")
	return disk, func() {
			f, err := os.Create(eater)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for chunk := make([]byte, 1<<12); err == nil; {
				_, err = f.Write(chunk)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}, func() {
			if err := os.Remove(eater); err != nil {
				t.Fatal(err)
			}
		}
}

// TestPutsOnAFullDiskAreRefused fills the disk on which a database has its tables: puts are answered at once
// and for certain, with the reason, and are taken again when there is room.
func TestPutsOnAFullDiskAreRefused(t *testing.T) {
	folder, fill, free := small(t)
	p := realserver.StartPostgres(t, realserver.Volatile()...)
	p.Exec(t, "postgres", "CREATE TABLESPACE small LOCATION '"+folder+"'")
	p.Exec(t, "postgres", "CREATE DATABASE crammed TABLESPACE small")
	s := serve(t, server.Config{Store: p.URL("crammed"), Name: "node", Partitions: 4})
	sched := dial(t, s)
	payload := carillon.Data{ContentType: "application/octet-stream", Bytes: make([]byte, 64<<10)}
	if _, err := rand.Read(payload.Bytes); err != nil { // which cannot be compressed
		t.Fatal(err)
	}
	put := func(ctx context.Context, i int) error {
		_, err := sched.PutJob(ctx, carillon.Job{Name: fmt.Sprint("job/", i), Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue(queue),
			Data:   payload})
		return err
	}
	if err := put(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	fill()
	for i, refused := 1, 0; refused < 12; i++ {
		err := put(t.Context(), i)
		if err == nil {
			continue
		}
		refused++
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.Unavailable || e.Unknown ||
			!strings.Contains(e.Message, "No space left on device") {
			t.Errorf("%#v", err)
		}
	}
	free()
	eventually(t, "puts are taken again", func() bool { return put(t.Context(), 1000) == nil })
}
