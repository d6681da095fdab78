package etcdfolder

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// limitMemory has the process end when it takes so many bytes more than now. Files that are mapped do not
// count: the database is.
func limitMemory(most uint64) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	var now uint64
	_, line, found := bytes.Cut(status, []byte("\nVmData:"))
	if found {
		_, err = fmt.Sscan(string(line), &now)
	}
	if !found || err != nil {
		return fmt.Errorf("/proc/self/status does not say how much memory the process has: %w", err)
	}
	most += now << 10
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("the limit of memory: %w", err)
	}
	limit.Cur = min(most, limit.Cur)
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("the limit of memory: %w", err)
	}
	return nil
}
