package server_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A client of Redis that could not be made leaves a goroutine that sleeps for a second and ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
