package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// process is what /proc says about one.
type process struct {
	pid, parent int
	used        time.Duration // of itself and of its children that have ended
	resident    int64         // bytes
}

// treeCPU is the CPU time of a process and all below it, those that have ended included; 0 where there is no
// /proc. A process group would not do: each of PostgreSQL's backends makes a session of its own.
func treeCPU(root int) time.Duration {
	var sum time.Duration
	for _, p := range tree(root) {
		sum += p.used
	}
	return sum
}

// treeResident is the resident memory of a process and all below it, in bytes; 0 where there is no /proc.
func treeResident(root int) int64 {
	var sum int64
	for _, p := range tree(root) {
		sum += p.resident
	}
	return sum
}

// tree is a process and all below it.
func tree(root int) []process {
	children := map[int][]process{}
	var all []process
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
		if p.pid == root {
			all = append(all, p)
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all
}

// processes are all of this machine; one that ends meanwhile is left out.
func processes() []process {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	all := make([]process, 0, len(files))
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if p, ok := parseStat(stat); ok {
			all = append(all, p)
		}
	}
	return all
}

// parseStat reads a line of /proc/PID/stat; field 2, the name in parentheses, may hold anything.
func parseStat(stat []byte) (p process, ok bool) {
	// field 3 is the first after the name; 14 to 17 are times
	const parent, user, last, pages = 4 - 3, 14 - 3, 17 - 3, 24 - 3
	pid, err := strconv.Atoi(string(stat[:max(0, bytes.IndexByte(stat, ' '))]))
	if err != nil {
		return p, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= pages {
		return p, false
	}
	p.pid = pid
	if p.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return p, false
	}
	for _, f := range fields[user : last+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return p, false
		}
		p.used += time.Duration(n) * clockTick
	}
	if p.resident, err = strconv.ParseInt(fields[pages], 10, 64); err != nil {
		return p, false
	}
	p.resident *= int64(os.Getpagesize())
	return p, true
}
