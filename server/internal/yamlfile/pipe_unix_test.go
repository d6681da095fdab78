//go:build unix

package yamlfile_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/carillonhq/carillon/server/internal/yamlfile"
)

// TestANamedPipeIsRefused: to open it would wait for who writes.
func TestANamedPipeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := yamlfile.Bytes(path); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("%v", err)
	}
}
