package main

import (
	"os"
	"testing"
)

// TestTheNullDeviceIsNoTerminal: services and cron read from it, and nobody is there who could answer a
// question.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	if isTerminal(null) {
		t.Errorf("%s is taken for a terminal", os.DevNull)
	}
}
