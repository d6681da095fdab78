package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// meter measures what processes use from a moment on. Where there is no /proc it measures nothing.
type meter struct {
	pids []int
	used time.Duration
}

// startMeter measures from now; pid 0 measures nothing.
func startMeter(pids ...int) *meter {
	m := &meter{pids: pids}
	m.used = m.total()
	return m
}

// total is the CPU time used by those of the processes that there are.
func (m *meter) total() (sum time.Duration) {
	for _, pid := range m.pids {
		if used, err := cpuTime(pid); err == nil {
			sum += used
		}
	}
	return sum
}

// each is the CPU time used since the start for each of n operations, in microseconds; a nil meter measures
// nothing.
func (m *meter) each(n int64) float64 {
	if m == nil || n <= 0 {
		return 0
	}
	return float64(m.cpu().Microseconds()) / float64(n)
}

// cpu is the CPU time used since the start.
func (m *meter) cpu() time.Duration { return m.total() - m.used }

// rss is the resident memory now, and how much of it are pages of files, above all of the program itself: the
// machine keeps those once for all processes, and takes them back when it needs room.
func (m *meter) rss() (sum, files int64) {
	for _, pid := range m.pids {
		all, file, err := residentBytes(pid)
		if err == nil {
			sum, files = sum+all, files+file
		}
	}
	return sum, files
}

// cpuTime is the user and system time that a process has used.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(stat)
}

// parseCPU reads fields 14 and 15 of /proc/PID/stat; field 2, the name in parentheses, may hold anything.
func parseCPU(stat []byte) (time.Duration, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 14 - 3, 15 - 3 // field 3 is the first after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc stat has %d fields after the name", len(fields))
	}
	var sum time.Duration
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * clockTick
	}
	return sum, nil
}

// residentBytes are VmRSS and RssFile of /proc/PID/status.
func residentBytes(pid int) (all, files int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseResident(string(status))
}

func parseResident(status string) (all, files int64, err error) {
	for name, into := range map[string]*int64{"VmRSS": &all, "RssFile": &files} {
		_, rest, ok := strings.Cut("\n"+status, "\n"+name+":")
		if !ok && name == "RssFile" { // some sandboxes do not tell
			continue
		}
		if !ok {
			return 0, 0, fmt.Errorf("no %s in /proc status", name)
		}
		line, _, _ := strings.Cut(rest, "\n")
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s of /proc status: %w", name, err)
		}
		*into = kb << 10
	}
	return all, files, nil
}
