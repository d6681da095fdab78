package server_test

import (
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// A client of Redis that could not be made leaves a goroutine that sleeps for a second and ends.
func TestMain(m *testing.M) {
	if os.Getenv(apart) != "" {
		m.Run() // what is halted is left to the end of the process
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// apart is set in a process of its own for one test.
const apart = "CARILLON_TEST_APART"

// inProcess runs the test in a process of its own: what damage has halted there ends with it.
func inProcess(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), apart+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}
