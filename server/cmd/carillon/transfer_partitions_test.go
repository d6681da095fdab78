package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/golden"
)

// TestPartitions goes through what the commands take for another number of partitions, and what they refuse.
func TestPartitions(t *testing.T) {
	dir := t.TempDir()
	from, err := golden.Store(4, dir)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	try := func(code int, want string, args ...string) {
		t.Helper()
		if is, out, errs := outputOf(args...); is != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, is, out, errs, code, want)
		}
	}
	migrate := func(to string, more ...string) []string {
		return append([]string{"migrate", "--from", from, "--to", "pebble:" + at(to)}, more...)
	}
	file := at("file")
	try(exitDone, "written to", "backup", "--store", from, file)
	for _, n := range []string{"0", "-1", "65536"} {
		try(exitUsage, "--partitions is "+n+": a store has 1 to 65535", migrate("a", "--partitions", n)...)
		try(exitUsage, "--partitions is "+n, "restore", "--store", "pebble:"+at("a"), "--partitions", n, file)
	}
	try(exitUsage, "is not a whole number", migrate("a", "--partitions", "many")...)
	try(exitUsage, "stop the nodes, and run the command without --live", migrate("a", "--partitions", "3", "--live")...)
	try(exitUsage, "leave --partitions out", "restore", "--check", "--partitions", "3", file)
	try(exitUsage, "carillon migrate --partitions", "restore", "--store", "pebble:"+at("a"), "--partitions", "3", dir)
	try(exitFailed, "partitions already", migrate("a", "--partitions", "4")...)

	try(exitDone, "restored, and read back", "restore", "--store", "pebble:"+at("restored"), "--partitions", "3", file)
	try(exitDone, "moved, and read back", migrate("b", "--partitions", "9")...)
	try(exitFailed, "has moved", migrate("c", "--partitions", "3")...)
	for name, n := range map[string]string{"restored": "3", "b": "9"} {
		try(exitDone, n+" partitions were examined", "doctor", "--store", "pebble:"+at(name))
	}
	from = "pebble:" + at("b")
	try(exitFailed, "in use already", "migrate", "--from", "pebble:"+at("restored"), "--to", from, "--partitions", "9")
}
