package main

import "testing"

// TestWhatIsSuggestedWorks: who has a binary has no source beside it, and who runs the source may have no
// binary.
func TestWhatIsSuggestedWorks(t *testing.T) {
	for _, c := range []struct{ program, called, want string }{
		{"/usr/local/bin/carillon", "carillon", "carillon"},
		{"/home/me/bin/carillon", "./bin/carillon", "./bin/carillon"},
		{"/tmp/go-build381/b001/exe/carillon", "/tmp/go-build381/b001/exe/carillon",
			"go run ./server/cmd/carillon"},
		{"/root/.cache/go-build/ab/carillon", "/root/.cache/go-build/ab/carillon", "go run ./server/cmd/carillon"},
	} {
		if got := commandOf(c.program, c.called); got != c.want {
			t.Errorf("%s called as %s: got %q, want %q", c.program, c.called, got, c.want)
		}
	}
}
